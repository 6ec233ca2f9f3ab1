//! Counters that differ from their facts.

use super::{
    CONFIG, ROUNDS, Recording, of_redis, start, start_schema_migration, wait_until_collected,
};
use crate::support::stores::adoptable;
use crate::support::{Countd, Running, Settings, metric, on_note, set_schema};
use countint_tests::{Clock, Server, reply, wait_until};

/// The table of notes with the counters of note 1. It exists.
fn table(server: &Server) -> String {
    let keys = reply::array(server.client().ok("KEYS tab:v1:note:*"));
    let keys: Vec<String> = keys.into_iter().map(reply::text).collect();
    let [key] = keys.as_slice() else {
        panic!("one table, not {keys:?}");
    };
    key.clone()
}

#[test]
fn sabotaged_counters_are_noticed() {
    let server = Server::start();
    let countd = Countd::start(&server, &format!("{CONFIG}{ROUNDS}"));
    let api = countd.api();
    for user in 0..3 {
        api.act("like", on_note(1, user));
    }
    let table = table(&server);
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let mut client = server.client();
    let corrections = "countd_corrections_total{source=\"reconcile\"}";
    // Something changes the counter again after each correction. The second field is that of likes.
    let mut corrected = 0;
    client.ok(&format!("CTAB.BATCHINCR {table} 1 LEN 5 1 5"));
    wait_until("the counter does not converge", || {
        let found = metric(&api, corrections);
        if found > corrected {
            corrected = found;
            client.ok(&format!("CTAB.BATCHINCR {table} 1 LEN 5 1 5"));
        }
        metric(&api, "countd_unconverged") == 1
    });
    client.ok(&format!("CTAB.INCRBY {table} 1 0 -1"));
    wait_until("the saturation is collected", || {
        of_redis(&countd, &server, "saturations_total") > 0
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(
        &[
            "CountdCorrections",
            "CountdUnconverged",
            "CountdSaturations",
        ],
        10,
    );
}

/// An adoption that was killed and not resumed.
#[test]
fn unfinished_migrations_are_noticed() {
    let mut store = adoptable();
    let countd = Countd::start(&store.server, CONFIG);
    let mut recording = Recording::default();
    wait_until_collected(&countd);
    recording.scrape(&[("countd", &countd)]);
    store.server.load_module();
    let mut adopting = Running::start(&store.server, CONFIG, &["storage", "adopt", "--grace", "1"]);
    assert!(adopting.wait_for_step("waiting for all processes", 1));
    adopting.kill();
    wait_until("the process tells it", || {
        metric(&countd.api(), "countd_storage_unfinished") == 1
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdStorageMigrationUnfinished"], 1_460);
}

/// A migration of a schema that was killed and not resumed.
#[test]
fn unfinished_migrations_of_schemas_are_noticed() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let mut recording = Recording::default();
    wait_until_collected(&countd);
    recording.scrape(&[("countd", &countd)]);
    let mut migrating = start_schema_migration(&server, CONFIG);
    assert!(migrating.wait_for_step("waiting for all processes", 1));
    migrating.kill();
    wait_until("the process tells it", || {
        let (_, text) = countd.api().try_get("/metrics").expect("a response");
        text.contains("\ncountd_schema_migration_reads_ratio{")
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdSchemaMigrationUnfinished"], 1_460);
}

/// A split whose command was killed, and not resumed within ten minutes.
#[test]
fn unfinished_splits_are_noticed() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let mut recording = Recording::default();
    wait_until_collected(&countd);
    recording.scrape(&[("countd", &countd)]);
    let mut splitting = Running::start(&server, CONFIG, &["hot", "split", "note:1"]);
    assert!(splitting.wait_for_step("waiting for all processes", 1));
    splitting.kill();
    wait_until("the process tells it", || {
        metric(&countd.api(), "countd_split_entities{phase=\"splitting\"}") == 1
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdSplitUnfinished"], 15);
}

#[test]
fn lost_tables_are_noticed() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    api.act("like", on_note(1, 1));
    api.act("read", on_note(1, 1));
    wait_until("the read is counted", || api.counts(1)["read"] == 1);
    let table = table(&server);
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let before = metric(&api, "countd_lost_tables_total");
    server.client().ok(&format!("DEL {table}"));
    api.act("read", on_note(1, 2));
    wait_until("the table is lost", || {
        metric(&api, "countd_lost_tables_total") > before
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdLostTables"], 5);
}

#[test]
fn comparisons_that_stop_are_noticed() {
    let server = Server::start();
    let config = format!("{CONFIG}{ROUNDS}");
    set_schema(&server, &config);
    let clock = Clock::new();
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let countd = Countd::with_clock(&server, &settings, &clock);
    let api = countd.api();
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    // Its likes are counted by the consumer.
    let metrics = "[metrics.like]\nnature = \"once\"\ncount = \"batched\"\nreverse = true\nusers = [{ counter = \"likesReceived\", of = \"author\" }]\n";
    let _other = start(&server, "serve", &format!("{config}{metrics}"));
    let value = |name: &str| metric(&api, name);
    wait_until("comparisons stop", || {
        value("countd_reconcile_stopped") == 1
    });
    // No sweep ends any more.
    clock.set(26 * 3600);
    wait_until("a day has passed", || {
        value("countd_reconcile_sweep_seconds") > 86_400
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdReconcileStopped", "CountdSweepsLate"], 70);
}
