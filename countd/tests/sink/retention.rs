//! Logs keep what a sink has not read, for a time.

use super::{PARTITIONS, Rows, Warehouse};
use crate::support::database::{Kind, for_each_database};
use crate::support::stores::TestStore;
use crate::support::{metric, on_note, printed, run, with};
use countint_tests::{Server, reply, wait_until};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The number of entries of the log of note 1.
fn entries(warehouse: &Warehouse) -> i64 {
    let store = &warehouse.store;
    let log = store.log(TestStore::partition("note:1", PARTITIONS));
    reply::int(store.server.client().ok(&format!("XLEN {log}")))
}

/// Likes of note 1 that are more than logs retain.
fn like(warehouse: &Warehouse, expected: &mut Rows, users: std::ops::Range<u64>) {
    let lines = users.clone().map(|user| {
        format!("{{\"metric\":\"like\",\"etype\":\"note\",\"eid\":1,\"uid\":{user}}}\n")
    });
    let lines: String = lines.collect();
    let sent = warehouse
        .api()
        .try_send("/actions", "application/x-ndjson", &lines);
    assert_eq!(sent.expect("a response").0, 200);
    expected.like("1", users);
}

fn a_sink_that_was_away_reads_what_the_logs_have_kept(kind: Kind) {
    let warehouse = Warehouse::start(kind, "");
    let mut sink = warehouse.sink();
    let mut expected = Rows::default();
    warehouse.wait_for_pass(&sink, 1);
    sink.stop();
    for part in 0..4 {
        like(&warehouse, &mut expected, part * 500..(part + 1) * 500);
    }
    let remove = with(on_note(1, 3), json!({ "op": "remove" }));
    warehouse.api().act("like", remove);
    expected.details.remove(&("3".to_owned(), "1".to_owned()));
    expected.like("1", []);
    crate::support::wait_until_drained(&warehouse.store.server, PARTITIONS);
    // The consumer trims idle logs after 2 seconds, and a log at once after 1000 entries.
    assert_eq!(entries(&warehouse), 2_001);
    sink.launch();
    warehouse.wait_for(&expected);
    assert_eq!(metric(&sink.api(), "countd_sink_passes_total"), 0);
    assert_eq!(
        warehouse
            .database
            .count("t_praise_detail WHERE create_time IS NULL"),
        0
    );
    wait_until("the log is trimmed", || entries(&warehouse) < 1_000);
}

fn entries_that_were_trimmed_are_noticed(kind: Kind) {
    let warehouse = Warehouse::start(kind, "hold_seconds = 1");
    let mut sink = warehouse.sink();
    let mut expected = Rows::default();
    warehouse.wait_for_pass(&sink, 1);
    like(&warehouse, &mut expected, 0..100);
    warehouse.wait_for(&expected);
    sink.stop();
    let mut client = warehouse.store.server.client();
    wait_until("the hold has expired", || {
        (0..PARTITIONS).all(|partition| {
            let hold = warehouse.store.hold_of_sink(partition);
            reply::int(client.ok(&format!("EXISTS {hold}"))) == 0
        })
    });
    // Removals, which no scan of the facts would find.
    for user in 0..50 {
        let remove = with(on_note(1, user), json!({ "op": "remove" }));
        warehouse.api().act("like", remove);
        let row = (user.to_string(), "1".to_owned());
        expected.details.remove(&row);
    }
    for part in 1..5 {
        like(&warehouse, &mut expected, part * 500..(part + 1) * 500);
    }
    wait_until("the log is trimmed", || entries(&warehouse) < 1_000);
    sink.launch();
    warehouse.wait_for(&expected);
    warehouse.wait_for_pass(&sink, 1);
    assert!(sink.log().contains("entries of the log are missing"));
    assert_eq!(warehouse.rows(), expected);
}

fn a_sink_that_was_ended_can_begin_again(kind: Kind) {
    let warehouse = Warehouse::start(kind, "");
    let mut sink = warehouse.sink();
    let mut expected = Rows::default();
    warehouse.wait_for_pass(&sink, 1);
    sink.stop();
    let mut client = warehouse.store.server.client();
    let recorded =
        |client: &mut countint_tests::Client| reply::text(client.ok("HGET countd:layout sink"));
    assert_eq!(recorded(&mut client), "on");
    printed(&run(
        &warehouse.store.server,
        &warehouse.config,
        &["sink", "--end"],
    ));
    assert_eq!(recorded(&mut client), "off");
    // More than logs retain: nothing is kept for a sink.
    for part in 0..4 {
        like(&warehouse, &mut expected, part * 500..(part + 1) * 500);
    }
    // A process learns of it with its next heartbeat, and trims the log with its next commit.
    let mut comments = 0;
    wait_until("the log is trimmed", || {
        warehouse.api().act("comment", on_note(1, 3));
        comments += 1;
        entries(&warehouse) < 1_000
    });
    expected.count("1", "comment", comments);
    sink.launch();
    warehouse.wait_for(&expected);
    warehouse.wait_for_pass(&sink, 1);
    assert_eq!(recorded(&mut client), "on");
}

/// Redis that has lost its last writes, and has used their offsets again since.
fn writes_that_redis_has_lost_are_not_kept(kind: Kind) {
    let mut warehouse = Warehouse::start(kind, "");
    let sink = warehouse.sink();
    let mut before = Rows::default();
    warehouse.wait_for_pass(&sink, 1);
    like(&warehouse, &mut before, 0..20);
    warehouse.wait_for(&before);
    let dirs = warehouse.store.server.nodes().map(Server::dir);
    let files = dirs.map(|dir| (dir.join("appendonlydir"), dir.join("copy")));
    let files: Vec<(PathBuf, PathBuf)> = files.collect();
    let copied = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-r").arg(from).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()));
    };
    for (files, copy) in &files {
        copied(files, copy);
    }
    let mut lost = before.clone();
    like(&warehouse, &mut lost, 20..30);
    warehouse.wait_for(&lost);
    sink.suspend();
    warehouse.store.server.kill();
    for (files, copy) in &files {
        fs::remove_dir_all(files).expect("a directory");
        copied(copy, files);
    }
    warehouse.store.server.start_again();
    for user in 30..40 {
        let like = on_note(1, user).to_string();
        wait_until("the action succeeds", || {
            matches!(
                warehouse.api().try_post("/action/like", &like),
                Ok((200, _))
            )
        });
    }
    before.like("1", 30..40);
    crate::support::wait_until_drained(&warehouse.store.server, PARTITIONS);
    sink.resume();
    warehouse.wait_for(&before);
    warehouse.wait_for_pass(&sink, 2);
    assert_eq!(warehouse.rows(), before);
}

for_each_database! {
    writes_that_redis_has_lost_are_not_kept
    a_sink_that_was_away_reads_what_the_logs_have_kept
    entries_that_were_trimmed_are_noticed
    a_sink_that_was_ended_can_begin_again
}
