//! The totals of the counts of a file, and the last authors, for the verification. A file can have several records of a counter, so it is read once for
//! each part of the entities that fits in memory.

use super::counts::Mode;
use super::record::{AuthorRecord, CountsRecord, Item, Origin, Record};
use crate::domain::ids::{Entity, Id};
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// The number of entities of a part.
const ENTITIES: u64 = 300_000;

/// The totals of a part of the entities.
pub struct Totals {
    part: u64,
    parts: u64,
    mode: Mode,
    entities: HashMap<Entity, (Origin, Vec<(String, u64)>)>,
    authors: HashMap<Entity, (Origin, Id)>,
}

impl Totals {
    /// The number of parts of a file with so many records.
    pub fn parts(records: u64) -> u64 {
        records.div_ceil(ENTITIES).max(1)
    }

    /// Empty totals of a part. The first is 0.
    pub fn new(part: u64, parts: u64, mode: Mode) -> Totals {
        Totals {
            part,
            parts,
            mode,
            entities: HashMap::new(),
            authors: HashMap::new(),
        }
    }

    fn includes(&self, entity: &Entity) -> bool {
        let Entity { etype, eid } = entity;
        self.parts == 1 || xxh3_64(format!("{etype}:{eid}").as_bytes()) % self.parts == self.part
    }

    /// Adds the records of the entities of this part. They have names of metrics, not aliases.
    pub fn add(&mut self, items: Vec<Item>) {
        for Item { origin, record } in items {
            let CountsRecord { entity, counts } = match record {
                Record::Counts(record) => record,
                // The last author of an entity is the one that it has.
                Record::Author(AuthorRecord { entity, author }) => {
                    if self.includes(&entity) {
                        self.authors.insert(entity, (origin, author));
                    }
                    continue;
                }
                Record::Fact(_) => continue,
            };
            if !self.includes(&entity) {
                continue;
            }
            let (_, totals) = self
                .entities
                .entry(entity)
                .or_insert_with(|| (origin, Vec::new()));
            for (name, value) in counts {
                match totals.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, total)) if self.mode == Mode::Add => *total += value,
                    Some((_, total)) => *total = value,
                    None => totals.push((name, value)),
                }
            }
        }
    }

    /// The totals as records, each with the origin of its first record.
    pub fn into_items(self) -> Vec<Item> {
        let counts = self.entities.into_iter();
        let counts = counts.map(|(entity, (origin, counts))| Item {
            origin,
            record: Record::Counts(CountsRecord { entity, counts }),
        });
        let authors = self.authors.into_iter();
        let authors = authors.map(|(entity, (origin, author))| Item {
            origin,
            record: Record::Author(AuthorRecord { entity, author }),
        });
        counts.chain(authors).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Name;

    fn item(eid: u32, name: &str, value: u64) -> Item {
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new(eid.to_string()).expect("an ID"),
        };
        let counts = vec![(name.to_owned(), value)];
        Item {
            origin: Origin::Line("file".into(), u64::from(eid)),
            record: Record::Counts(CountsRecord { entity, counts }),
        }
    }

    fn sums(totals: Totals) -> Vec<(String, u64)> {
        let items = totals.into_items().into_iter();
        let counts = items.flat_map(|item| match item.record {
            Record::Counts(record) => record.counts,
            _ => Vec::new(),
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort();
        counts
    }

    #[test]
    fn counts_of_an_entity_are_added_or_replaced() {
        for (mode, read) in [(Mode::Add, 7), (Mode::Set, 4)] {
            let mut totals = Totals::new(0, 1, mode);
            totals.add(vec![item(1, "read", 3), item(1, "comment", 2)]);
            totals.add(vec![item(1, "read", 4)]);
            let expected = [("comment".to_owned(), 2), ("read".to_owned(), read)];
            assert_eq!(sums(totals), expected, "{mode:?}");
        }
    }

    #[test]
    fn each_entity_is_in_one_part() {
        let parts = Totals::parts(2 * ENTITIES + 1);
        assert_eq!((parts, Totals::parts(0)), (3, 1));
        let mut all = 0;
        for part in 0..parts {
            let mut totals = Totals::new(part, parts, Mode::Add);
            totals.add((0..1000).map(|eid| item(eid, "read", 1)).collect());
            let found = sums(totals).len();
            assert!(found > 200, "{found}");
            all += found;
        }
        assert_eq!(all, 1000);
    }
}
