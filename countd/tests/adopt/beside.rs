//! The relay, the sink, imports and Kafka while data is converted: each event counts once, and each table has what Redis has.

use super::setup::{adopt, assert_adopted};
use crate::import::setup::{self as imports, Files, STORES, imported};
use crate::kafka::{Setup, envelope, read};
use crate::relay::Shop;
use crate::sink::{Rows, Warehouse, database};
use crate::support::database::{Kind, for_each_database};
use crate::support::invariants::assert_invariants;
use crate::support::stores::adoptable;
use crate::support::{metric, on_note, printed, run, wait_until_drained, with};
use countint_tests::{Server, wait_until};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// Repeats what others do until an adoption has ended. Returns the number of rounds.
fn while_adopting(server: &Server, config: &str, mut round: impl FnMut(u64)) -> u64 {
    thread::scope(|scope| {
        let adopting = scope.spawn(|| adopt(server, config));
        let mut rounds = 0;
        while rounds == 0 || !adopting.is_finished() {
            round(rounds);
            rounds += 1;
        }
        adopting.join().expect("it succeeds");
        rounds
    })
}

#[track_caller]
fn assert_no_dead_letters(server: &Server, config: &str) {
    assert_eq!(printed(&run(server, config, &["dead", "list"])), "");
}

fn relayed_events_count_once(kind: Kind) {
    const FIRST: u64 = 1_000;
    const EACH: u64 = 100;
    let mut shop = Shop::on(adoptable(), kind, "batch = 20");
    let _relay = shop.relay();
    shop.like(0, FIRST);
    shop.wait_until_relayed();
    shop.store.server.load_module();
    let rounds = while_adopting(&shop.store.server, &shop.config, |round| {
        let first = FIRST + round * EACH;
        shop.like(first, first + EACH);
        wait_until("the relay goes on", || shop.waiting() < 2 * EACH);
    });
    shop.wait_until_relayed();
    shop.assert_liked(FIRST + rounds * EACH);
    assert_eq!(shop.database.count("event_outbox_dead"), 0);
    assert_no_dead_letters(&shop.store.server, &shop.config);
    assert_invariants(&shop.store.server, &shop.config);
    assert_adopted(&shop.store.server, &shop.config);
}

fn tables_of_a_sink_stay_equal(kind: Kind) {
    const NOTES: u64 = 12;
    let mut warehouse = Warehouse::with(database(kind), adoptable(), "batch = 5");
    let mut expected = Rows::default();
    let api = warehouse.api();
    for user in 0..60 {
        api.act("like", on_note(user % NOTES, user));
        expected.like(&(user % NOTES).to_string(), [user]);
    }
    let sink = warehouse.sink();
    warehouse.wait_for_pass(&sink, 1);
    warehouse.store.server.load_module();
    let mut reads = 0;
    while_adopting(&warehouse.store.server, &warehouse.config, |round| {
        let (note, user) = (round % NOTES, 100 + round);
        let name = note.to_string();
        api.act("like", on_note(note, user));
        expected.like(&name, [user]);
        api.act("read", on_note(7, user));
        reads += 1;
        // Each like that existed before is removed once.
        if round < 60 {
            let (note, user) = ((59 - round) % NOTES, 59 - round);
            let remove = with(on_note(note, user), json!({ "op": "remove" }));
            assert_eq!(api.act("like", remove)["changed"], true);
            let removed = (user.to_string(), note.to_string());
            assert!(expected.details.remove(&removed));
            expected.like(&note.to_string(), []);
        }
    });
    expected.count("7", "read", reads);
    warehouse.wait_for(&expected);
    assert_no_dead_letters(&warehouse.store.server, &warehouse.config);
    assert_invariants(&warehouse.store.server, &warehouse.config);
    assert_adopted(&warehouse.store.server, &warehouse.config);
    // The sink compares all rows when Redis was killed. Those of converted data are right before and after.
    let passes = metric(&sink.api(), "countd_sink_passes_total");
    warehouse.store.server.kill();
    warehouse.store.server.start_again();
    warehouse.wait_for_pass(&sink, passes + 1);
    warehouse.wait_for(&expected);
}

for_each_database! { relayed_events_count_once tables_of_a_sink_stay_equal }

/// Imports of counts and of facts in turn: most are under way when the layout changes.
#[test]
fn imported_records_count_once() {
    const NOTES: u64 = 1_000;
    const LIKED: u64 = 20;
    const USERS: u64 = 30;
    let mut store = adoptable();
    let countd = imports::start(&store.server);
    let api = countd.api();
    for user in 0..USERS {
        for metric in STORES {
            api.act(metric, on_note(1, user));
        }
    }
    wait_until_drained(&store.server, imports::PARTITIONS);
    store.server.load_module();
    let files = Files::new();
    let server = &store.server;
    let rounds = while_adopting(server, imports::CONFIG, |round| {
        // Notes of each round, and users of each round with an author of each note.
        let notes = 10_000 + round * NOTES..10_000 + (round + 1) * NOTES;
        let counts: String = notes.map(|note| format!("note,{note},3,2\n")).collect();
        let counts = files.write(
            &format!("counts-{round}.csv"),
            format!("etype,eid,read,comment\n{counts}"),
        );
        let mut facts = "metric,etype,eid,uid,author\n".to_owned();
        for metric in STORES {
            for note in 0..LIKED {
                for user in (round + 1) * USERS..(round + 2) * USERS {
                    facts += &format!("{metric},note,{note},{user},{}\n", 90_000 + note);
                }
            }
        }
        let facts = files.write(&format!("facts-{round}.csv"), facts);
        for (kind, file) in [("counts", counts), ("facts", facts)] {
            let words = format!("{kind} --job {kind}-{round}");
            let printed = imported(server, &words, &file);
            assert!(printed.contains("no differences"), "{printed}");
        }
    });
    wait_until_drained(server, imports::PARTITIONS);
    for note in (10_000..10_000 + rounds * NOTES).step_by(97) {
        let counts = api.counts(note);
        assert_eq!(
            (&counts["read"], &counts["comment"]),
            (&json!(3), &json!(2))
        );
    }
    for note in 0..LIKED {
        let users = USERS * (rounds + u64::from(note == 1));
        for metric in STORES {
            assert_eq!(api.counts(note)[metric], users, "{metric} {note}");
        }
        assert_eq!(api.user(90_000 + note)["likesReceived"], users);
    }
    assert_no_dead_letters(server, imports::CONFIG);
    assert_invariants(server, imports::CONFIG);
    assert_adopted(server, imports::CONFIG);
}

#[test]
fn records_of_a_topic_count_once() {
    let mut setup = Setup::with(adoptable(), "");
    let serving = setup.another("serve");
    let produce = |round: u64| {
        let reads = (0..30).map(|note| read(note, round));
        let comment = envelope(&format!("e-{round}"), round % 30);
        setup
            .topic
            .produce(&reads.chain([comment]).collect::<Vec<_>>());
        serving.api().act("read", on_note(round % 30, 1));
        serving.api().act("like", on_note(round % 30, round));
        thread::sleep(Duration::from_millis(10));
    };
    (0..20).for_each(&produce);
    setup.assert_exact();
    setup.store.server.load_module();
    let rounds = while_adopting(&setup.store.server, &setup.config, |round| {
        produce(20 + round);
    });
    setup.assert_exact();
    let all = 20 + rounds;
    for note in 0..30 {
        let own = all / 30 + u64::from(note < all % 30);
        let counts = setup.api().counts(note);
        let found = ["read", "like", "comment"].map(|metric| &counts[metric]);
        assert_eq!(
            found,
            [&json!(all + own), &json!(own), &json!(own)],
            "{note}"
        );
    }
    assert_no_dead_letters(&setup.store.server, &setup.config);
    assert_invariants(&setup.store.server, &setup.config);
    assert_adopted(&setup.store.server, &setup.config);
}
