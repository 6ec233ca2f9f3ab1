//! Processes that do not answer or do not count, and events that cannot be counted.

use super::{CONFIG, Recording, of_redis, start, wait_until_collected};
use crate::support::{Countd, metric, on_note, set_schema, with};
use countint_tests::env::TempDir;
use countint_tests::{Server, wait_until};
use serde_json::json;
use std::fs;

#[test]
fn a_killed_consumer_is_noticed_by_the_process_that_serves() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let (serve, mut consume) = (
        start(&server, "serve", CONFIG),
        start(&server, "consume", CONFIG),
    );
    let api = serve.api();
    wait_until("a consumer lives", || {
        metric(&api, "countd_live_consumers") == 1
    });
    let mut recording = Recording::default();
    recording.scrape(&[("serve", &serve), ("consume", &consume)]);
    consume.kill();
    for user in 0..5 {
        api.act("read", on_note(1, user));
    }
    wait_until("the serving process knows the backlog", || {
        metric(&api, "countd_log_lag_events") == 5 && metric(&api, "countd_live_consumers") == 0
    });
    // That of the consumers is unknown here.
    let (_, text) = api.try_get("/metrics").expect("a response");
    assert!(!text.contains("\ncountd_lag_events "));
    for _ in 0..2 {
        recording.scrape(&[("serve", &serve), ("consume", &consume)]);
    }
    recording.assert_fires(
        &["CountdDown", "CountdNoConsumer", "CountdCountingStalled"],
        15,
    );
}

#[test]
fn a_partition_that_waits_is_noticed() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let mut client = server.client();
    // The dead letter cannot be written, so later entries wait.
    client.ok("SET x:cnt-update:dead text");
    let ts = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("a clock")
        .as_millis() as u64;
    let poison = with(
        on_note(1, 42),
        json!({ "metric": "nonsense", "delta": 1, "ts": ts - 3_600_000 }),
    );
    client.call(&["XADD", "x:cnt-update:0", "0-*", "e", &poison.to_string()]);
    wait_until("it waits", || {
        metric(&api, "countd_partitions_failed") == 1 && metric(&api, "countd_lag_seconds") > 60
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdCountsLate", "CountdPartitionsDamaged"], 10);
}

#[test]
fn events_that_cannot_be_counted_are_noticed() {
    let server = Server::start();
    let config = format!(
        "{CONFIG}[changes]\nenabled = true\n[dead]\npayload_bytes = 1000\nmax_bytes = 100000\n"
    );
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let mut client = server.client();
    client.ok("SET x:changes damaged");
    api.act("read", on_note(1, 42));
    let junk = "x".repeat(2_000);
    for _ in 0..400 {
        client.call(&["XADD", "x:cnt-update:0", "0-*", "e", &junk]);
    }
    // An ID of the server's clock.
    client.call(&["XADD", "x:cnt-update:1", "*", "e", &junk]);
    let total = |name: &str| metric(&api, &format!("countd_{name}_total"));
    wait_until("all is noticed", || {
        total("events_dead") == 401
            && total("dead_letters_removed") > 0
            && total("events_renumbered") > 0
            && total("changes_rejected") > 0
            && metric(&api, "countd_dead_letters") > 0
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(
        &[
            "CountdDeadLetters",
            "CountdDeadLettersLost",
            "CountdForeignEntries",
            "CountdChangesRejected",
        ],
        10,
    );
    recording.assert_fires(&["CountdDeadLettersWaiting"], 25 * 60);
}

#[test]
fn an_archive_that_cannot_be_written_is_noticed() {
    let server = Server::builder().append_only(true).start();
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = format!("{CONFIG}[log.archive]\ndir = \"{}\"\n", archive.display());
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    api.act("read", on_note(1, 1));
    wait_until("it is archived", || {
        metric(&api, "countd_archived_entries_total") == 1
    });
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    // A file in place of the directory.
    fs::rename(&archive, dir.path().join("away")).expect("renamed");
    fs::write(&archive, "").expect("written");
    api.act("read", on_note(1, 2));
    wait_until("it cannot be written", || {
        metric(&api, "countd_archive_failed") == 1
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdArchiveFailed"], 10);
    assert_eq!(of_redis(&countd, &server, "aof_enabled"), 1);
}
