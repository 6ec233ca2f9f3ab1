//! Batches while a migration moves counters.

use super::*;

fn moved(batch: &Batch) -> Vec<String> {
    let mut objects: Vec<String> = batch.moves.objects().cloned().collect();
    objects.sort_unstable();
    objects
}

const LIKE: &str = r#"{"metric":"fav","etype":"note","eid":"1","uid":"42","delta":1}"#;
const OTHER: &str = r#"{"metric":"read","etype":"note","eid":"a-1","uid":"42","delta":2}"#;
const READ: &str = r#"{"metric":"read","etype":"note","eid":"1","uid":"42","delta":3}"#;

#[test]
fn counters_are_in_objects_until_the_slot_has_a_phase() {
    let fixture = Fixture::new(StoragePhase::Moving, 1, false);
    let batch = fixture.aggregate_events(&[LIKE, OTHER, READ]);
    assert!(!batch.moves.is_empty());
    assert_eq!(moved(&batch), [""; 0]);
    assert_eq!(batch.tables.len(), 0);
    let note = &batch.counters["cnt:v1:note:1"];
    assert_eq!(note.deltas, [(0, 3), (2, 1)]);
}

#[test]
fn objects_move_before_rows_are_changed() {
    let mut fixture = Fixture::new(StoragePhase::Moving, 1, false);
    fixture.in_rows.insert("note".to_owned());
    let batch = fixture.aggregate_events(&[LIKE, OTHER, READ]);
    assert_eq!(moved(&batch), ["cnt:v1:note:1"]);
    let tables = batch.tables.updates(fixture.keys());
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].key, "tab:v1:note:0");
    assert_eq!(tables[0].deltas, [(1, 0, 3), (1, 2, 1)]);
    // Other IDs stay objects.
    assert_eq!(batch.counters["cnt:v1:note:a-1"].deltas, [(0, 2)]);
}

#[test]
fn damaged_objects_and_tables_exclude_their_entities() {
    for key in ["cnt:v1:note:1", "tab:v1:note:0"] {
        let mut fixture = Fixture::new(StoragePhase::Moving, 1, false);
        fixture.in_rows.insert("note".to_owned());
        let unusable = (key.to_owned(), UnusableKey::WrongType);
        fixture.unusable_keys.extend([unusable]);
        let batch = fixture.aggregate_events(&[READ, OTHER]);
        assert_eq!(batch.dead_letters.len(), 1, "{key}");
        assert!(batch.dead_letters[0].reason.contains(key));
        assert_eq!(batch.tables.len(), 0);
    }
}

#[test]
fn settled_types_depend_on_no_migration() {
    for storage in STORAGES {
        let fixture = Fixture::new(storage, 1, false);
        let batch = fixture.aggregate_events(&[LIKE, OTHER, READ]);
        assert!(batch.moves.is_empty());
    }
}
