//! Authors are credited with the events of their notes, which are in streams and in the topic.

use super::{PARTITIONS, TOPIC_PARTITIONS, read};
use crate::authors::actions::{
    a_like_without_the_author_is_taken_back_from_the_author,
    a_repeated_action_registers_the_author, actions_with_an_idempotency_key_register_the_author,
    another_author_is_refused_and_changes_nothing, envelopes_name_authors,
};
use crate::authors::resets::{
    assert_removed_counter_takes_the_credit_back, assert_reset_takes_the_credit_back, rated,
};
use crate::authors::transfers::{
    a_new_author_is_credited_with_what_the_entity_has, an_entity_moves_with_its_credit,
    an_entity_without_an_author_any_more_gets_one_from_an_action_only,
};
use crate::authors::{CONFIG, Setup};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{Log, Mock};
use crate::support::stores::{TestStore, cluster, for_each_store, module};
use crate::support::workload::Random;
use crate::support::{Countd, Settings, on_note, set_schema};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// The number of notes, and of authors between whom they move.
const NOTES: u64 = 12;
const AUTHORS: u64 = 3;

for_each_store! {
    [module cluster]
    notes_move_while_their_events_wait_in_the_topic
    credit_follows_counters
}

/// Each scenario has its own data.
#[test]
fn scenarios_of_authors_hold_with_a_topic() {
    let scenarios: [fn(Setup); 8] = [
        a_like_without_the_author_is_taken_back_from_the_author,
        another_author_is_refused_and_changes_nothing,
        envelopes_name_authors,
        a_repeated_action_registers_the_author,
        actions_with_an_idempotency_key_register_the_author,
        a_new_author_is_credited_with_what_the_entity_has,
        an_entity_moves_with_its_credit,
        an_entity_without_an_author_any_more_gets_one_from_an_action_only,
    ];
    for (number, scenario) in scenarios.into_iter().enumerate() {
        let store = match number % 2 {
            0 => module(),
            _ => cluster(),
        };
        let mock = Mock::start(TOPIC_PARTITIONS);
        scenario(Setup::new(store, Log::topic_of(&mock, CONFIG)));
    }
}

fn credit_follows_counters(store: TestStore) {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let setup = |store, count| Setup::new(store, Log::topic_of(&mock, &rated(count)));
    match store.is_cluster() {
        true => assert_removed_counter_takes_the_credit_back(&setup(store, "batched")),
        false => assert_reset_takes_the_credit_back(&setup(store, "now")),
    }
}

/// Reads feed authors, too. Notes move before a consumer runs, and while it is killed in the midst of batches.
fn notes_move_while_their_events_wait_in_the_topic(store: TestStore) {
    const ROUNDS: u64 = 8;
    const READS: u64 = 10;
    let mock = Mock::start(TOPIC_PARTITIONS);
    // Likes, beside reads.
    let likes = "[metrics.like]\nnature = \"once\"\ncount = \"now\"\nusers = [{ counter = \"likesReceived\", of = \"author\" }]\n";
    let log = Log::topic_of(&mock, &format!("{}{likes}", rated("batched")));
    let config = log.config.as_str();
    set_schema(&store.server, config);
    let start = |command| Countd::with(&store.server, &Settings { command, config });
    let serving = start("serve");
    let api = serving.api();
    let author = |note, round| 7 + (note + round) % AUTHORS;
    let (mut consumer, mut random) = (None, Random(7));
    for round in 0..ROUNDS {
        for note in 0..NOTES {
            let records: Vec<_> = (0..READS).map(|uid| read(note, uid)).collect();
            log.topic().produce(&records);
            api.act("read", on_note(note, round));
            api.act("like", on_note(note, round));
            let path = format!("/entity/note/{note}");
            api.ok(api.put(&path, &json!({ "author": author(note, round) })));
        }
        match &mut consumer {
            // Those of the first rounds wait.
            None if round < 2 => {}
            None => consumer = Some(start("consume")),
            Some(consumer) => {
                thread::sleep(Duration::from_millis(random.below(200)));
                consumer.kill();
                consumer.launch();
            }
        }
    }
    log.drain(&store.server, PARTITIONS);
    let of_note = ROUNDS * (READS + 2);
    for note in 0..NOTES {
        let counts = api.counts(note);
        assert_eq!(counts["read"], ROUNDS * (READS + 1), "note {note}");
        assert_eq!(counts["like"], ROUNDS, "note {note}");
    }
    for uid in 7..7 + AUTHORS {
        let notes = (0..NOTES).filter(|note| author(*note, ROUNDS - 1) == uid);
        let expected = of_note * notes.count() as u64;
        assert_eq!(api.user(uid)["likesReceived"], expected, "author {uid}");
    }
    assert_invariants(&store.server, config);
}
