//! Entries that cannot be counted.

use super::*;

#[test]
fn every_kind_of_poison_message_becomes_a_dead_letter_with_its_reason() {
    for storage in STORAGES {
        let mut fixture = Fixture::new(storage, 1, false);
        // Objects with both storages.
        fixture.damage(&fixture.note("n-8"), UnusableKey::WrongType);
        fixture.damage(&fixture.user("u-8"), UnusableKey::TooShort);
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
                r#"{"etype":"note","eid":"n-8","metric":"read","delta":1,"uid":9}"#,
                "cnt:v1:note:n-8 holds another type",
            ),
            (
                r#"{"etype":"note","eid":1,"metric":"like","delta":1,"uid":9,"author":"u-8"}"#,
                "ucnt:u-8 is too short",
            ),
        ] {
            let batch = fixture.aggregate_events(&[good, bad, good]);
            let [dead] = batch.dead_letters.as_slice() else {
                panic!("{bad}: {:?}", batch.dead_letters);
            };
            assert!(dead.reason.contains(reason), "{bad}: {}", dead.reason);
            assert_eq!((dead.offset, dead.payload.as_slice()), (2, bad.as_bytes()));
            assert_eq!(
                fixture.deltas(&batch, &fixture.note("1")),
                [(0, 2)],
                "{bad}: only the valid events count"
            );
            assert_eq!((batch.positions[&0].next, batch.applied), (4, 2));
        }
        let batch = fixture.aggregate(0, &[entry(1, EntryKind::Unknown, "x")]);
        assert_eq!(
            reasons(&batch),
            ["an entry with other fields than e, g, o, d, a, b, c or j"]
        );
    }
}

#[test]
fn an_event_in_the_log_of_another_partition_becomes_a_dead_letter() {
    for storage in STORAGES {
        let fixture = Fixture::new(storage, 1024, false);
        let event = r#"{"etype":"note","eid":1,"metric":"read","delta":1,"uid":9}"#;
        let batch = fixture.aggregate(940, &[entry(1, EntryKind::Event, event)]);
        assert_eq!(reasons(&batch), ["it belongs to partition 382"]);
        assert!(batch.counters.is_empty() && batch.tables.len() == 0);
    }
}

#[test]
fn a_poison_message_is_held_while_dead_letters_cannot_be_written() {
    for storage in STORAGES {
        let mut fixture = Fixture::new(storage, 1, false);
        fixture.holds_dead_letters = true;
        let good = r#"{"etype":"note","eid":1,"metric":"read","delta":1,"uid":9}"#;
        let bad = r#"{"adds":[["7","posts",1],["u-8","posts",1]]}"#;
        fixture.damage(&fixture.user("u-8"), UnusableKey::WrongType);
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
        assert_eq!(fixture.deltas(&batch, &fixture.note("1")), [(0, 2)]);
        assert!(batch.dead_letters.is_empty());
        assert_eq!(fixture.deltas(&batch, &fixture.user("7")), []);
        // A held entry at the position leaves the batch empty.
        fixture.position.next = 3;
        assert!(fixture.aggregate(0, &all[2..3]).is_empty());
    }
}

#[test]
fn the_dead_letter_of_a_long_event_keeps_the_known_fields() {
    let fixture = Fixture::new(StoragePhase::Table, 1, false);
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
