//! What a migration moves: the counters of entities of a type, or of users.

use crate::domain::config::{BUILT_IN_COUNTERS, USER};
use crate::domain::error::SchemaError;
use crate::domain::ids::Name;
use crate::domain::keys::{Keys, Partition};
use crate::storage::schema::Schemas;

/// What a migration moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The counters of entities of a type.
    Entities(Name),
    /// The counters of users.
    Users,
}

/// The counters of an object that can be a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Movable {
    /// The key of the object.
    pub object: String,
    /// The key of the table.
    pub table: String,
    /// The id of the row.
    pub id: u64,
    /// The partition.
    pub partition: Partition,
    /// The schema of the counters; `None` for those of users.
    pub schema: Option<Name>,
}

impl Target {
    /// The target with this name: an entity type, or `user`.
    pub fn named(etype: Name) -> Target {
        match etype.as_str() {
            USER => Target::Users,
            _ => Target::Entities(etype),
        }
    }

    /// Its name in the layout and in the phases of slots.
    pub fn name(&self) -> &str {
        match self {
            Target::Entities(etype) => etype.as_str(),
            Target::Users => USER,
        }
    }

    /// The pattern of the keys of its objects, for `SCAN`.
    pub(super) fn pattern(&self, keys: Keys) -> String {
        match self {
            Target::Entities(etype) => keys.counters_pattern(etype),
            Target::Users => keys.user_counters_pattern().to_owned(),
        }
    }

    /// The counters at a key, if they are the target's and can be a row. Those of other IDs stay objects.
    pub(super) fn movable(&self, keys: Keys, key: &str) -> Option<Movable> {
        let movable = match self {
            Target::Entities(etype) => {
                let (schema, entity) = keys.entity_of_counters(key)?;
                let partition = keys.of_entity(&entity);
                (entity.etype == *etype).then_some(Movable {
                    object: keys.counters(&schema, &entity),
                    table: keys.table(&schema, etype, partition),
                    id: entity.eid.number()?,
                    partition,
                    schema: Some(schema),
                })
            }
            Target::Users => {
                let uid = keys.user_of_counters(key)?;
                let partition = keys.of_user(&uid);
                Some(Movable {
                    object: keys.user_counters(&uid),
                    table: keys.user_table(partition),
                    id: uid.number()?,
                    partition,
                    schema: None,
                })
            }
        };
        // A key with the tag of another partition is none of countd.
        movable.filter(|movable| movable.object == key)
    }

    /// The minimum length of the objects of a schema; of users' counters without a schema. 0 if the schema does not exist.
    pub(super) async fn min_len(
        schemas: &Schemas,
        schema: Option<&Name>,
    ) -> Result<usize, SchemaError> {
        let Some(schema) = schema else {
            return Ok(BUILT_IN_COUNTERS.len());
        };
        match schemas.get(schema).await {
            Ok(schema) => Ok(schema.min_len()),
            Err(SchemaError::Missing(_)) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash;

    #[test]
    fn counters_of_canonical_numbers_can_be_moved() {
        let name = |text: &str| Name::new(text).expect("a name");
        let (note, users) = (Target::named(name("note")), Target::named(name("user")));
        assert_eq!(users, Target::Users);
        let keys = Keys::new(1024, false, PartitionHash::Murmur2);
        let movable = note.movable(keys, "cnt:v1:note:1").expect("a note");
        assert_eq!((movable.id, movable.partition), (1, 382));
        assert_eq!(movable.table, "tab:v1:note:382");
        let user = users.movable(keys, "ucnt:42").expect("a user");
        assert_eq!((user.id, user.table.as_str()), (42, "utab:108"));
        for key in [
            "cnt:v1:note:007",
            "cnt:v1:note:a-1",
            "cnt:v1:note:18446744073709551616",
            "cnt:v1:video:1",
            "cnt:v1:note:",
            "ucnt:42",
            "tab:v1:note:1",
        ] {
            assert_eq!(note.movable(keys, key), None, "{key}");
        }
        let keys = Keys::new(1024, true, PartitionHash::Murmur2);
        assert!(note.movable(keys, "cnt:v1:note:1:{382}").is_some());
        assert_eq!(note.movable(keys, "cnt:v1:note:1:{383}"), None);
        assert_eq!(note.movable(keys, "cnt:v1:note:1"), None);
    }
}
