//! `countd relay` with real databases: each event of an outbox table counts exactly once, whatever is killed.

mod failures;
mod kills;
mod monitor;
mod order;
mod poison;
mod settings;
mod sharing;
pub(crate) mod topic;

use crate::support::database::{Database, Kind, PASSWORD, for_each_database};
use crate::support::stores::{TestStore, cluster, module};
use crate::support::{Api, Countd, Settings, metric, wait_until_drained};
use countint_tests::{page, wait_until};

const PARTITIONS: u16 = 8;
/// The number of notes.
const NOTES: u64 = 20;

/// An application's database with an outbox table, Redis, and a process that serves and consumes.
pub(crate) struct Shop {
    pub(crate) database: Database,
    pub(crate) store: TestStore,
    pub(crate) config: String,
    countd: Countd,
}

/// Redis: with one database in cluster mode, with the other a single server.
fn store(kind: Kind) -> TestStore {
    match kind {
        Kind::Postgres => module(),
        Kind::MariaDb => cluster(),
    }
}

impl Shop {
    /// With the documented tables.
    pub(crate) fn start(kind: Kind, settings: &str) -> Shop {
        Shop::on(store(kind), kind, settings)
    }

    /// [`start`](Shop::start) with another kind of Redis.
    pub(crate) fn on(store: TestStore, kind: Kind, settings: &str) -> Shop {
        let database = Database::start(kind);
        let is_marked = settings.contains("\"mark\"");
        for table in documented_tables(kind, is_marked) {
            database.execute(&table);
        }
        Shop::with(database, store, settings)
    }

    /// With a database whose tables exist.
    fn with(database: Database, store: TestStore, settings: &str) -> Shop {
        let config = config(&database, settings);
        let countd = Countd::start(&store.server, &config);
        Shop {
            database,
            store,
            config,
            countd,
        }
    }

    pub(crate) fn relay(&self) -> Countd {
        let (command, config) = ("relay", self.config.as_str());
        Countd::with(&self.store.server, &Settings { command, config })
    }

    fn api(&self) -> Api {
        self.countd.api()
    }

    /// Inserts likes of users `from` to `to - 1`. Each note gets every twentieth.
    pub(crate) fn like(&self, from: u64, to: u64) {
        let users: Vec<u64> = (from..to).collect();
        for users in users.chunks(500) {
            let rows = users.iter().map(|user| {
                let note = user % NOTES;
                row(
                    &format!("like-{user}"),
                    "like",
                    "note",
                    &note.to_string(),
                    &payload(1, *user),
                )
            });
            self.insert(&rows.collect::<Vec<_>>());
        }
    }

    /// Inserts rows into the outbox.
    pub(crate) fn insert(&self, rows: &[String]) {
        let columns = "event_id, event_type, aggregate_type, aggregate_id, payload";
        let rows = rows.join(",");
        self.database.execute(&format!(
            "INSERT INTO event_outbox ({columns}) VALUES {rows}"
        ));
    }

    /// The number of rows that wait.
    pub(crate) fn waiting(&self) -> u64 {
        match self.config.contains("\"mark\"") {
            true => self.database.count("event_outbox WHERE sent_at IS NULL"),
            false => self.database.count("event_outbox"),
        }
    }

    #[track_caller]
    pub(crate) fn wait_until_relayed(&self) {
        wait_until("all rows are relayed", || self.waiting() == 0);
        wait_until_drained(&self.store.server, PARTITIONS);
    }

    /// Asserts that the likes of this many users were counted.
    #[track_caller]
    pub(crate) fn assert_liked(&self, users: u64) {
        let api = self.api();
        for note in 0..NOTES {
            assert_eq!(api.counts(note)["like"], users / NOTES, "note {note}");
        }
    }

    fn duplicates(&self) -> u64 {
        metric(&self.api(), "countd_events_duplicated_total")
    }
}

/// A configuration with a relay.
fn config(database: &Database, settings: &str) -> String {
    let url = database.url();
    let log = match settings.contains("[kafka]") {
        true => "kind = \"kafka\"\n",
        false => "",
    };
    format!(
        "[log]\n{log}partitions = {PARTITIONS}\nretain = 10000\nretain_bytes = 10000000\n[consumer]\nlinger_ms = 5\n[relay]\nurl = \"{url}\"\npoll_ms = 10\n{settings}\n"
    )
}

/// The documented statements that create the tables.
fn documented_tables(kind: Kind, is_marked: bool) -> Vec<String> {
    let database = match kind {
        Kind::Postgres => "PostgreSQL",
        Kind::MariaDb => "MySQL",
    };
    let blocks = page::read("docs/countd/relay.md").into_iter();
    let blocks = blocks.filter(|block| block.mark == "sql" && block.lead.contains(database));
    let texts: Vec<String> = blocks.map(|block| block.text()).collect();
    let (tables, marks) = match texts.as_slice() {
        [tables, marks] => (tables, marks),
        other => panic!("two blocks for {database}, not {}", other.len()),
    };
    [tables]
        .into_iter()
        .chain(is_marked.then_some(marks))
        .cloned()
        .collect()
}

/// A row of the outbox as SQL.
fn row(id: &str, event_type: &str, etype: &str, eid: &str, payload: &str) -> String {
    let values = [id, event_type, etype, eid, payload].map(|value| format!("'{value}'"));
    format!("({})", values.join(","))
}

fn payload(delta: i64, uid: u64) -> String {
    format!(r#"{{"delta": {delta}, "uid": {uid}}}"#)
}

fn rows_are_counted_and_deleted(kind: Kind) {
    let shop = Shop::start(kind, "batch = 100");
    let mut relay = shop.relay();
    shop.like(0, 2_000);
    shop.wait_until_relayed();
    shop.assert_liked(2_000);
    assert_eq!(metric(&relay.api(), "countd_relay_sent_total"), 2_000);
    assert_eq!(metric(&relay.api(), "countd_relay_dead_total"), 0);
    assert_eq!(shop.duplicates(), 0);
    assert_eq!(relay.api().get("/readyz").0, 200);
    relay.stop();
    let log = relay.log();
    assert!(log.contains("relaying") && !log.contains(PASSWORD), "{log}");
}

fn rows_are_counted_and_marked(kind: Kind) {
    let shop = Shop::start(kind, "batch = 100\nsent = \"mark\"");
    shop.like(0, 1_000);
    let _relay = shop.relay();
    shop.wait_until_relayed();
    shop.assert_liked(1_000);
    assert_eq!(shop.database.count("event_outbox"), 1_000);
    // Marks can be removed, for instance after Redis has lost its last second.
    shop.database
        .execute("UPDATE event_outbox SET sent_at = NULL");
    shop.wait_until_relayed();
    shop.assert_liked(1_000);
    assert_eq!(shop.duplicates(), 1_000);
}

for_each_database! { rows_are_counted_and_deleted rows_are_counted_and_marked }
