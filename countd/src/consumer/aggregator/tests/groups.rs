//! Events of groups.

use super::*;

fn group(uids: &[&str], more: &str) -> String {
    format!(
        r#"{{"etype":"note","eid":"7","metric":"like","delta":1,"author":"9","ts":5{more},"uids":{}}}"#,
        serde_json::to_string(uids).expect("JSON")
    )
}

#[test]
fn all_events_of_a_group_count() {
    for storage in STORAGES {
        let fixture = Fixture::new(storage, 1, false);
        let groups = [
            group(&["1", "2", "3"], ""),
            group(&["4", "5"], r#","counted":true"#),
        ];
        let batch = fixture.aggregate(0, &entries(EntryKind::Group, &groups));
        assert_eq!(fixture.deltas(&batch, &fixture.note("7")), [(1, 3)]);
        assert_eq!((batch.applied, batch.positions[&0].next), (5, 3));
        assert_eq!(reasons(&batch), Vec::<&str>::new());
    }
}

#[test]
fn a_group_with_an_unusable_key_becomes_a_dead_letter_for_each_user() {
    let mut fixture = Fixture::new(StoragePhase::Table, 1, false);
    fixture.damage(&fixture.note("7"), UnusableKey::WrongType);
    let events = [group(&["1", "2"], "")];
    let batch = fixture.aggregate(0, &entries(EntryKind::Group, &events));
    assert_eq!((batch.applied, batch.positions[&0].next), (0, 2));
    let of = |uid: &str| {
        format!(
            r#"{{"etype":"note","eid":"7","metric":"like","delta":1,"uid":"{uid}","author":"9","ts":5}}"#
        )
    };
    for (dead, uid) in batch.dead_letters.iter().zip(["1", "2"]) {
        assert_eq!((dead.kind, dead.offset), (EntryKind::Event, 1));
        assert_eq!(dead.payload, of(uid).into_bytes());
        assert!(dead.reason.contains("another type"), "{}", dead.reason);
    }
    assert_eq!(batch.dead_letters.len(), 2);
    // Their counters were not changed either.
    assert_eq!(fixture.deltas(&batch, &fixture.note("7")), []);
}

/// The group is read again: none of its events may have been added.
#[test]
fn a_group_that_must_be_held_is_not_added() {
    let mut fixture = Fixture::new(StoragePhase::Object, 1, false);
    fixture.damage(&fixture.user("3"), UnusableKey::TooShort);
    let follow = |uids: &str| {
        format!(
            r#"{{"etype":"user","eid":"7","metric":"follow","delta":1,"ts":5,"uids":[{uids}]}}"#
        )
    };
    let groups = [follow("1"), follow("2,3")];
    for holds_dead_letters in [true, false] {
        fixture.holds_dead_letters = holds_dead_letters;
        let batch = fixture.aggregate(0, &entries(EntryKind::Group, &groups));
        let (next, dead) = if holds_dead_letters { (2, 0) } else { (3, 2) };
        assert_eq!((batch.applied, batch.positions[&0].next), (1, next));
        assert_eq!(batch.dead_letters.len(), dead);
        let followed = fixture.deltas(&batch, &fixture.user("7"));
        assert_eq!(followed, [(idx("followers"), 1)]);
        let followings = fixture.deltas(&batch, &fixture.user("1"));
        assert_eq!(followings, [(idx("followings"), 1)]);
        assert_eq!(fixture.deltas(&batch, &fixture.user("2")), []);
    }
}

#[test]
fn a_malformed_group_becomes_a_dead_letter() {
    let fixture = Fixture::new(StoragePhase::Table, 1, false);
    let template = r#"{"etype":"note","eid":"7","metric":"like","delta":1}"#;
    for (payload, reason) in [
        (template, "a group without users"),
        (r#"{"uids":["1"]}"#, "malformed"),
        ("", "malformed"),
    ] {
        let batch = fixture.aggregate(0, &[entry(1, EntryKind::Group, payload)]);
        let [dead] = batch.dead_letters.as_slice() else {
            panic!("{payload}: {:?}", batch.dead_letters);
        };
        assert_eq!(dead.kind, EntryKind::Group);
        assert!(dead.reason.contains(reason), "{payload}: {}", dead.reason);
    }
}
