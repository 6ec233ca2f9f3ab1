//! The limits of streams and of clients.

use super::{CONFIG, PARTITIONS, follow, resume};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, EventStream, on_note, wait_until_drained};
use countint_tests::{Client, reply, wait_until};
use serde_json::json;
use std::time::Duration;

/// The maximum size of each stream, in bytes.
const MAX_BYTES: i64 = 64 * 1024;

/// Starts countd with a setting of `[changes]`, which is a sum over all streams.
fn start(store: &TestStore, setting: &str, of_stream: i64) -> Countd {
    let streams = if store.is_cluster() { 16 } else { 1 };
    let setting = format!("enabled = true\n{setting} = {}", of_stream * streams);
    Countd::start(&store.server, &CONFIG.replace("enabled = true", &setting))
}

/// Sends actions, one a line.
fn send(api: &Api, lines: &[String]) {
    let sent = api.try_send("/actions", "application/x-ndjson", &lines.join("\n"));
    assert_eq!(sent.expect("a response").0, 200);
}

fn wait_until_trimmed(client: &mut Client, key: &str, max: i64) {
    wait_until("the stream is trimmed", || {
        reply::int(client.ok(&format!("MEMORY USAGE {key} SAMPLES 0"))) <= max
    });
}

fn retained_bytes_are_bounded(store: TestStore) {
    let countd = start(&store, "retain_bytes", MAX_BYTES);
    let (api, mut client) = (countd.api(), store.server.client());
    let key = store.changes("note:1", PARTITIONS);
    for round in 0..60_u64 {
        let line = |number: u64| {
            let eid = 114_327_608_932_745_216 + round * 1_000 + number;
            json!({ "metric": "read", "etype": "note", "eid": eid.to_string(), "uid": number % 900 })
                .to_string()
        };
        let lines: Vec<String> = (0..1_000).map(line).collect();
        send(&api, &lines);
        if round % 10 == 9 {
            wait_until_drained(&store.server, PARTITIONS);
            // The size is measured from time to time. One node of the stream may come on top.
            wait_until_trimmed(&mut client, &key, MAX_BYTES * 5 / 4 + 4_096);
        }
    }
}

/// The authors that a commit credits are announced with its entities.
fn retained_bytes_of_authors_are_bounded(store: TestStore) {
    let countd = start(&store, "retain_bytes", MAX_BYTES);
    let (api, mut client) = (countd.api(), store.server.client());
    let key = store.changes("note:1", PARTITIONS);
    for round in 0..40_u64 {
        let line = |number: u64| {
            let eid = round * 200 + number;
            let author = format!("{eid:064}");
            json!({ "metric": "like", "etype": "note", "eid": eid, "uid": 42, "author": author })
                .to_string()
        };
        let lines: Vec<String> = (0..200).map(line).collect();
        send(&api, &lines);
        wait_until_drained(&store.server, PARTITIONS);
        wait_until_trimmed(&mut client, &key, MAX_BYTES * 5 / 4 + 4_096);
    }
}

/// Appends 100 short entries, which share a node of the stream, and `ARGV[1]` long ones.
const APPEND_UNEVEN: &str = "
for i = 1, 100 do
  redis.call('XADD', KEYS[1], '*', 'n', 'note:' .. i, 'p', '0-0')
end
for i = 1, ARGV[1] do
  redis.call('XADD', KEYS[1], '*', 'n', 'note:' .. string.rep('1', 3500), 'p', '0-0')
end";

/// A node with most of the entries, and few of the bytes, does not keep a stream above its maximum size.
fn entries_of_uneven_sizes_are_bounded(store: TestStore) {
    let countd = start(&store, "retain_bytes", MAX_BYTES);
    let (api, mut client) = (countd.api(), store.server.client());
    let key = store.changes("note:1", PARTITIONS);
    client.call(&["EVAL", APPEND_UNEVEN, "1", &key, "25"]);
    api.act("read", on_note(1, 42));
    wait_until_trimmed(&mut client, &key, MAX_BYTES);
    assert!(reply::int(client.ok(&format!("XLEN {key}"))) > 1);
}

/// Adjustments leave no event of the partition in the log, so no commit measures the stream.
fn changes_without_commits_are_bounded(store: TestStore) {
    let countd = start(&store, "retain_bytes", MAX_BYTES);
    let (api, mut client) = (countd.api(), store.server.client());
    let key = store.changes("note:1", PARTITIONS);
    client.call(&["EVAL", APPEND_UNEVEN, "1", &key, "25"]);
    let adjustment =
        json!({ "etype": "note", "eid": 1, "metric": "comment", "add": 1, "reason": "x" });
    api.ok(api.post("/counter/adjust", &adjustment));
    wait_until_trimmed(&mut client, &key, MAX_BYTES);
    let position = store.positions(TestStore::partition("note:1", PARTITIONS));
    let position = client.ok(&format!("EXISTS {position}"));
    assert_eq!(reply::int(position), 0, "nothing was committed");
}

fn retained_entries_are_bounded(store: TestStore) {
    let countd = start(&store, "retain", 50);
    let (api, mut client) = (countd.api(), store.server.client());
    let reset = json!({ "etype": "note", "eid": 1, "metric": "read" });
    for _ in 0..400 {
        api.act("read", on_note(1, 42));
        wait_until("the read is counted", || api.counts(1)["read"] == 1);
        api.ok(api.post("/counter/reset", &reset));
    }
    let key = store.changes("note:1", PARTITIONS);
    let len = reply::int(client.ok(&format!("XLEN {key}")));
    // Whole nodes of 100 entries are removed.
    assert!((50..=150).contains(&len), "{len}");
}

for_each_store! {
    [module plain cluster]
    retained_bytes_are_bounded
    retained_bytes_of_authors_are_bounded
    entries_of_uneven_sizes_are_bounded
    changes_without_commits_are_bounded
    retained_entries_are_bounded
}

/// Appends entries of changes: each names 150 notes.
const APPEND: &str = "
local info, previous = redis.call('XINFO', 'STREAM', KEYS[1]), nil
for i = 1, #info, 2 do
  previous = info[i] == 'last-generated-id' and info[i + 1] or previous
end
for i = 1, ARGV[1] do
  local ids = {}
  for j = 1, 150 do
    ids[j] = string.format('114327608932%06d%02d', i, j)
  end
  previous = redis.call('XADD', KEYS[1], '*', 'n', 'note:' .. table.concat(ids, ','), 'p', previous)
end";

#[test]
fn a_client_that_does_not_keep_up_gets_a_reset() {
    let store = crate::support::stores::module();
    let countd = Countd::start(&store.server, CONFIG);
    let (api, mut client) = (countd.api(), store.server.client());
    let mut other = follow(&countd, "");
    let mut slow = EventStream::open_unread(countd.port(), "/changes", &[]);
    client.call(&["EVAL", APPEND, "1", "x:changes", "4000"]);
    // Everything was broadcast when a client that keeps up has the last entry.
    while !other.is_reset && !other.seen.contains("note:11432760893200400050") {
        let next = other.next_within(Duration::from_secs(30));
        assert!(next.is_ok(), "{next:?}");
    }
    slow.read();
    slow.wait_for_reset();
    api.act("read", on_note(1, 42));
    slow.wait_for(&["note:1"]);
}

#[test]
fn clients_are_limited_and_slots_are_returned() {
    let store = crate::support::stores::module();
    let config = CONFIG.replace("enabled = true", "enabled = true\nmax_streams = 2");
    let countd = Countd::start(&store.server, &config);
    let streams = [follow(&countd, ""), follow(&countd, "")];
    let refused = countd.api().request("/changes", &[], None);
    assert_eq!((refused.status, refused.retry_after), (503, Some(1)));
    assert_eq!(refused.json["code"], "busy");
    drop(streams);
    wait_until("a slot is free", || {
        EventStream::open(countd.port(), "/changes", &[]).status == 200
    });
}

#[test]
fn a_stream_outlives_the_timeouts_of_requests() {
    let store = crate::support::stores::module();
    let config = format!("{CONFIG}[http]\ntimeout_ms = 300\nheader_timeout_ms = 300\n");
    let countd = Countd::start(&store.server, &config);
    let mut stream = follow(&countd, "");
    std::thread::sleep(Duration::from_secs(2));
    countd.api().act("read", on_note(1, 42));
    stream.wait_for(&["note:1"]);
}

#[test]
fn streams_end_when_the_process_stops() {
    let store = crate::support::stores::module();
    let mut countd = Countd::start(&store.server, CONFIG);
    let mut streams = [
        follow(&countd, ""),
        follow(&countd, "?etype=user"),
        resume(&countd, "1"),
    ];
    countd.terminate();
    streams.iter_mut().for_each(EventStream::wait_for_end);
    countd.wait_for_end();
}
