//! A rebuild of a partition whose log grows faster than the rebuild reads it.

use super::setup::{READ, config, corrections, start, wait_until_archived};
use crate::reconcile::setup::{PARTITIONS, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{on_note, printed, run_at, wait_until_drained};
use countint_tests::env::TempDir;
use countint_tests::{Client, Server};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

for_each_store! {
    [module plain]
    a_flooded_partition_is_rebuilt
}

/// The number of events that are appended after each observation of counters: more than the script that corrects them reads.
const EVENTS: u64 = 1_500;
/// The number of observations after which the flood ends. More of them would mean that the rebuild does not get on.
const MAX_FLOODS: u64 = 60;

/// Appends events of a note, and a correction of another one, which is not in the page.
const FLOOD: &str = "for _ = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '0-*', 'e', ARGV[2]) end \
    redis.call('XADD', KEYS[1], '0-*', 'j', ARGV[3])";

/// A proxy in front of Redis. After each script that observes counters of a partition, its log grows.
struct Flood {
    redis: u16,
    log: String,
    event: String,
    journal: String,
    floods: AtomicU64,
}

impl Flood {
    /// Starts the proxy, and returns its port. It serves until the test ends.
    fn start(self: &Arc<Flood>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let flood = Arc::clone(self);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) =
                    (client, TcpStream::connect(("127.0.0.1", flood.redis)))
                else {
                    continue;
                };
                let flood = Arc::clone(&flood);
                let replies = (
                    server.try_clone().expect("a socket"),
                    client.try_clone().expect("a socket"),
                );
                thread::spawn(move || copy(replies.0, replies.1, || (), |_| ()));
                thread::spawn(move || flood.forward(client, server));
            }
        });
        port
    }

    fn forward(&self, client: TcpStream, server: TcpStream) {
        let observed = std::cell::Cell::new(false);
        let before = || {
            if observed.take() {
                self.append();
            }
        };
        let log = format!("\r\n{}\r\n", self.log);
        copy(client, server, before, |request| {
            let text = String::from_utf8_lossy(request);
            observed
                .set(text.contains("EVALSHA") && text.contains(&log) && text.contains(":hold\r\n"));
        });
    }

    fn append(&self) {
        if self.floods.fetch_add(1, SeqCst) >= MAX_FLOODS {
            return;
        }
        let mut client = Client::connect(self.redis).expect("a connection");
        client.call(&[
            "EVAL",
            FLOOD,
            "1",
            &self.log,
            &EVENTS.to_string(),
            &self.event,
            &self.journal,
        ]);
    }
}

/// Copies until the end. `before` runs before bytes are written, `after` gets them.
fn copy(mut from: TcpStream, mut to: TcpStream, before: impl Fn(), after: impl Fn(&[u8])) {
    let mut bytes = vec![0; 1 << 20];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        before();
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
        after(&bytes[..read]);
    }
    // The other side may have closed it.
    let _ = to.shutdown(Shutdown::Write);
}

fn flood(server: &Server, log: String, [eid, other]: [u64; 2]) -> Arc<Flood> {
    let event = format!(
        r#"{{"schema":"v1","etype":"note","eid":"{eid}","metric":"read","delta":1,"uid":"7"}}"#
    );
    let journal = format!(
        r#"{{"etype":"note","eid":"{other}","why":"repair","ts":5,"changes":[["read",1]]}}"#
    );
    Arc::new(Flood {
        redis: server.port(),
        log,
        event,
        journal,
        floods: AtomicU64::new(0),
    })
}

fn a_flooded_partition_is_rebuilt(store: TestStore) {
    let dir = TempDir::new();
    let config = &config(&dir.path().join("archive"), "");
    let countd = start(&store, config);
    let api = countd.api();
    let partition = TestStore::partition("note:1", PARTITIONS);
    let in_partition =
        |eid: &u64| TestStore::partition(&format!("note:{eid}"), PARTITIONS) == partition;
    let notes: Vec<u64> = (1..).filter(in_partition).take(6).collect();
    let (other, notes) = notes.split_last().expect("notes");
    for eid in notes {
        api.ok(api.post("/action/read", &on_note(*eid, 7)));
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    for eid in notes {
        forge(&store, &format!("note:{eid}"), READ, 100);
    }
    let flood = flood(&store.server, store.log(partition), [notes[0], *other]);
    let port = flood.start();
    printed(&run_at(port, config, &["rebuild", "--from", "earliest"]));
    let floods = flood.floods.load(SeqCst);
    assert!((1..MAX_FLOODS).contains(&floods), "{floods}");
    let corrected = corrections(&store);
    assert_eq!(corrected.len(), notes.len());
    assert!(corrected.values().all(|difference| *difference == -100));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(notes[0])["read"], 1 + EVENTS * floods);
    for eid in &notes[1..] {
        assert_eq!(api.counts(*eid)["read"], 1);
    }
}
