//! Which fields of a schema a read returns.

use super::counts::Counts;
use super::fields::CountersToRead;
use crate::domain::ids::{Entity, Id, Name};
use crate::storage::locator::Locator;
use crate::storage::schema::{Schema, SortedNames, is_of_percent};

/// The requested fields of a schema.
pub(super) struct FieldSelection {
    schema_id: Name,
    /// The number of fields of the schema.
    len: usize,
    /// The number of fields that an object has at least.
    min_len: usize,
    selected: SortedNames,
    /// What is selected of the first entities of all by percent, if it is something else.
    of_percent: Option<(SortedNames, u8)>,
}

/// The name of a field by which it was requested.
pub(super) fn name_of(requested: &str, idx: usize, schema: &Schema) -> Name {
    Name::new(requested).unwrap_or_else(|_| schema.names()[idx].clone())
}

impl FieldSelection {
    /// The fields with these names and indexes; all counters of the schema if there are none.
    pub(super) fn new(
        id: &Name,
        schema: &Schema,
        mut fields: Vec<(Name, usize)>,
    ) -> FieldSelection {
        let (selected, of_percent) = match fields.is_empty() {
            true => {
                let new = schema.sorted_new();
                let new = new.map(|(names, percent)| (names.clone(), percent));
                (schema.sorted().clone(), new)
            }
            false => {
                fields.sort();
                fields.dedup();
                let names = fields.iter().map(|(name, _)| name.clone()).collect();
                let indexes = fields.iter().map(|(_, idx)| *idx).collect();
                ((names, indexes), None)
            }
        };
        FieldSelection {
            schema_id: id.clone(),
            len: schema.len(),
            min_len: schema.min_len(),
            selected,
            of_percent,
        }
    }

    /// The number of fields that are read of an entity.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The counters of an entity of this type.
    pub fn to_read(&self, locator: &Locator, entity: &Entity) -> CountersToRead {
        CountersToRead {
            at: locator.entity(&self.schema_id, entity),
            len: self.len,
            min_len: self.min_len,
        }
    }

    /// The counters of an entity or a user in the fields of a schema.
    pub fn counts(&self, id: &Id, fields: &[u64]) -> Counts {
        let new = self.of_percent.as_ref();
        let new = new.filter(|(_, percent)| is_of_percent(id, *percent));
        Counts::new(new.map_or(&self.selected, |(names, _)| names), fields)
    }
}
