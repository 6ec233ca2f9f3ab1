//! Tables that were lost. Whoever notices it records the table; a consumer then rebuilds all of its rows from facts.

use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::sync::LazyLock;

static FORGET: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../lua/lost_forget.lua")));
/// The command that records lost tables.
pub(super) const RECORD_PERMISSIONS: &[&str] = &["HSET {reconcile} f v"];
const PERMISSIONS: &[&str] = &["HGETALL {reconcile}"];

/// A table of counters of entities of a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostTable {
    /// The schema of the entities.
    pub schema: Name,
    /// Their type.
    pub etype: Name,
    /// Their partition.
    pub partition: Partition,
}

impl LostTable {
    /// The table with the row of an entity.
    pub fn of(store: &Store, schema: &Name, entity: &Entity) -> LostTable {
        LostTable {
            schema: schema.clone(),
            etype: entity.etype.clone(),
            partition: store.keys().of_entity(entity),
        }
    }

    fn field(&self) -> String {
        let LostTable {
            schema,
            etype,
            partition,
        } = self;
        format!("{schema}:{etype}:{partition}")
    }

    fn parse(field: &str) -> Option<LostTable> {
        let mut parts = field.split(':');
        let table = LostTable {
            schema: Name::new(parts.next()?).ok()?,
            etype: Name::new(parts.next()?).ok()?,
            partition: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(table)
    }
}

/// The permissions to read and to forget lost tables.
pub fn lost_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(FORGET.required_permissions())
}

/// Records lost tables. A table that is lost again is recorded again.
///
/// # Errors
/// The store is unavailable.
pub async fn record_lost<'t>(
    store: &Store,
    tables: impl IntoIterator<Item = &'t LostTable>,
) -> Result<(), StoreError> {
    let mut cmd = redis::cmd("HSET");
    cmd.arg(store.keys().lost_tables());
    let mut count = 0;
    for table in tables {
        tracing::warn!(etype = %table.etype, partition = table.partition, "a table of counters was lost; its rows will be rebuilt from facts");
        let time = format!("{}-{:08x}", now_ms(), fastrand::u32(..));
        cmd.arg(table.field()).arg(time);
        count += 1;
    }
    if count > 0 {
        cmd.exec_async(&mut store.commands()).await?;
        metrics::counter!("countd_lost_tables_total").increment(count);
    }
    Ok(())
}

/// The lost tables, each with the text by which [`forget_lost`] knows it.
///
/// # Errors
/// The store is unavailable.
pub async fn lost_tables(store: &Store) -> Result<Vec<(LostTable, String)>, StoreError> {
    let mut cmd = redis::cmd("HGETALL");
    cmd.arg(store.keys().lost_tables());
    let fields: Vec<(String, String)> = cmd.query_async(&mut store.reads()).await?;
    let tables = fields.into_iter();
    Ok(tables
        .filter_map(|(field, text)| Some((LostTable::parse(&field)?, text)))
        .collect())
}

/// Forgets tables whose rows were rebuilt, unless they were lost again.
///
/// # Errors
/// The store is unavailable.
pub async fn forget_lost(store: &Store, tables: &[(LostTable, String)]) -> Result<(), StoreError> {
    let mut call = FORGET.script.key(store.keys().lost_tables());
    for (table, text) in tables {
        call.arg(table.field()).arg(text);
    }
    let _: u8 = call.invoke_async(&mut store.commands()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_parsed() {
        let name = |text| Name::new(text).expect("a name");
        let table = LostTable {
            schema: name("v1"),
            etype: name("note"),
            partition: 7,
        };
        assert_eq!(LostTable::parse(&table.field()), Some(table));
        for field in ["", "v1:note", "v1:note:x", "v1:note:7:8"] {
            assert_eq!(LostTable::parse(field), None, "{field}");
        }
    }
}
