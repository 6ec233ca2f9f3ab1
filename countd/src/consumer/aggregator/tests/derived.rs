//! Derived events.

use super::*;

fn derived(from: u64, seq: u64, delta: i64) -> String {
    format!(r#"{{"from":{from},"seq":{seq},"adds":[["7","posts",{delta}]]}}"#)
}

#[test]
fn a_derived_event_that_is_forwarded_twice_counts_once() {
    for storage in STORAGES {
        let mut fixture = Fixture::new(storage, 16, true);
        fixture.position.fences.insert(3, 5);
        let home = fixture.keys().of_user(&id("7"));
        let events = [
            derived(3, 4, 1),    // below the fence
            derived(3, 5, 10),   // new
            derived(3, 6, 100),  // new
            derived(3, 5, 10),   // duplicate
            derived(3, 6, 100),  // duplicate
            derived(4, 1, 1000), // another source
        ];
        let batch = fixture.aggregate(home, &entries(EntryKind::Derived, &events));
        assert_eq!(
            fixture.deltas(&batch, &fixture.user("7")),
            [(idx("posts"), 1110)]
        );
        let fences = &batch.positions[&home].fences;
        assert_eq!(fences, &BTreeMap::from([(3, 7), (4, 2)]));
        assert_eq!(
            (batch.applied, batch.duplicates, batch.dead_letters.len()),
            (3, 3, 0)
        );
    }
}

#[test]
fn a_derived_event_with_an_invalid_source_becomes_a_dead_letter_as_a_whole() {
    for storage in STORAGES {
        let fixture = Fixture::new(storage, 16, true);
        let home = fixture.keys().of_user(&id("7"));
        for (from, seq) in [(16, 1), (3, 0), (3, 1 << 53), (3, u64::MAX)] {
            let json = derived(from, seq, 1);
            let batch = fixture.aggregate(home, &[entry(1, EntryKind::Derived, &json)]);
            assert!(batch.counters.is_empty() && batch.tables.len() == 0);
            assert!(batch.positions[&home].fences.is_empty(), "{json}");
            assert!(reasons(&batch)[0].starts_with("malformed: "), "{json}");
            assert_eq!(batch.dead_letters[0].payload, json.into_bytes());
        }
    }
}

#[test]
fn the_rejected_part_of_a_derived_event_becomes_a_dead_letter_without_a_source() {
    for storage in STORAGES {
        let mut fixture = Fixture::new(storage, 1, true);
        // An object with both storages.
        fixture.damage(&fixture.user("u-7"), UnusableKey::WrongType);
        let json = r#"{"from":0,"seq":1,"adds":[["u-7","posts",1],["8","posts",2]]}"#;
        let batch = fixture.aggregate(0, &[entry(1, EntryKind::Derived, json)]);
        assert_eq!(
            fixture.deltas(&batch, &fixture.user("8")),
            [(idx("posts"), 2)]
        );
        assert_eq!(reasons(&batch), ["ucnt:u-7:{0} holds another type"]);
        let remainder: Derived =
            serde_json::from_slice(&batch.dead_letters[0].payload).expect("a derived event");
        let source: Option<Source> = None;
        assert_eq!(
            (remainder.source, remainder.adds),
            (source, vec![(id("u-7"), name("posts"), 1)])
        );
        // Without a source it counts although the fence is past it.
        fixture.unusable_keys.clear();
        fixture.position.fences.insert(0, 2);
        let batch = fixture.aggregate(
            0,
            &[entry(
                2,
                EntryKind::Derived,
                r#"{"adds":[["u-7","posts",1]]}"#,
            )],
        );
        assert_eq!(
            fixture.deltas(&batch, &fixture.user("u-7")),
            [(idx("posts"), 1)]
        );
    }
}

#[test]
fn derived_increments_use_the_stored_counters() {
    for storage in STORAGES {
        let mut fixture = Fixture::new(storage, 1, true);
        // Another process has appended them.
        fixture.users = users(&["unread", "coins"]);
        let json = r#"{"from":0,"seq":1,"adds":[["7","coins",3],["7","gems",4],["8","gems",5],["7","posts",1]]}"#;
        let batch = fixture.aggregate(0, &[entry(1, EntryKind::Derived, json)]);
        assert_eq!(
            fixture.deltas(&batch, &fixture.user("7")),
            [(idx("posts"), 1), (6, 3)]
        );
        let lengths = batch.counters.values().map(|update| update.length);
        for length in lengths {
            assert_eq!((length.len, length.min_len), (7, 5));
        }
        assert!(
            batch
                .tables
                .updates(fixture.keys())
                .iter()
                .all(|table| table.len == 7)
        );
        assert_eq!(reasons(&batch), ["there is no counter gems of users"]);
        let payload = &batch.dead_letters[0].payload;
        assert_eq!(
            String::from_utf8_lossy(payload),
            r#"{"adds":[["7","gems",4],["8","gems",5]]}"#
        );
        // The counter is appended, and the dead letter is retried.
        fixture.users = users(&["unread", "coins", "gems"]);
        let retried = String::from_utf8_lossy(payload).into_owned();
        let batch = fixture.aggregate(0, &[entry(2, EntryKind::Derived, &retried)]);
        assert_eq!(fixture.deltas(&batch, &fixture.user("8")), [(7, 5)]);
    }
}
