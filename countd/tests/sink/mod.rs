//! `countd sink` with real databases: the rows are what Redis has, whatever is killed.

mod changes;
mod fill;
mod kafka;
mod kills;
mod monitor;
mod permissions;
mod retention;
mod sharing;
mod tables;

use crate::support::database::{Database, Kind, PASSWORD, for_each_database};
use crate::support::stores::{TestStore, cluster, module};
use crate::support::{Api, Countd, Settings, metric, on_note, wait_until_drained, with};
use countint_tests::{page, wait_until};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const PARTITIONS: u16 = 8;

/// A database with the tables of a sink, Redis, and a process that serves and consumes.
pub(crate) struct Warehouse {
    pub(crate) database: Database,
    pub(crate) store: TestStore,
    pub(crate) config: String,
    countd: Countd,
}

/// What the tables have, as texts: users and notes, and the counters of notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) details: BTreeSet<(String, String)>,
    counts: BTreeMap<(String, String), u64>,
}

/// Redis: with one database in cluster mode, with the other a single server.
fn store(kind: Kind) -> TestStore {
    match kind {
        Kind::Postgres => cluster(),
        Kind::MariaDb => module(),
    }
}

impl Warehouse {
    /// With the documented tables.
    pub(crate) fn start(kind: Kind, settings: &str) -> Warehouse {
        Warehouse::with(database(kind), store(kind), settings)
    }

    pub(crate) fn with(database: Database, store: TestStore, settings: &str) -> Warehouse {
        let config = config(&database, settings);
        Warehouse::of_config(database, store, config)
    }

    fn of_config(database: Database, store: TestStore, config: String) -> Warehouse {
        let countd = Countd::start(&store.server, &config);
        Warehouse {
            database,
            store,
            config,
            countd,
        }
    }

    /// Another process of the sink.
    pub(crate) fn sink(&self) -> Countd {
        let (command, config) = ("sink", self.config.as_str());
        Countd::with(&self.store.server, &Settings { command, config })
    }

    pub(crate) fn api(&self) -> Api {
        self.countd.api()
    }

    /// The rows now.
    fn rows(&self) -> Rows {
        rows(&self.database)
    }

    /// Waits until the tables have these rows, when all events are counted.
    #[track_caller]
    pub(crate) fn wait_for(&self, expected: &Rows) {
        wait_until_drained(&self.store.server, PARTITIONS);
        let mut last = Rows::default();
        let (what, found) = ("the tables equal the model", &mut last);
        let is_equal = || {
            *found = self.rows();
            found == expected
        };
        wait_until(what, is_equal);
        assert_eq!(last, *expected);
    }

    /// Waits until a sink has compared all rows.
    #[track_caller]
    pub(crate) fn wait_for_pass(&self, sink: &Countd, passes: u64) {
        wait_until("all rows were compared", || {
            metric(&sink.api(), "countd_sink_passes_total") >= passes
        });
        assert_eq!(self.database.count("t_sink_state WHERE name = 'pass'"), 0);
    }
}

/// What the tables have.
fn rows(database: &Database) -> Rows {
    let pair = |text: String| {
        let (first, second) = text.split_once('/').expect("two texts");
        (first.to_owned(), second.to_owned())
    };
    let details = database.texts("SELECT CONCAT(user_id, '/', msg_id) FROM t_praise_detail");
    let counts = "SELECT CONCAT(msg_id, '/', count_key, '/', count_value) FROM t_count";
    let counts = database.texts(counts).into_iter().map(|text| {
        let (row, value) = text.rsplit_once('/').expect("a value");
        (pair(row.to_owned()), value.parse().expect("a number"))
    });
    Rows {
        details: details.into_iter().map(pair).collect(),
        counts: counts.collect(),
    }
}

impl Rows {
    /// Adds the likes of users on a note, and their counter.
    pub(crate) fn like(&mut self, note: &str, users: impl IntoIterator<Item = u64>) {
        for user in users {
            self.details.insert((user.to_string(), note.to_owned()));
        }
        let likes = self.details.iter().filter(|(_, liked)| liked == note);
        let likes = likes.count() as u64;
        self.count(note, "like", likes);
    }

    /// Sets a counter of a note.
    pub(crate) fn count(&mut self, note: &str, name: &str, value: u64) {
        let key = (note.to_owned(), name.to_owned());
        match value {
            0 => drop(self.counts.remove(&key)),
            value => drop(self.counts.insert(key, value)),
        }
    }
}

/// A database with the documented tables.
pub(crate) fn database(kind: Kind) -> Database {
    let database = Database::start(kind);
    database.execute(&documented_tables(kind));
    database
}

/// A configuration with a sink.
fn config(database: &Database, settings: &str) -> String {
    let log = format!("[log]\npartitions = {PARTITIONS}\n[consumer]\nlinger_ms = 5\n");
    log + &sections(database, settings)
}

/// The sections of a sink, and of the limits.
fn sections(database: &Database, settings: &str) -> String {
    let url = database.url();
    format!(
        "[limits]\nuser = {{ per_second = 100000, burst = 1000000 }}\n\
         [sink]\nurl = \"{url}\"\npoll_ms = 10\ntakeover_ms = 1000\nlisten = \"\"\n{settings}\n"
    )
}

/// The documented statements that create the tables.
fn documented_tables(kind: Kind) -> String {
    let database = match kind {
        Kind::Postgres => "PostgreSQL",
        Kind::MariaDb => "MySQL",
    };
    let blocks = page::read("docs/countd/sink.md").into_iter();
    let mut blocks = blocks.filter(|block| block.mark == "sql" && block.lead.contains(database));
    blocks.next().expect("the tables").text()
}

fn facts_and_counters_are_kept(kind: Kind) {
    let warehouse = Warehouse::start(kind, "batch = 50");
    let mut sink = warehouse.sink();
    // The times of later likes are known.
    warehouse.wait_for_pass(&sink, 1);
    let api = warehouse.api();
    let mut expected = Rows::default();
    for user in 1..=30 {
        api.act("like", on_note(user % 3, user));
        api.act("read", on_note(7, user));
    }
    for note in 0..3 {
        expected.like(&note.to_string(), (1..=30).filter(|user| user % 3 == note));
    }
    expected.count("7", "read", 30);
    warehouse.wait_for(&expected);
    // The time of the like, in UTC.
    let hour = match kind {
        Kind::Postgres => "ABS(EXTRACT(EPOCH FROM now() - create_time)) < 3600",
        Kind::MariaDb => "ABS(TIMESTAMPDIFF(SECOND, create_time, UTC_TIMESTAMP())) < 3600",
    };
    let recent = format!("t_praise_detail WHERE {hour}");
    assert_eq!(warehouse.database.count(&recent), 30);
    for user in [3, 6] {
        api.act("like", with(on_note(0, user), json!({ "op": "remove" })));
        let removed = (user.to_string(), "0".to_owned());
        assert!(expected.details.remove(&removed));
    }
    expected.like("0", []);
    // Its facts have no table. The type user has no table either.
    api.act("fav", on_note(1, 5));
    expected.count("1", "fav", 1);
    let follow = json!({ "etype": "user", "eid": 8, "uid": 9 });
    api.act("follow", follow);
    warehouse.wait_for(&expected);
    assert_eq!(metric(&sink.api(), "countd_sink_skipped_total"), 0);
    assert_eq!(metric(&sink.api(), "countd_sink_leads"), 1);
    wait_until("all entries are read", || {
        metric(&sink.api(), "countd_sink_lag") == 0
    });
    assert_eq!(sink.api().get("/readyz").0, 200);
    sink.stop();
    let log = sink.log();
    assert!(
        log.contains("the sink leads") && !log.contains(PASSWORD),
        "{log}"
    );
}

for_each_database! { facts_and_counters_are_kept }
