//! Migrations that would not be right are refused, and change nothing.

use super::setup::{CONFIG, PARTITIONS, arguments, assert_refused, migrate, set_schemas};
use crate::support::stores::module;
use crate::support::workload::DAILY;
use crate::support::{
    Countd, Settings, on_note, printed, run, wait_until_days_are_kept, wait_until_drained,
};
use countint_tests::{Server, reply};

/// Runs `countd schema migrate` with these words.
#[track_caller]
fn assert_words_refused(server: &Server, words: &str, with: &str) {
    let words: Vec<&str> = ["schema", "migrate"]
        .into_iter()
        .chain(words.split(' '))
        .collect();
    let output = run(server, &CONFIG, &words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains(with),
        "{words:?}: {errors}"
    );
}

#[test]
fn reads_do_not_switch_if_a_counter_differs_from_what_it_counts() {
    let store = module();
    let server = &store.server;
    set_schemas(server);
    let (command, config): (_, &str) = ("all", &CONFIG);
    let countd = Countd::with(server, &Settings { command, config });
    let api = countd.api();
    for note in 0..50 {
        api.act("like", on_note(note, 1));
    }
    wait_until_drained(server, PARTITIONS);
    wait_until_days_are_kept(std::slice::from_ref(server), DAILY.len());
    migrate(server, &[]);
    let table = store.table("v1", "note:7", PARTITIONS);
    server.client().ok(&format!("CTAB.INCRBY {table} 7 1 1"));
    assert_refused(server, &["--percent", "10"], "compared counters differ");
    assert!(migrate(server, &["--status"]).contains("read-new, reads of 0 %"));
    assert_eq!(api.counts(8)["like"], 1, "reads have not switched");
    printed(&run(server, config, &["reconcile", "--all", "--exact"]));
    migrate(server, &["--percent", "100"]);
    assert_eq!(api.counts(7)["liked"], 1);
    // The end compares, too.
    server.client().ok(&format!("CTAB.INCRBY {table} 7 1 -1"));
    assert_refused(server, &["--done"], "compared counters differ");
    assert!(migrate(server, &["--status"]).contains("read-new, reads of 100 %"));
    // Fewer reads of the new schema need no comparison.
    migrate(server, &["--percent", "5"]);
    migrate(server, &["--rollback"]);
}

/// Comparisons leave out counters whose totals and days are behind them.
#[test]
fn reads_do_not_switch_while_counts_by_day_are_not_complete() {
    let server = Server::start();
    set_schemas(&server);
    let (command, config): (_, &str) = ("all", &CONFIG);
    let mut countd = Countd::with(&server, &Settings { command, config });
    wait_until_days_are_kept(std::slice::from_ref(&server), DAILY.len());
    migrate(&server, &[]);
    // A consumer would record them at once.
    countd.stop();
    server
        .client()
        .ok("HSET countd:days-init like 2026-11-30/filling");
    let reason = "counts by day of like are not complete";
    assert_refused(&server, &["--percent", "10"], reason);
    assert!(migrate(&server, &["--status"]).contains("read-new, reads of 0 %"));
}

#[test]
fn schemas_that_do_not_fit_are_refused() {
    let server = Server::start();
    set_schemas(&server);
    let before = reply::array(server.client().ok("HGETALL countd:layout")).len();
    printed(&run(
        &server,
        &CONFIG,
        &["schema", "set", "v3", "like", "fav"],
    ));
    for (words, problem) in [
        ("v1 v1", "a migration has two schemas"),
        ("v1 user", "a migration has two schemas"),
        ("v1 v9", "there is no schema v9"),
        ("v2 v1", "no entity type of the configuration has schema v2"),
        ("v1 v3 --map like=fav --map fav=like", "another counter"),
        ("v1 v3 --map like=liked", "v3 has no counter liked"),
        ("v1 v3 --map likes=like", "v1 has no counter likes"),
        ("v1 v2 --map like=liked --map like=favs", "the same counter"),
    ] {
        assert_words_refused(&server, words, problem);
    }
    assert_refused(&server, &["--rollback"], "");
    let after = reply::array(server.client().ok("HGETALL countd:layout")).len();
    assert_eq!(before, after, "nothing was recorded");
}

#[test]
fn a_migration_that_is_under_way_excludes_others() {
    let server = Server::start();
    set_schemas(&server);
    printed(&run(
        &server,
        &CONFIG,
        &["schema", "set", "v3", "like", "read"],
    ));
    let (command, config): (_, &str) = ("all", &CONFIG);
    let _countd = Countd::with(&server, &Settings { command, config });
    migrate(&server, &[]);
    assert_words_refused(
        &server,
        "v1 v3",
        "the migration of schema v1 to v2 is under way",
    );
    migrate(&server, &["--rollback"]);
    let words = "schema migrate v1 v3 --percent 100"
        .split(' ')
        .collect::<Vec<_>>();
    printed(&run(&server, &CONFIG, &words));
    // A counter that was added or renamed before stays the one that it was.
    let words = ["schema", "extend", "v1", "share"];
    assert!(!run(&server, &CONFIG, &words).status.success());
    printed(&run(
        &server,
        &CONFIG,
        &["schema", "migrate", "v1", "v3", "--rollback"],
    ));
    assert_words_refused(
        &server,
        "v1 v2 --map like=favs --map fav=liked",
        "has been the counter",
    );
    migrate(&server, &["--percent", "100"]);
}

#[test]
fn counters_that_the_new_schema_has_already_are_not_hidden() {
    let store = module();
    let server = &store.server;
    set_schemas(server);
    let table = store.table("v2", "note:7", PARTITIONS);
    server
        .client()
        .ok(&format!("CTAB.INCRBY {table} 7 1 1 LEN 5"));
    assert_refused(server, &[], "has counters of schema v2");
    assert!(migrate(server, &["--status"]).contains("not begun"));
    // Those of other types do not matter.
    server.client().ok(&format!("DEL {table}"));
    server.client().ok("CTAB.INCRBY tab:v2:photo:1 7 1 1 LEN 5");
    migrate(server, &[]);
}

#[test]
fn a_process_that_named_the_new_schema_before_uses_nothing() {
    let store = module();
    let server = &store.server;
    set_schemas(server);
    let named = format!("{}[entities]\nnote = \"v2\"\n", *CONFIG);
    let early = Countd::with(
        server,
        &Settings {
            command: "serve",
            config: &named,
        },
    );
    assert_eq!(early.api().get("/counter/note/1").0, 200);
    let mut migrating = super::setup::start(server, &[]);
    assert!(migrating.wait_for_step("waiting for all processes", 1));
    countint_tests::wait_until("the process refuses the data", || {
        early.api().post("/action/like", &on_note(1, 1)).0 == 503
    });
    drop(early);
    let (succeeded, _, errors) = migrating.end();
    assert!(succeeded, "{errors}");
}

#[test]
fn older_versions_refuse_data_whose_schema_was_migrated() {
    let server = Server::start();
    set_schemas(&server);
    migrate(&server, &[]);
    let mut client = server.client();
    // They know only `object`, `moving` and `table`.
    client.expect("HGET countd:layout storage:note", "\"table/v1\"");
    migrate(&server, &["--rollback"]);
    client.expect("HGET countd:layout storage:note", "\"table/v1\"");
    // The value of a later version.
    client.ok("HSET countd:layout schema:v1 \"v1 v2 half-done 0 9\"");
    let output = run(&server, &CONFIG, &arguments(&["--status"]));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("does not support"),
        "{errors}"
    );
}
