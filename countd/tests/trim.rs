//! Trimming of logs some time after their entries were counted.

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, on_note};
use countint_tests::{Client, args, reply, wait_until};

/// The script that trims, which runs at any time.
const TRIM: &str = include_str!("../src/lua/log_trim.lua");
/// The partition whose log is trimmed.
const P: u16 = 7;

for_each_store! {
    [module cluster]
    only_counted_entries_are_trimmed_later
    a_restarted_log_is_not_trimmed
    entries_that_a_sink_has_not_read_are_not_trimmed
    idle_logs_are_trimmed
}

/// A log, and the key of its position.
struct Log {
    client: Client,
    key: String,
    positions: String,
}

impl Log {
    fn new(store: &TestStore) -> Log {
        Log {
            client: store.server.client(),
            key: store.log(P),
            positions: store.positions(P),
        }
    }

    /// Appends entries with the IDs from `first` to `last`.
    fn append(&mut self, first: u64, last: u64) {
        for offset in first..=last {
            let id = format!("0-{offset}");
            self.client
                .call(&args!["XADD", self.key, id, "e", "x".repeat(200)]);
        }
    }

    fn set_position(&mut self, position: &str) {
        let positions = &self.positions;
        self.client.ok(&format!("HSET {positions} {P} {position}"));
    }

    /// Trims, and returns the number of entries that are left.
    fn trim(&mut self) -> i64 {
        self.trim_before("")
    }

    /// The same while a sink has read the entries before this offset.
    fn trim_before(&mut self, held: &str) -> i64 {
        self.run_trim(held);
        length(&mut self.client, &self.key)
    }

    fn run_trim(&mut self, held: &str) {
        let p = u64::from(P);
        let command = args!["EVAL", TRIM, 2, self.positions, self.key, p, 16, held];
        let reply = self.client.call(&command);
        assert_eq!(reply::format(&reply), "(nil)");
    }

    /// Whether the log has the entry with this offset.
    fn has(&mut self, offset: u64) -> bool {
        let line = format!("XRANGE {} 0-{offset} 0-{offset}", self.key);
        self.client.run(&line).contains(&format!("0-{offset}"))
    }
}

fn length(client: &mut Client, log: &str) -> i64 {
    reply::int(client.ok(&format!("XLEN {log}")))
}

fn only_counted_entries_are_trimmed_later(store: TestStore) {
    let mut log = Log::new(&store);
    log.append(1, 300);
    assert_eq!(log.trim(), 300, "there is no position");
    log.set_position("x");
    assert_eq!(log.trim(), 300, "the position is damaged");
    log.set_position("10");
    assert_eq!(log.trim(), 300, "fewer are counted than retained");
    log.set_position("201");
    let left = log.trim();
    assert!(
        (116..250).contains(&left),
        "100 are uncounted, 16 retained: {left}"
    );
    assert!(log.has(185));
    assert_eq!(log.trim(), left);
}

/// An operator has deleted the log, and it has new entries. They have not been counted, although they are before the position.
fn a_restarted_log_is_not_trimmed(store: TestStore) {
    let mut log = Log::new(&store);
    log.set_position("201");
    assert_eq!(log.trim(), 0, "there is no log");
    log.append(1, 150);
    assert_eq!(log.trim(), 150);
    let (mut client, key) = (store.server.client(), &store.log(P));
    client.ok(&format!("XADD {key} 5-1 e foreign"));
    assert_eq!(log.trim(), 151, "a foreign ID");
    client.ok(&format!("DEL {key}"));
    client.ok(&format!("SET {key} text"));
    log.run_trim("");
}

fn entries_that_a_sink_has_not_read_are_not_trimmed(store: TestStore) {
    let mut log = Log::new(&store);
    log.append(1, 300);
    log.set_position("301");
    assert_eq!(log.trim_before("1"), 300);
    let left = log.trim_before("151");
    assert!((166..300).contains(&left), "{left}");
    assert!(log.has(135));
    assert!(log.trim() < left);
}

/// After load, logs become short although nothing follows.
fn idle_logs_are_trimmed(store: TestStore) {
    let countd = Countd::start(&store.server, "[log]\npartitions = 4\n");
    let api = countd.api();
    for uid in 1..=6 {
        for eid in 0..60 {
            api.ok(api.post("/action/read", &on_note(eid, uid)));
        }
    }
    let mut client = store.server.client();
    wait_until("logs are trimmed", || {
        let lengths = (0..4).map(|partition| length(&mut client, &store.log(partition)));
        lengths.sum::<i64>() < 4 * (16 + 50)
    });
}
