//! Counters in rows of tables.

use super::*;

fn read(eid: &str) -> String {
    format!(r#"{{"etype":"note","eid":"{eid}","metric":"read","delta":1,"uid":9}}"#)
}

fn like(eid: &str, author: &str) -> String {
    format!(
        r#"{{"etype":"note","eid":"{eid}","metric":"like","delta":1,"uid":9,"author":"{author}"}}"#
    )
}

/// The increments of all tables, by key.
fn rows(fixture: &Fixture, batch: &Batch) -> BTreeMap<String, Vec<(u64, u16, i64)>> {
    let tables = batch.tables.updates(fixture.keys()).into_iter();
    tables.map(|table| (table.key, table.deltas)).collect()
}

#[test]
fn a_batch_has_rows_for_numbers_and_objects_for_other_ids() {
    let fixture = Fixture::new(StoragePhase::Table, 1, false);
    let max = u64::MAX.to_string();
    let events = [
        read(&max),
        read("10"),
        read("n-1"),
        read("007"),
        like("10", "5"),
        like("9", "u-1"),
        read("10"),
    ];
    let batch = fixture.aggregate_events(&events.each_ref().map(String::as_str));
    let received = idx("likesReceived");
    assert_eq!(
        rows(&fixture, &batch),
        BTreeMap::from([
            (
                "tab:v1:note:0".to_owned(),
                vec![(9, 1, 1), (10, 0, 2), (10, 1, 1), (u64::MAX, 0, 1)]
            ),
            ("utab:0".to_owned(), vec![(5, received as u16, 1)]),
        ])
    );
    let mut objects: Vec<_> = batch.counters.iter().collect();
    objects.sort_by_key(|(key, _)| *key);
    let objects: Vec<_> = objects
        .into_iter()
        .map(|(key, update)| (key.as_str(), update.deltas.as_slice()))
        .collect();
    assert_eq!(
        objects,
        [
            ("cnt:v1:note:007", [(0, 1)].as_slice()),
            ("cnt:v1:note:n-1", &[(0, 1)]),
            ("ucnt:u-1", &[(received, 1)]),
        ]
    );
    assert_eq!(batch.tables.increment_count(), 5);
    assert_eq!(batch.write_count(), 1 + 2 + 3);
}

#[test]
fn each_type_schema_and_partition_has_its_own_table() {
    let mut fixture = Fixture::new(StoragePhase::Table, 2, false);
    fixture.config =
        Config::parse("[entities]\nnote = \"v1\"\nvideo = \"v1\"\n").expect("a configuration");
    let schema = Schema::new(vec![name("share"), name("read")]).expect("a schema");
    fixture.schemas.insert(name("v2"), Arc::new(schema));
    let home = |etype: &str, eid: u64| {
        let (etype, eid) = (name(etype), id(&eid.to_string()));
        fixture.keys().of_entity(&Entity { etype, eid })
    };
    let mut batch = Batch::default();
    let mut expected: BTreeMap<String, Vec<(u64, u16, i64)>> = BTreeMap::new();
    for (etype, schema, idx) in [("note", "v1", 0), ("video", "v1", 0), ("note", "v2", 1)] {
        for eid in 1..=8 {
            let event = format!(
                r#"{{"schema":"{schema}","etype":"{etype}","eid":{eid},"metric":"read","delta":{eid},"uid":9}}"#
            );
            let partition = home(etype, eid);
            let source = entries(EntryKind::Event, &[event]);
            fixture.read(&mut batch, partition, &source);
            let table = expected.entry(format!("tab:{schema}:{etype}:{partition}"));
            table.or_default().push((eid, idx, eid as i64));
        }
    }
    assert_eq!(expected.len(), 6);
    let expected = expected
        .iter()
        .map(|(key, rows)| (key.clone(), rows.clone()));
    assert_eq!(rows(&fixture, &batch), expected.collect());
}

#[test]
fn every_event_of_an_unusable_table_becomes_a_dead_letter() {
    let mut fixture = Fixture::new(StoragePhase::Table, 1, false);
    fixture.damage(&fixture.note("1"), UnusableKey::WrongType);
    let events = [read("1"), read("2"), read("n-1"), like("n-1", "5")];
    let batch = fixture.aggregate_events(&events.each_ref().map(String::as_str));
    assert_eq!(reasons(&batch), ["tab:v1:note:0 holds another type"; 2]);
    assert_eq!(
        fixture.deltas(&batch, &fixture.note("n-1")),
        [(0, 1), (1, 1)]
    );
    assert_eq!(
        rows(&fixture, &batch).keys().collect::<Vec<_>>(),
        [&"utab:0"]
    );

    fixture.unusable_keys.clear();
    fixture.damage(&fixture.user("5"), UnusableKey::WrongType);
    let batch = fixture.aggregate_events(&events.each_ref().map(String::as_str));
    assert_eq!(reasons(&batch), ["utab:0 holds another type"]);
    assert_eq!(fixture.deltas(&batch, &fixture.note("n-1")), [(0, 1)]);
    assert_eq!(
        rows(&fixture, &batch).keys().collect::<Vec<_>>(),
        [&"tab:v1:note:0"]
    );
}

#[test]
fn users_of_other_partitions_have_rows_unless_a_script_cannot_combine_slots() {
    let author = |tagged: bool| {
        let fixture = Fixture::new(StoragePhase::Table, 64, tagged);
        let (etype, eid) = (name("note"), id("1"));
        let home = fixture.keys().of_entity(&Entity { etype, eid });
        let other = (0_u64..).map(|uid| uid.to_string());
        let mut other = other.filter(|uid| fixture.keys().of_user(&id(uid)) != home);
        let author = other.next().expect("a user");
        let event = like("1", &author);
        let batch = fixture.aggregate(home, &entries(EntryKind::Event, &[event]));
        let forwarded = batch.outbox.len();
        (fixture.deltas(&batch, &fixture.user(&author)), forwarded)
    };
    let received = idx("likesReceived");
    assert_eq!(author(false), (vec![(received, 1)], 0));
    assert_eq!(author(true), (vec![], 1));
}

#[test]
fn sums_of_rows_do_not_wrap() {
    let fixture = Fixture::new(StoragePhase::Table, 1, false);
    let mut batch = Batch::default();
    let table = super::super::super::tables::TableRef::of_users(0);
    for delta in [i64::MAX, 1, i64::MAX] {
        batch.tables.add(table, 5, (7, 0), delta);
    }
    assert_eq!(rows(&fixture, &batch)["utab:0"], [(7, 0, i64::MAX)]);
}
