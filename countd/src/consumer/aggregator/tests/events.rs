//! Events and envelopes.

use super::*;

#[test]
fn events_add_up_by_key_and_index() {
    for storage in STORAGES {
        let fixture = Fixture::new(storage, 1, false);
        let batch = fixture.aggregate_events(&[
            r#"{"schema":"v1","etype":"note","eid":"1","metric":"read","delta":1,"uid":"9","ts":50}"#,
            r#"{"etype":"note","eid":1,"metric":"view","delta":5,"uid":9,"ts":40}"#,
            r#"{"etype":"note","eid":1,"metric":"comment","delta":-2,"uid":9}"#,
            r#"{"etype":"note","eid":2,"metric":"read","delta":1,"uid":9}"#,
        ]);
        assert_eq!(
            fixture.deltas(&batch, &fixture.note("1")),
            [(0, 6), (3, -2)]
        );
        assert_eq!(fixture.deltas(&batch, &fixture.note("2")), [(0, 1)]);
        let update = &batch.positions[&0];
        assert_eq!((update.from, update.next), (1, 5));
        let increments = batch.counters.len() + batch.tables.increment_count();
        let expected = if storage == StoragePhase::Table { 3 } else { 2 };
        assert_eq!((batch.applied, increments), (4, expected));
        let objects = batch.counters.values().map(|update| update.length.len);
        let tables = batch.tables.updates(fixture.keys());
        let tables = tables.iter().map(|update| update.len);
        assert!(objects.chain(tables).all(|len| len == 5));
        assert_eq!(batch.oldest_ts, Some(40));
    }
}

#[test]
fn an_event_counted_with_its_fact_changes_only_user_counters() {
    for storage in STORAGES {
        let like = r#"{"etype":"note","eid":1,"metric":"like","delta":1,"uid":9,"author":7,"counted":true}"#;
        let fixture = Fixture::new(storage, 1, false);
        let batch = fixture.aggregate_events(&[like, like]);
        assert_eq!(fixture.deltas(&batch, &fixture.note("1")), []);
        assert_eq!(
            fixture.deltas(&batch, &fixture.user("7")),
            [(idx("likesReceived"), 2)]
        );
        assert!(batch.outbox.is_empty());
    }
}

#[test]
fn a_follow_changes_the_counters_of_both_users() {
    for storage in STORAGES {
        let follow = r#"{"etype":"user","eid":7,"metric":"follow","delta":1,"uid":9}"#;
        let fixture = Fixture::new(storage, 1, false);
        let batch = fixture.aggregate_events(&[follow]);
        assert_eq!(
            fixture.deltas(&batch, &fixture.user("9")),
            [(idx("followings"), 1)]
        );
        assert_eq!(
            fixture.deltas(&batch, &fixture.user("7")),
            [(idx("followers"), 1)]
        );
        assert_eq!(reasons(&batch), [""; 0]);
    }
}

#[test]
fn increments_of_users_in_other_slots_go_to_the_outbox() {
    for storage in STORAGES {
        let fixture = Fixture::new(storage, 64, true);
        let note = Entity {
            etype: name("note"),
            eid: id("1"),
        };
        let home = fixture.keys().of_entity(&note);
        let is_home = |uid: &u64| fixture.keys().of_user(&id(&uid.to_string())) == home;
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
        let batch = fixture.aggregate(home, &entries(EntryKind::Event, &events));
        assert_eq!(
            fixture.deltas(&batch, &fixture.user(&here.to_string())),
            [(3, 1)]
        );
        let there = id(&there.to_string());
        let users = &batch.outbox[&fixture.keys().of_user(&there)];
        assert_eq!(
            users[&(there, UserCounter::new(3, name("likesReceived")))],
            1
        );
    }
}

#[test]
fn an_envelope_counts_once_and_is_not_remembered_as_a_dead_letter() {
    for storage in STORAGES {
        let mut fixture = Fixture::new(storage, 1, false);
        fixture.duplicate_envelopes.insert(id("before"));
        let envelope = |id: &str, metric: &str| {
            format!(
                r#"{{"event_id":"{id}","event_type":"{metric}","aggregate_type":"note","aggregate_id":1,"payload":{{"delta":1,"uid":9}}}}"#
            )
        };
        let envelopes = [
            envelope("a", "read"),
            envelope("before", "read"),
            envelope("a", "read"),
            envelope("b", "nonsense"),
            envelope("b", "view"),
        ];
        let batch = fixture.aggregate(0, &entries(EntryKind::Envelope, &envelopes));
        assert_eq!(fixture.deltas(&batch, &fixture.note("1")), [(0, 2)]);
        assert_eq!(
            batch.envelope_ids,
            BTreeMap::from([(id("a"), 0), (id("b"), 0)])
        );
        assert_eq!((batch.applied, batch.duplicates), (2, 2));
        assert_eq!(reasons(&batch), ["schema v1 has no metric nonsense"]);
        assert_eq!(batch.dead_letters[0].kind, EntryKind::Envelope);
    }
}

#[test]
fn a_schema_can_be_extended_while_a_batch_accumulates() {
    for storage in STORAGES {
        let mut fixture = Fixture::new(storage, 1, false);
        let event =
            |metric| format!(r#"{{"etype":"note","eid":1,"metric":"{metric}","delta":1,"uid":9}}"#);
        let read = entries(EntryKind::Event, &[event("read")]);
        let mut batch = Batch::default();
        let original = fixture.schemas.clone();
        fixture.read(&mut batch, 0, &read);
        let names = ["read", "like", "fav", "comment", "repost", "share"].map(name);
        let schema = Schema::new(names.to_vec()).expect("a schema");
        fixture.schemas.insert(name("v1"), Arc::new(schema));
        fixture.read(&mut batch, 0, &entries(EntryKind::Event, &[event("share")]));
        // Another worker may still have the original schema.
        fixture.schemas = original;
        fixture.read(&mut batch, 0, &read);
        assert_eq!(fixture.deltas(&batch, &fixture.note("1")), [(0, 2), (5, 1)]);
        let objects = batch.counters.values().map(|update| update.length.len);
        let tables = batch.tables.updates(fixture.keys());
        let tables = tables.iter().map(|update| update.len);
        assert_eq!(objects.chain(tables).collect::<Vec<_>>(), [6]);
    }
}

#[test]
fn configured_counters_of_users_are_fed_by_every_role() {
    let config = r#"
        [users]
        counters = ["unread", "coins"]
        [metrics.notify]
        nature = "repeatable"
        count = "never"
        entities = ["user"]
        users = [{ counter = "unread", of = "target" }, { counter = "coins", of = "actor" }]
        [metrics.like]
        nature = "once"
        count = "now"
        users = [{ counter = "unread", of = "author" }, { counter = "likesReceived", of = "author" }]
    "#;
    let like = r#"{"etype":"note","eid":"1","metric":"like","delta":1,"uid":"8","author":"7","counted":true}"#;
    let notify = r#"{"etype":"user","eid":"7","metric":"notify","delta":2,"uid":"8"}"#;
    for storage in STORAGES {
        let mut fixture = Fixture::new(storage, 1, false);
        fixture.config = Config::parse(config).expect("valid");
        fixture.users = users(&["unread", "coins"]);
        let batch = fixture.aggregate_events(&[like, notify]);
        assert_eq!(reasons(&batch), Vec::<&str>::new());
        assert_eq!(
            fixture.deltas(&batch, &fixture.user("7")),
            [(idx("likesReceived"), 1), (5, 3)]
        );
        assert_eq!(fixture.deltas(&batch, &fixture.user("8")), [(6, 2)]);
        // In a cluster, increments for users in other partitions go to the outbox and name the counter.
        let mut fixture = Fixture::new(storage, 16, true);
        fixture.config = Config::parse(config).expect("valid");
        let home = fixture.keys().of_entity(&Entity {
            etype: name("user"),
            eid: id("7"),
        });
        let batch = fixture.aggregate(home, &entries(EntryKind::Event, &[notify]));
        let forwarded = batch.outbox.values().flatten();
        let mut forwarded: Vec<(String, String, i64)> = forwarded
            .map(|((uid, counter), delta)| (uid.to_string(), counter.name().to_string(), *delta))
            .collect();
        forwarded.sort();
        let expected = [("7", "unread", 2), ("8", "coins", 2)];
        let expected = expected.map(|(uid, name, delta)| (uid.to_owned(), name.to_owned(), delta));
        assert_eq!(forwarded, expected);
    }
}

#[test]
fn a_target_is_a_user() {
    let follow = |etype: &str| {
        format!(r#"{{"etype":"{etype}","eid":"7","metric":"follow","delta":1,"uid":"8"}}"#)
    };
    for storage in STORAGES {
        let fixture = Fixture::new(storage, 1, false);
        let batch = fixture.aggregate_events(&[&follow("note"), &follow("user")]);
        let followers = fixture.deltas(&batch, &fixture.user("7"));
        assert_eq!(followers, [(idx("followers"), 1)]);
    }
}
