//! Tables and objects that are deleted, or replaced by another type, while events are counted.

use super::setup::{LIKE, PARTITIONS, audit, config, log_length};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::workload::Random;
use crate::support::{
    Api, Countd, Settings, dead_reasons, metric, on_note, set_schema, wait_until_drained, with,
};
use countint_tests::{Value, reply, wait_until};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Rounds correct nothing, and neither do they compare.
const NO_CORRECTIONS: &str = "interval_seconds = 3600\nmin_difference = 1000000\nmin_percent = 100";
const NOTES: u64 = 40;
/// The users who liked each note before.
const USERS: u64 = 3;
const CLIENTS: u64 = 4;
const DAMAGES: u64 = 12;

for_each_store! {
    [module objects plain cluster]
    keys_of_another_type_under_load_lose_nothing
}

/// Tests of tables.
mod of_tables {
    use super::*;

    for_each_store! {
        [module cluster]
        a_deleted_table_is_rebuilt_before_events_are_added
        a_read_creates_a_lost_table_only_after_it_is_recorded
        a_check_does_not_create_a_lost_table_before_it_is_recorded
        a_deleted_table_under_load_loses_nothing
    }
}

fn like(api: &Api, eid: u64, uid: u64) {
    api.act("like", with(on_note(eid, uid), json!({ "author": 7 })));
}

/// Each note has likes, which the consumer counts, and favs.
fn fill(store: &TestStore, api: &Api) {
    for eid in 1..=NOTES {
        for uid in 1..=USERS {
            like(api, eid, uid);
            api.act("fav", on_note(eid, uid));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
}

fn tables(store: &TestStore) -> BTreeSet<String> {
    (1..=NOTES)
        .map(|eid| store.counters("v1", &format!("note:{eid}"), PARTITIONS))
        .collect()
}

/// The table of note 1, and the other notes with rows in it.
fn first_table(store: &TestStore, notes: u64) -> (String, Vec<u64>) {
    let table_of = |eid: u64| store.counters("v1", &format!("note:{eid}"), PARTITIONS);
    let table = table_of(1);
    let others: Vec<u64> = (2..=notes).filter(|eid| table_of(*eid) == table).collect();
    assert!(others.len() >= 2, "{others:?}");
    (table, others)
}

/// The stored likes of a note in a table. A request would rebuild them.
fn stored_likes(store: &TestStore, eid: u64) -> i64 {
    let key = store.counters("v1", &format!("note:{eid}"), PARTITIONS);
    let rows = store.server.client().ok(&format!("CTAB.MGET {key} {eid}"));
    match reply::array(rows).pop() {
        Some(row @ Value::Array(_)) => reply::int(reply::array(row).remove(LIKE.into())),
        _ => 0,
    }
}

fn wait_until_repaired(store: &TestStore) {
    wait_until("all rows of lost tables are rebuilt", || {
        let lost = store.server.client().ok("HLEN countd:lost-tables");
        reply::int(lost) == 0
    });
    wait_until_drained(&store.server, PARTITIONS);
}

fn a_deleted_table_is_rebuilt_before_events_are_added(store: TestStore) {
    let countd = Countd::start(&store.server, &config("batched", NO_CORRECTIONS));
    let api = countd.api();
    fill(&store, &api);
    for table in tables(&store) {
        store.server.client().ok(&format!("DEL {table}"));
    }
    // Only the consumer meets the lost tables, with an event of one note of each.
    let mut met = tables(&store);
    let notes = (1..=NOTES)
        .filter(|eid| met.remove(&store.counters("v1", &format!("note:{eid}"), PARTITIONS)));
    let notes: BTreeSet<u64> = notes.collect();
    notes.iter().for_each(|eid| like(&api, *eid, 9));
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_repaired(&store);
    for eid in 1..=NOTES {
        let added = u64::from(notes.contains(&eid));
        assert_eq!(stored_likes(&store, eid), (USERS + added) as i64, "{eid}");
        assert_eq!(api.counts(eid)["fav"], USERS);
    }
    assert_eq!(
        api.user(7)["likesReceived"],
        NOTES * USERS + notes.len() as u64
    );
    assert!(audit(&store).iter().all(|one| one["source"] == "rebuild"));
    assert!(metric(&api, "countd_lost_tables_total") > 0);
    assert_invariants(&store.server, &config("batched", NO_CORRECTIONS));
}

/// The record can be on another node than the table, which is unavailable.
fn a_read_creates_a_lost_table_only_after_it_is_recorded(store: TestStore) {
    let config = &config("batched", NO_CORRECTIONS);
    let countd = Countd::start(&store.server, config);
    let api = countd.api();
    fill(&store, &api);
    let (table, others) = first_table(&store, NOTES);
    let mut client = store.server.client();
    // Nothing can be recorded.
    client.ok("SET countd:lost-tables x");
    client.ok(&format!("DEL {table}"));
    let counts = api.counts(1);
    assert_eq!(counts["like"], USERS);
    assert_eq!(counts["fav"], USERS);
    let exists = client.ok(&format!("EXISTS {table}"));
    assert_eq!(reply::int(exists), 0, "its other rows would be missing");
    client.ok("DEL countd:lost-tables");
    like(&api, others[0], 9);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_repaired(&store);
    assert_eq!(stored_likes(&store, others[0]), (USERS + 1) as i64);
    assert_eq!(stored_likes(&store, others[1]), USERS as i64);
    assert_invariants(&store.server, config);
}

/// The consumer reaches a check of a row, and its batch adds nothing to the table.
fn a_check_does_not_create_a_lost_table_before_it_is_recorded(store: TestStore) {
    let config = &config("batched", NO_CORRECTIONS);
    let mut countd = Countd::start(&store.server, config);
    fill(&store, &countd.api());
    countd.stop();
    let command = "serve";
    let serve = Countd::with(&store.server, &Settings { command, config });
    let api = serve.api();
    let (table, others) = first_table(&store, NOTES);
    let mut client = store.server.client();
    // An event waits in the log, so the read appends a check of the likes. The table is not lost yet.
    api.act("fav", on_note(1, 9));
    client.ok(&format!("CTAB.DEL {table} 1"));
    let before = log_length(&store, "note:1");
    assert_eq!(api.counts(1)["like"], USERS);
    assert!(log_length(&store, "note:1") > before);
    client.ok(&format!("DEL {table}"));
    let command = "consume";
    let _consumer = Countd::with(&store.server, &Settings { command, config });
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_repaired(&store);
    for eid in others {
        assert_eq!(stored_likes(&store, eid), USERS as i64, "{eid}");
    }
    let counts = api.counts(1);
    assert_eq!(counts["like"], USERS);
    assert_eq!(counts["fav"], USERS + 1);
    assert_invariants(&store.server, config);
}

fn a_deleted_table_under_load_loses_nothing(store: TestStore) {
    damage_under_load(store, |store, key| {
        store.server.client().ok(&format!("DEL {key}"));
    });
}

fn keys_of_another_type_under_load_lose_nothing(store: TestStore) {
    damage_under_load(store, |store, key| {
        let script = "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'x')";
        store.server.client().call(&["EVAL", script, "1", key]);
    });
}

/// Sends an action until it is acknowledged.
fn act(api: &Api, action: &str, eid: u64, uid: u64) {
    let body = with(on_note(eid, uid), json!({ "author": 7 })).to_string();
    let path = format!("/action/{action}");
    while !matches!(api.try_post(&path, &body), Ok((200, _))) {
        crate::support::pause();
    }
}

/// A client changes facts of its own user. Returns those that exist at the end.
fn run_client(api: &Api, client: u64, stops: &AtomicBool) -> BTreeSet<(&'static str, u64)> {
    let (mut facts, mut random) = (BTreeSet::new(), Random(client));
    while !stops.load(Ordering::Relaxed) {
        let eid = 1 + random.below(NOTES);
        let (metric, removal) = [("like", "unlike"), ("fav", "unfav")][random.below(2) as usize];
        let uid = 100 + client;
        if facts.insert((metric, eid)) {
            act(api, metric, eid, uid);
        } else {
            act(api, removal, eid, uid);
            facts.remove(&(metric, eid));
        }
    }
    facts
}

/// Damages the counters of notes while clients act and consumers are killed.
fn damage_under_load(mut store: TestStore, damage: impl Fn(&TestStore, &str)) {
    let config = &config("batched", NO_CORRECTIONS);
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut consumers = [(); 2].map(|()| Countd::with(&store.server, &settings("consume")));
    let mut serve = Countd::with(&store.server, &settings("serve"));
    let api = serve.api();
    fill(&store, &api);
    let keys: Vec<String> = tables(&store).into_iter().collect();
    let stops = AtomicBool::new(false);
    let mut random = Random(11);
    let facts: Vec<_> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (api, stops) = (&api, &stops);
                scope.spawn(move || run_client(api, client, stops))
            })
            .collect();
        for number in 0..DAMAGES {
            for _ in 0..4 {
                damage(&store, &keys[random.below(keys.len() as u64) as usize]);
            }
            thread::sleep(std::time::Duration::from_millis(random.below(200)));
            match number % 4 {
                0 | 1 => {
                    consumers[(number % 4) as usize].kill();
                    thread::sleep(std::time::Duration::from_millis(random.below(50)));
                    consumers[(number % 4) as usize].launch();
                }
                2 => {
                    serve.kill();
                    serve.launch();
                }
                _ => store.restart(),
            }
        }
        stops.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("a client ends"))
            .collect()
    });
    wait_until_drained(&store.server, PARTITIONS);
    // Reads repair what nothing else has met.
    (1..=NOTES).for_each(|eid| _ = api.counts(eid));
    wait_until_repaired(&store);
    assert_eq!(dead_reasons(&store.server, config), Vec::<String>::new());
    let count = |metric, eid| {
        let of_clients = facts.iter().filter(|fact| **fact == (metric, eid));
        USERS + of_clients.count() as u64
    };
    for eid in 1..=NOTES {
        let counts = api.counts(eid);
        for metric in ["like", "fav"] {
            assert_eq!(counts[metric], count(metric, eid), "{metric} of note {eid}");
        }
    }
    let likes: u64 = (1..=NOTES).map(|eid| count("like", eid)).sum();
    assert_eq!(api.user(7)["likesReceived"], likes);
    assert_invariants(&store.server, config);
}

/// Something creates a lost table again before countd notices that it was lost.
#[test]
fn a_table_that_lost_most_rows_between_rounds_is_rebuilt() {
    let store = module();
    let settings = "interval_seconds = 1\nsample = 1\nmin_difference = 1000000\nmin_percent = 100";
    let countd = Countd::start(&store.server, &config("batched", settings));
    let api = countd.api();
    fill(&store, &api);
    let (table, notes) = first_table(&store, NOTES);
    let rows = || {
        let partition = TestStore::partition("note:1", PARTITIONS);
        let field = format!("rows:v1:note:{partition}");
        let saved = store
            .server
            .client()
            .call(&["HGET", "countd:reconcile", &field]);
        let saved = reply::format(&saved);
        let rows = saved.trim_matches('"').rsplit('/').next();
        rows.and_then(|rows| rows.parse::<u64>().ok())
    };
    let all = notes.len() as u64 + 1;
    wait_until("a round has counted the rows", || rows() == Some(all));
    let script =
        "redis.call('DEL', KEYS[1]) redis.call('CTAB.SET', KEYS[1], 1, 'LEN', 5, 1, 3, 2, 3)";
    store.server.client().call(&["EVAL", script, "1", &table]);
    wait_until("the rows are rebuilt", || {
        notes
            .iter()
            .all(|eid| stored_likes(&store, *eid) == USERS as i64)
    });
    assert_invariants(&store.server, &config("batched", settings));
}

/// The table is deleted again when some of its rows are rebuilt, and the rebuild of the next ones creates it.
#[test]
fn a_table_that_is_lost_again_while_it_is_rebuilt_is_rebuilt_again() {
    // Two pages of keys, with a pause of two seconds after each.
    const MANY: u64 = 700;
    let store = module();
    let settings = &config(
        "batched",
        &format!("{NO_CORRECTIONS}\nentities_per_second = 250"),
    );
    let countd = Countd::start(&store.server, settings);
    let api = countd.api();
    for eid in 1..=MANY {
        api.act("fav", on_note(eid, 1));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let (table, others) = first_table(&store, MANY);
    let mut client = store.server.client();
    client.ok(&format!("DEL {table}"));
    assert_eq!(api.counts(1)["fav"], 1);
    let rows = || reply::int(store.server.client().ok(&format!("CTAB.CARD {table}")));
    wait_until("the rows of the first page are rebuilt", || rows() > 1);
    client.ok(&format!("DEL {table}"));
    wait_until_repaired(&store);
    // If the test was too slow, the rebuild had ended.
    assert_eq!(api.counts(1)["fav"], 1);
    wait_until_repaired(&store);
    assert_eq!(rows(), others.len() as i64 + 1);
    assert_invariants(&store.server, settings);
}
