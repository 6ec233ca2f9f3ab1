//! Facts of users.

use super::super::super::decoder::ReadFacts;
use super::*;
use crate::domain::event::{MAX_REVS, Rev};

fn fixture(tagged: bool) -> Fixture {
    let mut fixture = Fixture::new(StoragePhase::Table, 16, tagged);
    let mut layout = StoredLayout::clone(fixture.locator.layout());
    layout.reverse = vec![name("like")];
    fixture.locator = Locator::new(fixture.keys(), Arc::new(layout));
    fixture
}

fn like(eid: &str, uid: &str, delta: i64, ts: u64) -> String {
    format!(
        r#"{{"etype":"note","eid":"{eid}","metric":"like","delta":{delta},"uid":"{uid}","ts":{ts},"counted":true}}"#
    )
}

fn home(fixture: &Fixture, eid: &str) -> Partition {
    fixture.keys().of_entity(&note(eid))
}

fn note(eid: &str) -> Entity {
    Entity {
        etype: name("note"),
        eid: id(eid),
    }
}

/// The arguments of timelines.lua.
fn arguments(batch: &Batch) -> String {
    let mut call = redis::Cmd::new();
    batch.timelines.add_arguments(&mut call);
    let args = call.args_iter().map(|arg| match arg {
        redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    });
    args.collect::<Vec<_>>().join(" ")
}

const T: u64 = 1_577_836_800_000;

#[test]
fn the_last_change_of_a_fact_in_a_batch_holds() {
    let fixture = fixture(false);
    let partition = home(&fixture, "7");
    let events = [
        like("7", "42", 1, T + 1),
        like("7", "42", -1, T + 2),
        like("7", "42", 1, T + 3),
        like("7", "43", 1, T + 4),
        like("7", "43", -1, T + 5),
        // Not the events of facts.
        like("7", "44", 2, T + 6),
        like("7", "44", 0, T + 7),
    ];
    let batch = fixture.aggregate(partition, &entries(EntryKind::Event, &events));
    assert_eq!(arguments(&batch), "2 table 1 1000 1 7 3 table 1 1000 1 7 -");
    let keys = [
        "rtl:like:note:42",
        "rev:like:note:42",
        "rtl:like:note:43",
        "rev:like:note:43",
    ];
    assert_eq!(batch.timelines.keys(), keys);
    let envelope = r#"{"event_id":"e1","event_type":"like","aggregate_type":"note","aggregate_id":"7","payload":{"delta":1,"uid":"45"}}"#;
    let batch = fixture.aggregate(partition, &[entry(1, EntryKind::Envelope, envelope)]);
    assert_eq!((batch.applied, batch.timelines.len()), (1, 0));
}

#[test]
fn changes_of_users_in_other_slots_are_forwarded() {
    let fixture = fixture(true);
    let partition = home(&fixture, "7");
    let users = (0..100).map(|uid| uid.to_string());
    let events: Vec<String> = users.map(|uid| like("7", &uid, 1, T + 1)).collect();
    let batch = fixture.aggregate(partition, &entries(EntryKind::Event, &events));
    assert!(batch.writes_outbox());
    let mut forwarded = 0;
    for (to, revs) in batch.timelines.forwarded() {
        assert_ne!(to, partition);
        for Rev { uid, entity, .. } in &revs {
            assert_eq!((fixture.keys().of_user(uid), entity), (to, &note("7")));
        }
        forwarded += revs.len();
    }
    assert_eq!(forwarded + batch.timelines.update_count(), 100);
    assert!(batch.timelines.update_count() > 0);
}

fn derived(source: &str, revs: &[String]) -> String {
    format!(r#"{{{source}"revs":[{}]}}"#, revs.join(","))
}

fn rev(uid: &str, exists: u8) -> String {
    format!(r#"["{uid}","like","note","7",{exists},{}]"#, T + 9)
}

#[test]
fn forwarded_changes_are_applied_once() {
    let mut fixture = fixture(true);
    fixture.position.fences.insert(3, 5);
    let partition = fixture.keys().of_user(&id("42"));
    let payloads = [
        derived(r#""from":3,"seq":5,"#, &[rev("42", 0)]),
        derived(r#""from":3,"seq":6,"#, &[rev("42", 1)]),
        // Repeats.
        derived(r#""from":3,"seq":5,"#, &[rev("42", 0)]),
        derived(r#""from":3,"seq":4,"#, &[rev("42", 0)]),
    ];
    let batch = fixture.aggregate(partition, &entries(EntryKind::Derived, &payloads));
    assert_eq!(arguments(&batch), "1 table 1 1000 1 7 9");
    assert_eq!((batch.applied, batch.duplicates), (2, 2));
}

#[test]
fn rejected_changes_become_dead_letters_without_a_source() {
    let mut fixture = fixture(true);
    let partition = fixture.keys().of_user(&id("42"));
    let damaged = format!("rev:like:note:42:{{{partition}}}");
    fixture
        .unusable_keys
        .insert(damaged.clone(), UnusableKey::WrongType);
    let others = (0..).map(|uid| uid.to_string());
    let mut others = others.filter(|uid| fixture.keys().of_user(&id(uid)) == partition);
    let other = others.next().expect("a user");
    let revs = [rev("42", 1), rev(&other, 1)];
    let payload = derived(r#""from":3,"seq":1,"#, &revs);
    let batch = fixture.aggregate(partition, &[entry(1, EntryKind::Derived, &payload)]);
    assert_eq!(reasons(&batch), [format!("{damaged} holds another type")]);
    assert_eq!(arguments(&batch), "1 table 1 1000 1 7 9");
    let rest: Derived = serde_json::from_slice(&batch.dead_letters[0].payload).expect("an event");
    assert_eq!((rest.source, rest.revs.len()), (None, 1));
    // The user of another partition.
    let lost = vec![rev("42", 1); MAX_REVS + 1];
    let payload = derived(r#""from":3,"seq":1,"#, &lost);
    let batch = fixture.aggregate(partition ^ 1, &[entry(1, EntryKind::Derived, &payload)]);
    assert_eq!((batch.dead_letters.len(), batch.timelines.len()), (2, 0));
}

#[test]
fn facts_that_were_read_again_keep_a_time_of_the_batch() {
    let fixture = fixture(false);
    let partition = home(&fixture, "7");
    let events = [like("7", "42", 1, T + 1), like("7", "43", 1, T + 1)];
    let mut log = entries(EntryKind::Event, &events);
    log.push(entry(3, EntryKind::Reread, "{}"));
    let facts = ReadFacts {
        metric: name("like"),
        entity: note("7"),
        users: vec![(id("42"), true), (id("43"), false), (id("44"), true)],
    };
    let mut decoded: Vec<DecodedEntry> = log[..2].iter().map(decode).collect();
    decoded.push(DecodedEntry::Facts(facts));
    let mut batch = Batch::default();
    let rules = Rules {
        config: &fixture.config,
        locator: &fixture.locator,
        users: &fixture.users,
        schemas: &fixture.schemas,
        in_rows: &fixture.in_rows,
        unusable_keys: &fixture.unusable_keys,
        duplicate_envelopes: &fixture.duplicate_envelopes,
        holds_dead_letters: false,
    };
    let source = (partition, &fixture.position);
    Aggregator::new(rules, &mut batch).add_entries(source, log, &decoded);
    assert_eq!(
        arguments(&batch),
        "3 table 1 1000 1 7 1 table 1 1000 1 7 - table 1 1000 1 7 0"
    );
}
