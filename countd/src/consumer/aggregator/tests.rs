use super::super::batch::UnusableKey;
use super::super::decoder::decode;
use super::*;
use crate::domain::config::Config;
use crate::domain::event::{Derived, Source};
use crate::domain::ids::Entity;
use crate::domain::keys::Keys;
use crate::domain::keys::PartitionHash;
use crate::storage::schema::Schema;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The inputs of an aggregation.
struct Fixture {
    config: Config,
    keys: Keys,
    schemas: HashMap<Name, Arc<Schema>>,
    unusable_keys: HashMap<String, UnusableKey>,
    duplicate_envelopes: HashSet<Id>,
    holds_dead_letters: bool,
    position: Position,
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn id(text: &str) -> Id {
    Id::new(text).expect("an id")
}

impl Fixture {
    fn new(partitions: u16, tagged: bool) -> Fixture {
        let names = ["read", "like", "fav", "comment", "repost"].map(name);
        let schema = Schema::new(names.to_vec()).expect("a schema");
        Fixture {
            config: Config::parse("").expect("the defaults"),
            keys: Keys::new(partitions, tagged, PartitionHash::Murmur2),
            schemas: HashMap::from([(name("v1"), Arc::new(schema))]),
            unusable_keys: HashMap::new(),
            duplicate_envelopes: HashSet::new(),
            holds_dead_letters: false,
            position: Position::start(),
        }
    }

    fn aggregate(&self, partition: Partition, entries: &[LogEntry]) -> Batch {
        let rules = Rules {
            config: &self.config,
            keys: self.keys,
            schemas: &self.schemas,
            unusable_keys: &self.unusable_keys,
            duplicate_envelopes: &self.duplicate_envelopes,
            holds_dead_letters: self.holds_dead_letters,
        };
        let mut batch = Batch::default();
        let mut aggregator = Aggregator::new(rules);
        // In two reads: the second continues after the first.
        let (first, second) = entries.split_at(entries.len() / 2);
        for entries in [first, second] {
            let decoded: Vec<DecodedEntry> = entries.iter().map(decode).collect();
            let source = (partition, &self.position);
            aggregator.add_entries(&mut batch, source, entries.to_vec(), &decoded);
        }
        batch
    }

    /// Aggregates events of partition 0.
    fn aggregate_events(&self, events: &[&str]) -> Batch {
        let entries: Vec<LogEntry> = (1..)
            .zip(events)
            .map(|(offset, json)| entry(offset, EntryKind::Event, json))
            .collect();
        self.aggregate(0, &entries)
    }
}

fn entry(offset: u64, kind: EntryKind, json: &str) -> LogEntry {
    let payload = json.as_bytes().to_vec();
    LogEntry {
        offset,
        kind,
        size: payload.len() + 1,
        payload,
        is_whole: true,
    }
}

fn deltas(batch: &Batch, key: &str) -> Vec<(usize, i64)> {
    let update = batch.counters.get(key);
    update.map_or(Vec::new(), |update| update.deltas.clone())
}

fn reasons(batch: &Batch) -> Vec<&str> {
    batch
        .dead_letters
        .iter()
        .map(|dead| dead.reason.as_str())
        .collect()
}

#[test]
fn events_add_up_by_key_and_index() {
    let batch = Fixture::new(1, false).aggregate_events(&[
        r#"{"schema":"v1","etype":"note","eid":"1","metric":"read","delta":1,"uid":"9","ts":50}"#,
        r#"{"etype":"note","eid":1,"metric":"view","delta":5,"uid":9,"ts":40}"#,
        r#"{"etype":"note","eid":1,"metric":"comment","delta":-2,"uid":9}"#,
        r#"{"etype":"note","eid":2,"metric":"read","delta":1,"uid":9}"#,
    ]);
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), [(0, 6), (3, -2)]);
    assert_eq!(deltas(&batch, "cnt:v1:note:2"), [(0, 1)]);
    let update = &batch.positions[&0];
    assert_eq!((update.from, update.next), (1, 5));
    assert_eq!((batch.applied, batch.counters.len()), (4, 2));
    assert_eq!(batch.counters["cnt:v1:note:1"].length.len, 5);
    assert_eq!(batch.oldest_ts, Some(40));
}

#[test]
fn a_schema_can_be_extended_while_a_batch_accumulates() {
    let mut fixture = Fixture::new(1, false);
    let event =
        |metric| format!(r#"{{"etype":"note","eid":1,"metric":"{metric}","delta":1,"uid":9}}"#);
    let mut batch = fixture.aggregate_events(&[&event("read")]);
    let names = ["read", "like", "fav", "comment", "repost", "share"].map(name);
    let schema = Schema::new(names.to_vec()).expect("a schema");
    fixture.schemas.insert(name("v1"), Arc::new(schema));
    let more = fixture.aggregate_events(&[&event("share")]);
    let update = &more.counters["cnt:v1:note:1"];
    batch.add("cnt:v1:note:1", update.length, 5, 1);
    batch.add("cnt:v1:note:1", ObjectLength { len: 5, min_len: 5 }, 0, 1);
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), [(0, 2), (5, 1)]);
    assert_eq!(batch.counters["cnt:v1:note:1"].length.len, 6);
}

#[test]
fn an_event_counted_with_its_fact_changes_only_user_counters() {
    let like =
        r#"{"etype":"note","eid":1,"metric":"like","delta":1,"uid":9,"author":7,"counted":true}"#;
    let batch = Fixture::new(1, false).aggregate_events(&[like, like]);
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), []);
    assert_eq!(
        deltas(&batch, "ucnt:7"),
        [(UserCounter::LikesReceived.index(), 2)]
    );
    assert!(batch.outbox.is_empty());
}

#[test]
fn a_follow_changes_the_counters_of_both_users() {
    let follow = r#"{"etype":"user","eid":7,"metric":"follow","delta":1,"uid":9}"#;
    let batch = Fixture::new(1, false).aggregate_events(&[follow]);
    assert_eq!(
        deltas(&batch, "ucnt:9"),
        [(UserCounter::Followings.index(), 1)]
    );
    assert_eq!(
        deltas(&batch, "ucnt:7"),
        [(UserCounter::Followers.index(), 1)]
    );
    assert_eq!(reasons(&batch), [""; 0]);
}

#[test]
fn increments_of_users_in_other_slots_go_to_the_outbox() {
    let fixture = Fixture::new(64, true);
    let note = Entity {
        etype: name("note"),
        eid: id("1"),
    };
    let home = fixture.keys.of_entity(&note);
    let is_home = |uid: &u64| fixture.keys.of_user(&id(&uid.to_string())) == home;
    let here = (0..).find(is_home).expect("a user");
    let there = (0..).find(|uid| !is_home(uid)).expect("a user");
    let like = |author: u64, delta: i64| {
        format!(
            r#"{{"etype":"note","eid":1,"metric":"like","delta":{delta},"uid":9,"author":{author},"counted":true}}"#
        )
    };
    let events = [
        like(here, 1),
        like(there, 1),
        like(there, 1),
        like(there, -1),
    ];
    let entries: Vec<LogEntry> = (1..)
        .zip(&events)
        .map(|(offset, json)| entry(offset, EntryKind::Event, json))
        .collect();
    let batch = fixture.aggregate(home, &entries);
    assert_eq!(
        deltas(&batch, &fixture.keys.user_counters(&id(&here.to_string()))),
        [(3, 1)]
    );
    let there = id(&there.to_string());
    let users = &batch.outbox[&fixture.keys.of_user(&there)];
    assert_eq!(users[&(there, UserCounter::LikesReceived)], 1);
}

#[test]
fn every_kind_of_poison_message_becomes_a_dead_letter_with_its_reason() {
    let mut fixture = Fixture::new(1, false);
    fixture.unusable_keys.extend([
        ("cnt:v1:note:8".to_owned(), UnusableKey::WrongType),
        ("ucnt:8".to_owned(), UnusableKey::TooShort),
    ]);
    let good = r#"{"etype":"note","eid":1,"metric":"read","delta":1,"uid":9}"#;
    for (bad, reason) in [
        ("nonsense", "malformed"),
        ("", "malformed"),
        ("[]", "malformed"),
        (
            r#"{"etype":"note","eid":1,"metric":"read","uid":9}"#,
            "missing field `delta`",
        ),
        (
            r#"{"etype":"note","eid":1,"metric":"read","delta":"1","uid":9}"#,
            "invalid type",
        ),
        (
            r#"{"etype":"note","eid":"a:b","metric":"read","delta":1,"uid":9}"#,
            "an ID has",
        ),
        (
            r#"{"etype":"note","eid":1,"metric":"read","delta":1099511627776,"uid":9}"#,
            "out of range",
        ),
        (
            r#"{"etype":"note","eid":1,"metric":"read","delta":-9223372036854775808,"uid":9}"#,
            "out of range",
        ),
        (
            r#"{"etype":"note","eid":1,"metric":"wow","delta":1,"uid":9}"#,
            "schema v1 has no metric wow",
        ),
        (
            r#"{"etype":"cat","eid":1,"metric":"read","delta":1,"uid":9}"#,
            "no type of entity cat",
        ),
        (
            r#"{"schema":"v9","etype":"note","eid":1,"metric":"read","delta":1,"uid":9}"#,
            "no schema v9",
        ),
        (
            r#"{"etype":"note","eid":8,"metric":"read","delta":1,"uid":9}"#,
            "cnt:v1:note:8 holds another type",
        ),
        (
            r#"{"etype":"note","eid":1,"metric":"like","delta":1,"uid":9,"author":8}"#,
            "ucnt:8 is too short",
        ),
    ] {
        let batch = fixture.aggregate_events(&[good, bad, good]);
        let [dead] = batch.dead_letters.as_slice() else {
            panic!("{bad}: {:?}", batch.dead_letters);
        };
        assert!(dead.reason.contains(reason), "{bad}: {}", dead.reason);
        assert_eq!((dead.offset, dead.payload.as_slice()), (2, bad.as_bytes()));
        assert_eq!(
            deltas(&batch, "cnt:v1:note:1"),
            [(0, 2)],
            "{bad}: only the valid events count"
        );
        assert_eq!((batch.positions[&0].next, batch.applied), (4, 2));
    }
    let batch = fixture.aggregate(0, &[entry(1, EntryKind::Unknown, "x")]);
    assert_eq!(
        reasons(&batch),
        ["an entry with other fields than e, o or d"]
    );
}

#[test]
fn an_event_in_the_log_of_another_partition_becomes_a_dead_letter() {
    let fixture = Fixture::new(1024, false);
    let event = r#"{"etype":"note","eid":1,"metric":"read","delta":1,"uid":9}"#;
    let batch = fixture.aggregate(940, &[entry(1, EntryKind::Event, event)]);
    assert_eq!(reasons(&batch), ["it belongs to partition 382"]);
    assert!(batch.counters.is_empty());
}

fn derived(from: u64, seq: u64, delta: i64) -> String {
    format!(r#"{{"from":{from},"seq":{seq},"adds":[["7","posts",{delta}]]}}"#)
}

#[test]
fn a_derived_event_that_is_forwarded_twice_counts_once() {
    let mut fixture = Fixture::new(16, true);
    fixture.position.fences.insert(3, 5);
    let home = fixture.keys.of_user(&id("7"));
    let entries: Vec<LogEntry> = [
        derived(3, 4, 1),    // below the fence
        derived(3, 5, 10),   // new
        derived(3, 6, 100),  // new
        derived(3, 5, 10),   // duplicate
        derived(3, 6, 100),  // duplicate
        derived(4, 1, 1000), // another source
    ]
    .iter()
    .zip(1..)
    .map(|(json, offset)| entry(offset, EntryKind::Derived, json))
    .collect();
    let batch = fixture.aggregate(home, &entries);
    assert_eq!(
        deltas(&batch, &fixture.keys.user_counters(&id("7"))),
        [(UserCounter::Posts.index(), 1110)]
    );
    let fences = &batch.positions[&home].fences;
    assert_eq!(fences, &BTreeMap::from([(3, 7), (4, 2)]));
    assert_eq!(
        (batch.applied, batch.duplicates, batch.dead_letters.len()),
        (3, 3, 0)
    );
}

#[test]
fn a_derived_event_with_an_invalid_source_becomes_a_dead_letter_as_a_whole() {
    let fixture = Fixture::new(16, true);
    let home = fixture.keys.of_user(&id("7"));
    for (from, seq) in [(16, 1), (3, 0), (3, 1 << 53), (3, u64::MAX)] {
        let json = derived(from, seq, 1);
        let batch = fixture.aggregate(home, &[entry(1, EntryKind::Derived, &json)]);
        assert!(batch.counters.is_empty(), "{json}");
        assert!(batch.positions[&home].fences.is_empty(), "{json}");
        assert!(reasons(&batch)[0].starts_with("malformed: "), "{json}");
        assert_eq!(batch.dead_letters[0].payload, json.into_bytes());
    }
}

#[test]
fn a_poison_message_is_held_while_dead_letters_cannot_be_written() {
    let mut fixture = Fixture::new(1, false);
    fixture.holds_dead_letters = true;
    let good = r#"{"etype":"note","eid":1,"metric":"read","delta":1,"uid":9}"#;
    let bad = r#"{"adds":[["7","posts",1],["8","posts",1]]}"#;
    fixture
        .unusable_keys
        .insert("ucnt:8".to_owned(), UnusableKey::WrongType);
    let kinds = [
        EntryKind::Event,
        EntryKind::Event,
        EntryKind::Derived,
        EntryKind::Event,
    ];
    let all: Vec<LogEntry> = (1..)
        .zip(kinds.into_iter().zip([good, good, bad, good]))
        .map(|(offset, (kind, json))| entry(offset, kind, json))
        .collect();
    let batch = fixture.aggregate(0, &all[..3]);
    assert_eq!((batch.positions[&0].from, batch.positions[&0].next), (1, 3));
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), [(0, 2)]);
    assert!(batch.dead_letters.is_empty() && !batch.counters.contains_key("ucnt:7"));
    // A held entry at the position leaves the batch empty.
    fixture.position.next = 3;
    assert!(fixture.aggregate(0, &all[2..3]).is_empty());
}

#[test]
fn the_rejected_part_of_a_derived_event_becomes_a_dead_letter_without_a_source() {
    let mut fixture = Fixture::new(1, true);
    fixture
        .unusable_keys
        .insert("ucnt:7:{0}".to_owned(), UnusableKey::WrongType);
    let json = r#"{"from":0,"seq":1,"adds":[["7","posts",1],["8","posts",2]]}"#;
    let batch = fixture.aggregate(0, &[entry(1, EntryKind::Derived, json)]);
    assert_eq!(
        deltas(&batch, "ucnt:8:{0}"),
        [(UserCounter::Posts.index(), 2)]
    );
    assert_eq!(reasons(&batch), ["ucnt:7:{0} holds another type"]);
    let remainder: Derived =
        serde_json::from_slice(&batch.dead_letters[0].payload).expect("a derived event");
    let source: Option<Source> = None;
    assert_eq!(
        (remainder.source, remainder.adds),
        (source, vec![(id("7"), UserCounter::Posts, 1)])
    );
    // Without a source it counts although the fence is past it.
    fixture.unusable_keys.clear();
    fixture.position.fences.insert(0, 2);
    let batch = fixture.aggregate(
        0,
        &[entry(
            2,
            EntryKind::Derived,
            r#"{"adds":[["7","posts",1]]}"#,
        )],
    );
    assert_eq!(
        deltas(&batch, "ucnt:7:{0}"),
        [(UserCounter::Posts.index(), 1)]
    );
}

#[test]
fn an_envelope_counts_once_and_is_not_remembered_as_a_dead_letter() {
    let mut fixture = Fixture::new(1, false);
    fixture.duplicate_envelopes.insert(id("before"));
    let envelope = |id: &str, metric: &str| {
        format!(
            r#"{{"event_id":"{id}","event_type":"{metric}","aggregate_type":"note","aggregate_id":1,"payload":{{"delta":1,"uid":9}}}}"#
        )
    };
    let entries: Vec<LogEntry> = [
        envelope("a", "read"),
        envelope("before", "read"),
        envelope("a", "read"),
        envelope("b", "nonsense"),
        envelope("b", "view"),
    ]
    .iter()
    .zip(1..)
    .map(|(json, offset)| entry(offset, EntryKind::Envelope, json))
    .collect();
    let batch = fixture.aggregate(0, &entries);
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), [(0, 2)]);
    assert_eq!(
        batch.envelope_ids,
        BTreeMap::from([(id("a"), 0), (id("b"), 0)])
    );
    assert_eq!((batch.applied, batch.duplicates), (2, 2));
    assert_eq!(reasons(&batch), ["schema v1 has no metric nonsense"]);
    assert_eq!(batch.dead_letters[0].kind, EntryKind::Envelope);
}

#[test]
fn the_dead_letter_of_a_long_event_keeps_the_known_fields() {
    let fixture = Fixture::new(1, false);
    let max_len = fixture.config.dead.payload_bytes;
    let padding = "x".repeat(2 * max_len);
    let event = format!(
        r#"{{"etype":"note","eid":"1","metric":"later","delta":1,"uid":"2","more":"{padding}"}}"#
    );
    let envelope = format!(
        r#"{{"event_id":"e","event_type":"later","aggregate_type":"note","aggregate_id":1,"payload":{{"delta":1,"uid":2,"more":"{padding}"}}}}"#
    );
    let mut cut = entry(5, EntryKind::Event, "{}");
    (cut.size, cut.is_whole) = (1 << 30, false);
    let entries = [
        entry(1, EntryKind::Event, &event),
        entry(2, EntryKind::Envelope, &envelope),
        entry(3, EntryKind::Event, &padding),
        entry(4, EntryKind::Event, "short"),
        cut,
    ];
    let batch = fixture.aggregate(0, &entries);
    let payload_and_length = |at: usize| {
        let dead: &DeadLetter = &batch.dead_letters[at];
        let payload = String::from_utf8(dead.payload.clone()).expect("a text");
        (payload, dead.full_len)
    };
    let known_fields = r#"{"etype":"note","eid":"1","metric":"later","delta":1,"uid":"2","ts":0}"#;
    assert_eq!(
        payload_and_length(0),
        (known_fields.to_owned(), known_fields.len())
    );
    let known_fields = r#"{"event_id":"e","event_type":"later","aggregate_type":"note","aggregate_id":"1","payload":{"metric":"later","delta":1,"uid":"2","ts":0}}"#;
    assert_eq!(
        payload_and_length(1),
        (known_fields.to_owned(), known_fields.len())
    );
    assert_eq!(
        payload_and_length(2),
        (padding[..max_len].to_owned(), padding.len() + 1)
    );
    assert_eq!(payload_and_length(3), ("short".to_owned(), 5));
    assert_eq!(payload_and_length(4), ("{}".to_owned(), 1 << 30));
    assert_eq!(batch.dead_letters[4].reason, "too long: 1073741824 bytes");
    let all: usize = entries.iter().map(|entry| entry.size).sum();
    assert_eq!(batch.positions[&0].bytes, all as u64);
    assert!(
        batch
            .dead_letters
            .iter()
            .all(|dead| dead.reason.len() < 400)
    );
}
