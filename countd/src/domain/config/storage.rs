//! `[entities]`: the schemas of entity types, and how counters are stored.

use crate::domain::ids::{Id, Name};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// How counters are stored. The stored layout of the data has precedence: a setting applies to new data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// As rows of tables, one table for each partition. IDs that are not unsigned 64-bit integers have objects.
    #[default]
    Table,
    /// As an object each.
    Object,
}

impl Storage {
    /// Its name in the configuration and in the stored layout.
    pub fn name(self) -> &'static str {
        match self {
            Storage::Table => "table",
            Storage::Object => "object",
        }
    }

    /// The storage with this name.
    pub fn from_name(name: &str) -> Option<Storage> {
        [Storage::Table, Storage::Object]
            .into_iter()
            .find(|storage| storage.name() == name)
    }

    /// The row with the counters of this ID; `None` if they are an object.
    pub fn row(self, id: &Id) -> Option<u64> {
        match self {
            Storage::Table => id.number(),
            Storage::Object => None,
        }
    }
}

/// The settings of an entity type: `note = "v1"`, or `note = { schema = "v1", storage = "object" }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityConfig {
    /// The schema of its counters.
    pub schema: Name,
    /// How its counters are stored.
    pub storage: Storage,
}

/// The long form of [`EntityConfig`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntityTable {
    schema: Name,
    #[serde(default)]
    storage: Storage,
}

impl<'de> Deserialize<'de> for EntityConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<EntityConfig, D::Error> {
        from.deserialize_any(EntityVisitor)
    }
}

struct EntityVisitor;

impl<'de> Visitor<'de> for EntityVisitor {
    type Value = EntityConfig;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a schema, or a table with `schema` and `storage`")
    }

    fn visit_str<E: serde::de::Error>(self, schema: &str) -> Result<EntityConfig, E> {
        Ok(EntityConfig {
            schema: Name::new(schema).map_err(E::custom)?,
            storage: Storage::default(),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EntityConfig, A::Error> {
        let table = EntityTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(EntityConfig {
            schema: table.schema,
            storage: table.storage,
        })
    }
}
