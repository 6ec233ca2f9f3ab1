//! The console and the metrics show which migrations are under way.

use super::setup::{CONFIG, migrate, set_schemas};
use crate::console::browser::Browser;
use crate::support::stores::module;
use crate::support::{Api, Countd, Settings, metric, set_schema};
use countint_tests::wait_until;

const RATIO: &str = "countd_schema_migration_reads_ratio";

/// Waits until a process exposes these samples of the metric, and no other.
#[track_caller]
fn wait_for_samples(api: &Api, expected: &[&str]) {
    wait_until(&format!("{expected:?} are exposed"), || {
        let (_, text) = api.try_get("/metrics").expect("a response");
        let found: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with(RATIO))
            .collect();
        text.contains("\ncountd_live_processes ") && found == expected
    });
}

fn sample(stage: &str, ratio: &str) -> String {
    format!("{RATIO}{{from=\"v1\",to=\"v2\",stage=\"{stage}\"}} {ratio}")
}

#[test]
fn a_migration_of_a_schema_is_shown_until_it_ends() {
    let store = module();
    let server = &store.server;
    set_schemas(server);
    let config = &format!("{}[monitor]\ninterval_seconds = 1\n", *CONFIG);
    let countd = Countd::with(
        server,
        &Settings {
            command: "all",
            config,
        },
    );
    let (api, browser) = (countd.api(), Browser::new(countd.port()));
    wait_for_samples(&api, &[]);
    let page = || browser.page("/admin/reconciliation");
    page().assert_has(&["None is under way."]);
    migrate(server, &[]);
    wait_for_samples(&api, &[&sample("read-new", "0")]);
    migrate(server, &["--percent", "25"]);
    wait_for_samples(&api, &[&sample("read-new", "0.25")]);
    page().assert_has(&[
        "Schema v1 to v2",
        "read-new, reads of 25 % of the entities return the new schema",
        "countd schema migrate v1 v2 --percent 100",
    ]);
    migrate(server, &["--percent", "100"]);
    wait_for_samples(&api, &[&sample("read-new", "1")]);
    page().assert_has(&["countd schema migrate v1 v2 --done"]);
    migrate(server, &["--done"]);
    wait_for_samples(&api, &[]);
    page().assert_has(&["None is under way."]);
}

#[test]
fn a_migration_of_the_storage_is_shown() {
    let store = module();
    let server = &store.server;
    let config = &format!("{}[monitor]\ninterval_seconds = 1\n", *CONFIG);
    set_schema(server, config);
    // As an interrupted migration leaves it.
    server.client().ok("HSET countd:layout storage:note moving");
    let countd = Countd::with(
        server,
        &Settings {
            command: "all",
            config,
        },
    );
    wait_until("the metric is exposed", || {
        metric(&countd.api(), "countd_storage_migration{etype=\"note\"}") == 1
    });
    let page = Browser::new(countd.port()).page("/admin/reconciliation");
    page.assert_has(&["Storage of note", "countd storage migrate note"]);
}
