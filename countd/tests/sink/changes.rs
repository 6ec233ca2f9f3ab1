//! Changes that are no actions: adjustments, resets, erasures and corrections.

use super::{PARTITIONS, Rows, Warehouse};
use crate::support::database::{Kind, for_each_database};
use crate::support::{Api, metric, on_note, printed, run, with};
use countint_tests::wait_until;
use serde_json::{Value as Json, json};

/// Starts the erasure of a path. Returns the path of the job.
fn delete(api: &Api, path: &str) -> String {
    let (status, job) = api.delete(path);
    assert_eq!(status, 202, "{job}");
    format!("/jobs/{}", job["id"].as_str().expect("an ID"))
}

fn state(api: &Api, job: &str) -> Json {
    api.ok(api.get(job))["state"].clone()
}

fn wait_until_erased(api: &Api, job: &str) {
    wait_until("the job has ended", || state(api, job) == "done");
}

fn changes_without_events_reach_the_tables(kind: Kind) {
    let warehouse = Warehouse::start(kind, "");
    let sink = warehouse.sink();
    warehouse.wait_for_pass(&sink, 1);
    let api = warehouse.api();
    let mut expected = Rows::default();
    for user in 1..=4 {
        api.act("like", on_note(1, user));
        api.act("like", on_note(2, user));
        api.act("read", on_note(1, user));
    }
    expected.like("1", 1..=4);
    expected.like("2", 1..=4);
    expected.count("1", "read", 4);
    warehouse.wait_for(&expected);
    let read = json!({ "etype": "note", "eid": 1, "metric": "read" });
    let adjust = with(read.clone(), json!({ "add": 38, "reason": "a test" }));
    api.ok(api.post("/counter/adjust", &adjust));
    expected.count("1", "read", 42);
    warehouse.wait_for(&expected);
    api.ok(api.post("/counter/reset", &read));
    expected.count("1", "read", 0);
    warehouse.wait_for(&expected);
    // A counter that was damaged is corrected by a comparison.
    let mut client = warehouse.store.server.client();
    let table = warehouse.store.table("v1", "note:1", PARTITIONS);
    client.ok(&format!("CTAB.BATCHINCR {table} 1 LEN 5 1 3"));
    assert_eq!(api.counts(1)["like"], 7);
    printed(&run(
        &warehouse.store.server,
        &warehouse.config,
        &["reconcile", "--all"],
    ));
    assert_eq!(api.counts(1)["like"], 4);
    // Nothing else has told the sink.
    warehouse.wait_for(&expected);
    let job = delete(&api, "/user/3");
    wait_until_erased(&api, &job);
    for note in ["1", "2"] {
        expected.details.remove(&("3".to_owned(), note.to_owned()));
        expected.like(note, []);
    }
    // The job has ended after the rows were deleted.
    assert_eq!(warehouse.rows(), expected);
    let job = delete(&api, "/entity/note/1");
    wait_until_erased(&api, &job);
    expected.details.retain(|(_, note)| note != "1");
    expected.like("1", []);
    assert_eq!(warehouse.rows(), expected);
    assert_eq!(metric(&sink.api(), "countd_sink_passes_total"), 1);
}

/// A job waits until the rows are deleted.
fn an_erasure_waits_for_the_database(kind: Kind) {
    let mut warehouse = Warehouse::start(kind, "timeout_ms = 5000");
    let sink = warehouse.sink();
    let api = warehouse.api();
    let mut expected = Rows::default();
    for user in 1..=4 {
        api.act("like", on_note(1, user));
    }
    expected.like("1", 1..=4);
    warehouse.wait_for(&expected);
    warehouse.wait_for_pass(&sink, 1);
    warehouse.database.kill();
    let job = delete(&api, "/user/3");
    wait_until("the like is removed", || api.counts(1)["like"] == 3);
    wait_until("the job waits", || {
        warehouse
            .countd
            .log()
            .contains("a sink has not read the logs yet")
    });
    assert_ne!(state(&api, &job), "done");
    warehouse.database.start_again();
    wait_until_erased(&api, &job);
    expected.details.remove(&("3".to_owned(), "1".to_owned()));
    expected.like("1", []);
    assert_eq!(warehouse.rows(), expected);
}

for_each_database! {
    changes_without_events_reach_the_tables
    an_erasure_waits_for_the_database
}
