use super::*;
use crate::domain::event::Source;
use crate::domain::ids::Entity;

/// Everything is in one partition unless a test says otherwise.
struct World {
    config: Config,
    keys: Keys,
    schemas: HashMap<Name, Arc<Schema>>,
    refused: HashMap<String, UnusableKey>,
    seen: HashSet<Id>,
    holds_dead: bool,
    position: Position,
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn id(text: &str) -> Id {
    Id::new(text).expect("an id")
}

impl World {
    fn new(partitions: u16, tagged: bool) -> World {
        let names = ["read", "like", "fav", "comment", "repost"].map(name);
        let schema = Schema::new(names.to_vec()).expect("a schema");
        World {
            config: Config::parse("").expect("the defaults"),
            keys: Keys::new(partitions, tagged),
            schemas: HashMap::from([(name("v1"), Arc::new(schema))]),
            refused: HashMap::new(),
            seen: HashSet::new(),
            holds_dead: false,
            position: Position::start(),
        }
    }

    fn batch(&self, partition: Partition, entries: &[LogEntry]) -> Batch {
        let rules = Rules {
            config: &self.config,
            keys: self.keys,
            schemas: &self.schemas,
            refused: &self.refused,
            seen: &self.seen,
            holds_dead: self.holds_dead,
        };
        let mut batch = Batch::default();
        let mut aggregator = Aggregator::new(rules);
        // In two parts: the second follows on the first.
        let (first, second) = entries.split_at(entries.len() / 2);
        for entries in [first, second] {
            let events: Vec<DecodedEntry> = entries.iter().map(read).collect();
            let of = (partition, &self.position);
            aggregator.add(&mut batch, of, entries.to_vec(), &events);
        }
        batch
    }

    /// Of events in one partition.
    fn of(&self, events: &[&str]) -> Batch {
        let entries: Vec<LogEntry> = (1..)
            .zip(events)
            .map(|(offset, json)| entry(offset, EntryKind::Event, json))
            .collect();
        self.batch(0, &entries)
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
    let changes = batch.counters.get(key);
    changes.map_or(Vec::new(), |changes| changes.deltas.clone())
}

fn reasons(batch: &Batch) -> Vec<&str> {
    batch.dead.iter().map(|dead| dead.reason.as_str()).collect()
}

#[test]
fn events_add_up_by_key_and_index() {
    let batch = World::new(1, false).of(&[
        r#"{"schema":"v1","etype":"note","eid":"1","metric":"read","delta":1,"uid":"9","ts":50}"#,
        r#"{"etype":"note","eid":1,"metric":"view","delta":5,"uid":9,"ts":40}"#,
        r#"{"etype":"note","eid":1,"metric":"comment","delta":-2,"uid":9}"#,
        r#"{"etype":"note","eid":2,"metric":"read","delta":1,"uid":9}"#,
    ]);
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), [(0, 6), (3, -2)]);
    assert_eq!(deltas(&batch, "cnt:v1:note:2"), [(0, 1)]);
    let step = &batch.moves[&0];
    assert_eq!((step.from, step.next), (1, 5));
    assert_eq!((batch.applied, batch.counters.len()), (4, 2));
    assert_eq!(batch.counters["cnt:v1:note:1"].length.len, 5);
    assert_eq!(batch.oldest, Some(40));
}

#[test]
fn a_schema_may_grow_while_a_batch_is_gathered() {
    let mut world = World::new(1, false);
    let event =
        |metric| format!(r#"{{"etype":"note","eid":1,"metric":"{metric}","delta":1,"uid":9}}"#);
    let mut batch = world.of(&[&event("read")]);
    let names = ["read", "like", "fav", "comment", "repost", "share"].map(name);
    let schema = Schema::new(names.to_vec()).expect("a schema");
    world.schemas.insert(name("v1"), Arc::new(schema));
    let more = world.of(&[&event("share")]);
    let changes = &more.counters["cnt:v1:note:1"];
    batch.add("cnt:v1:note:1", changes.length, 5, 1);
    batch.add("cnt:v1:note:1", ObjectLength { len: 5, least: 5 }, 0, 1);
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), [(0, 2), (5, 1)]);
    assert_eq!(batch.counters["cnt:v1:note:1"].length.len, 6);
}

#[test]
fn what_was_counted_with_the_fact_feeds_users_only() {
    let like =
        r#"{"etype":"note","eid":1,"metric":"like","delta":1,"uid":9,"author":7,"counted":true}"#;
    let batch = World::new(1, false).of(&[like, like]);
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), []);
    assert_eq!(
        deltas(&batch, "ucnt:7"),
        [(UserCounter::LikesReceived.index(), 2)]
    );
    assert!(batch.outbox.is_empty());
}

#[test]
fn a_follow_counts_at_both_ends() {
    let follow = r#"{"etype":"user","eid":7,"metric":"follow","delta":1,"uid":9}"#;
    let batch = World::new(1, false).of(&[follow]);
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
fn users_in_other_slots_go_through_the_outbox() {
    let world = World::new(64, true);
    let note = Entity {
        etype: name("note"),
        eid: id("1"),
    };
    let home = world.keys.of_entity(&note);
    let is_here = |uid: &u64| world.keys.of_user(&id(&uid.to_string())) == home;
    let here = (0..).find(is_here).expect("somebody");
    let there = (0..).find(|uid| !is_here(uid)).expect("somebody");
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
    let batch = world.batch(home, &entries);
    assert_eq!(
        deltas(&batch, &world.keys.user_counters(&id(&here.to_string()))),
        [(3, 1)]
    );
    let there = id(&there.to_string());
    let users = &batch.outbox[&world.keys.of_user(&there)];
    assert_eq!(users[&(there, UserCounter::LikesReceived)], 1);
}

#[test]
fn every_kind_of_bad_event_dies_with_its_reason() {
    let mut world = World::new(1, false);
    world.refused.extend([
        ("cnt:v1:note:8".to_owned(), UnusableKey::Type),
        ("ucnt:8".to_owned(), UnusableKey::Short),
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
            "an id has",
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
        let batch = world.of(&[good, bad, good]);
        let [dead] = batch.dead.as_slice() else {
            panic!("{bad}: {:?}", batch.dead);
        };
        assert!(dead.reason.contains(reason), "{bad}: {}", dead.reason);
        assert_eq!((dead.offset, dead.payload.as_slice()), (2, bad.as_bytes()));
        assert_eq!(
            deltas(&batch, "cnt:v1:note:1"),
            [(0, 2)],
            "{bad}: only the good ones count"
        );
        assert_eq!((batch.moves[&0].next, batch.applied), (4, 2));
    }
    let batch = world.batch(0, &[entry(1, EntryKind::Unknown, "x")]);
    assert_eq!(
        reasons(&batch),
        ["an entry with other fields than e, o or d"]
    );
}

#[test]
fn an_event_in_the_log_of_another_partition_is_dead() {
    let world = World::new(1024, false);
    let event = r#"{"etype":"note","eid":1,"metric":"read","delta":1,"uid":9}"#;
    let batch = world.batch(940, &[entry(1, EntryKind::Event, event)]);
    assert_eq!(reasons(&batch), ["it belongs to partition 941"]);
    assert!(batch.counters.is_empty());
}

fn derived(from: u64, seq: u64, delta: i64) -> String {
    format!(r#"{{"from":{from},"seq":{seq},"adds":[["7","posts",{delta}]]}}"#)
}

#[test]
fn what_is_handed_over_again_counts_once() {
    let mut world = World::new(16, true);
    world.position.fences.insert(3, 5);
    let home = world.keys.of_user(&id("7"));
    let entries: Vec<LogEntry> = [
        derived(3, 4, 1),    // before the fence
        derived(3, 5, 10),   // news
        derived(3, 6, 100),  // news
        derived(3, 5, 10),   // again
        derived(3, 6, 100),  // again
        derived(4, 1, 1000), // another source
    ]
    .iter()
    .zip(1..)
    .map(|(json, offset)| entry(offset, EntryKind::Derived, json))
    .collect();
    let batch = world.batch(home, &entries);
    assert_eq!(
        deltas(&batch, &world.keys.user_counters(&id("7"))),
        [(UserCounter::Posts.index(), 1110)]
    );
    let fences = &batch.moves[&home].fences;
    assert_eq!(fences, &BTreeMap::from([(3, 7), (4, 2)]));
    assert_eq!((batch.applied, batch.repeated, batch.dead.len()), (3, 3, 0));
}

#[test]
fn a_derived_event_with_a_senseless_source_is_dead_as_a_whole() {
    let world = World::new(16, true);
    let home = world.keys.of_user(&id("7"));
    for (from, seq) in [(16, 1), (3, 0), (3, 1 << 53), (3, u64::MAX)] {
        let json = derived(from, seq, 1);
        let batch = world.batch(home, &[entry(1, EntryKind::Derived, &json)]);
        assert!(batch.counters.is_empty(), "{json}");
        assert!(batch.moves[&home].fences.is_empty(), "{json}");
        assert!(reasons(&batch)[0].starts_with("malformed: "), "{json}");
        assert_eq!(batch.dead[0].payload, json.into_bytes());
    }
}

#[test]
fn what_has_no_place_as_a_dead_letter_is_held_back() {
    let mut world = World::new(1, false);
    world.holds_dead = true;
    let good = r#"{"etype":"note","eid":1,"metric":"read","delta":1,"uid":9}"#;
    let bad = r#"{"adds":[["7","posts",1],["8","posts",1]]}"#;
    world.refused.insert("ucnt:8".to_owned(), UnusableKey::Type);
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
    let batch = world.batch(0, &all[..3]);
    assert_eq!((batch.moves[&0].from, batch.moves[&0].next), (1, 3));
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), [(0, 2)]);
    assert!(batch.dead.is_empty() && !batch.counters.contains_key("ucnt:7"));
    // Nothing before it: the batch has nothing of the partition.
    world.position.next = 3;
    assert!(world.batch(0, &all[2..3]).is_empty());
}

#[test]
fn a_derived_event_dies_in_part_and_comes_back_without_its_source() {
    let mut world = World::new(1, true);
    world
        .refused
        .insert("ucnt:7:{0}".to_owned(), UnusableKey::Type);
    let json = r#"{"from":0,"seq":1,"adds":[["7","posts",1],["8","posts",2]]}"#;
    let batch = world.batch(0, &[entry(1, EntryKind::Derived, json)]);
    assert_eq!(
        deltas(&batch, "ucnt:8:{0}"),
        [(UserCounter::Posts.index(), 2)]
    );
    assert_eq!(reasons(&batch), ["ucnt:7:{0} holds another type"]);
    let rest: Derived = serde_json::from_slice(&batch.dead[0].payload).expect("a derived event");
    let source: Option<Source> = None;
    assert_eq!(
        (rest.source, rest.adds),
        (source, vec![(id("7"), UserCounter::Posts, 1)])
    );
    // It counts although the fence is past it.
    world.refused.clear();
    world.position.fences.insert(0, 2);
    let batch = world.batch(
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
fn an_envelope_counts_once_and_one_that_dies_is_not_remembered() {
    let mut world = World::new(1, false);
    world.seen.insert(id("before"));
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
    let batch = world.batch(0, &entries);
    assert_eq!(deltas(&batch, "cnt:v1:note:1"), [(0, 2)]);
    assert_eq!(batch.ids, BTreeMap::from([(id("a"), 0), (id("b"), 0)]));
    assert_eq!((batch.applied, batch.repeated), (2, 2));
    assert_eq!(reasons(&batch), ["schema v1 has no metric nonsense"]);
    assert_eq!(batch.dead[0].kind, EntryKind::Envelope);
}

#[test]
fn of_a_long_entry_that_dies_what_is_known_is_kept() {
    let world = World::new(1, false);
    let most = world.config.dead.payload_bytes;
    let padding = "x".repeat(2 * most);
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
    let batch = world.batch(0, &entries);
    let of = |at: usize| {
        let dead: &DeadLetter = &batch.dead[at];
        let payload = String::from_utf8(dead.payload.clone()).expect("a text");
        (payload, dead.bytes)
    };
    let known = r#"{"etype":"note","eid":"1","metric":"later","delta":1,"uid":"2","ts":0}"#;
    assert_eq!(of(0), (known.to_owned(), known.len()));
    let known = r#"{"event_id":"e","event_type":"later","aggregate_type":"note","aggregate_id":"1","payload":{"metric":"later","delta":1,"uid":"2","ts":0}}"#;
    assert_eq!(of(1), (known.to_owned(), known.len()));
    assert_eq!(of(2), (padding[..most].to_owned(), padding.len() + 1));
    assert_eq!(of(3), ("short".to_owned(), 5));
    assert_eq!(of(4), ("{}".to_owned(), 1 << 30));
    assert_eq!(batch.dead[4].reason, "too long: 1073741824 bytes");
    let all: usize = entries.iter().map(|entry| entry.size).sum();
    assert_eq!(batch.moves[&0].bytes, all as u64);
    assert!(batch.dead.iter().all(|dead| dead.reason.len() < 400));
}
