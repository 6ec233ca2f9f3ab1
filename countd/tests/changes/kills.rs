//! A cache that follows the changes is right at the end, whichever process is killed.

use crate::support::invariants::assert_invariants;
use crate::support::kafka::Log;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, EventStream, Settings, on_note, set_schema};
use countint_tests::env::deadline;
use countint_tests::wait_until;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NOTES: u64 = 40;

/// A cache of counters: an announced note is read again, and a reset reads all.
struct Cache {
    port: u16,
    api: Api,
    /// A process that is not killed.
    truth: Api,
    last_id: Option<String>,
    counts: BTreeMap<u64, Json>,
}

impl Cache {
    fn read(&mut self, eid: u64) -> bool {
        let read = self.api.try_get(&format!("/counter/note/{eid}"));
        let Some(json) = read.ok().filter(|(status, _)| *status == 200) else {
            return false;
        };
        let json: Json = serde_json::from_str(&json.1).expect("JSON");
        self.counts.insert(eid, json["counts"].clone());
        true
    }

    /// Reads until it succeeds: the server may be away.
    fn read_again(&mut self, eid: u64) {
        wait_until("a read succeeds", || self.read(eid));
    }

    fn read_all(&mut self) {
        (0..NOTES).for_each(|eid| self.read_again(eid));
    }

    /// Whether all counters are those of the database.
    fn is_right(&self) -> bool {
        (0..NOTES).all(|eid| self.counts.get(&eid) == Some(&self.truth.counts(eid)))
    }

    /// Follows the changes until `is_done` and the cache is right. Fails if it does not become right.
    fn follow(mut self, is_done: &AtomicBool) -> Cache {
        let mut done_since: Option<Instant> = None;
        loop {
            let id = self.last_id.clone();
            let headers: Vec<(&str, &str)> =
                id.iter().map(|id| ("last-event-id", id.as_str())).collect();
            let stream = EventStream::try_open(self.port, "/changes?etype=note", &headers);
            let Some(mut stream) = stream.filter(|stream| stream.status == 200) else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            stream.read();
            if self.last_id.is_none() {
                stream.wait_for_id();
                self.last_id = Some(stream.last_id.clone());
                self.read_all();
            }
            loop {
                use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
                if is_done.load(Ordering::Acquire) {
                    if self.is_right() {
                        return self;
                    }
                    let since = done_since.get_or_insert_with(Instant::now);
                    assert!(since.elapsed() < deadline(60), "{:?}", self.counts);
                }
                match stream.next_within(Duration::from_millis(200)) {
                    Ok(event) if event.kind == "reset" => self.read_all(),
                    Ok(event) => {
                        for entity in event.entities() {
                            let eid = entity.strip_prefix("note:").expect("a note");
                            self.read_again(eid.parse().expect("a number"));
                        }
                    }
                    Err(Timeout) => {}
                    Err(Disconnected) => break,
                }
                if !stream.last_id.is_empty() {
                    self.last_id = Some(stream.last_id.clone());
                }
            }
        }
    }
}

/// The configuration.
pub const CONFIG: &str = "[log]\npartitions = 16\n[changes]\nenabled = true\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n";

fn a_cache_is_right_after_kills(store: TestStore) {
    assert_cache_is_right_after_kills(&store, &Log::streams(CONFIG));
}

/// Asserts that a cache that follows the changes is right after kills of its process and of the consumer.
pub fn assert_cache_is_right_after_kills(store: &TestStore, log: &Log) {
    let config = log.config.as_str();
    set_schema(&store.server, config);
    let start = |command| Countd::with(&store.server, &Settings { command, config });
    let (writer, mut reader, mut consumer) = (start("serve"), start("serve"), start("consume"));
    let cache = Cache {
        port: reader.port(),
        api: reader.api(),
        truth: writer.api(),
        last_id: None,
        counts: BTreeMap::new(),
    };
    let (is_done, api) = (AtomicBool::new(false), writer.api());
    let cache = thread::scope(|scope| {
        let following = scope.spawn(|| cache.follow(&is_done));
        let acting = scope.spawn(|| {
            for round in 0..1_500_u64 {
                let metric = ["read", "like", "fav", "unlike"][round as usize % 4];
                api.act(metric, on_note(round * 7 % NOTES, round % 13));
            }
        });
        for turn in 0..4 {
            thread::sleep(Duration::from_millis(400));
            let process = if turn % 2 == 0 {
                &mut consumer
            } else {
                &mut reader
            };
            process.kill();
            process.launch();
        }
        acting.join().expect("actions succeed");
        log.drain(&store.server, 16);
        is_done.store(true, Ordering::Release);
        following.join().expect("the cache follows")
    });
    for eid in 0..NOTES {
        assert_eq!(cache.counts[&eid], api.counts(eid), "note {eid}");
    }
    assert_invariants(&store.server, config);
}

for_each_store!([module plain cluster] a_cache_is_right_after_kills);
