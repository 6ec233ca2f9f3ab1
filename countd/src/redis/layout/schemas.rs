//! The columns of types in the stored layout, and the stages of migrations of schemas.

use super::fields::{EPOCH, STORAGE};
use super::form::StoredLayout;
use super::views::{SCHEMA, VIEW};
use crate::domain::ids::Name;
use crate::domain::keys::Keys;
use crate::domain::schema_views::{MigrationState, SchemaViews, View};
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use redis::RedisError;
use redis::aio::ConnectionLike;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Begins a stage.
static STAGE: LazyLock<LoadedScript> = LazyLock::new(|| {
    LoadedScript::writing(concat!(
        include_str!("../../lua/layout_epoch.lua"),
        include_str!("../../lua/schema_stage.lua")
    ))
});

/// The permissions that [`StoredLayout::begin_stage`] requires.
pub fn stage_permissions() -> Permissions {
    STAGE.required_permissions()
}

/// A stage of a migration to begin.
#[derive(Clone, Debug)]
pub struct NextStage {
    /// The schema that has the columns.
    pub columns: Name,
    /// The migration. The epoch of the new stage replaces its `since`.
    pub state: MigrationState,
    /// The schema whose view is recorded.
    pub schema: Name,
    /// The view of the columns that this schema is.
    pub view: View,
    /// The types whose columns are recorded.
    pub etypes: Vec<Name>,
}

impl StoredLayout {
    /// The views of the columns of a schema, and the migration between two of them. `None` if the schema has never been migrated.
    pub fn schema_views(&self, columns: &Name) -> Option<&SchemaViews> {
        self.views.get(columns)
    }

    /// The views of all schemas whose columns others share.
    pub fn all_schema_views(&self) -> &BTreeMap<Name, SchemaViews> {
        &self.views
    }

    /// The name of the column of a counter, in the columns of a schema. A name that no view has for another column stays.
    pub fn column_name<'a>(&'a self, columns: &Name, counter: &'a str) -> &'a str {
        let views = self.views.get(columns).into_iter();
        let mut views = views.flat_map(|of_columns| of_columns.views.values());
        let column = views.find_map(|view| view.renamed.get(counter));
        column.map_or(counter, Name::as_str)
    }

    /// Whether the columns of a type are recorded.
    pub fn has_columns(&self, etype: &Name) -> bool {
        self.columns.contains_key(etype.as_str())
    }

    /// The schema that has the columns of the counters of a type with this schema: another one if the schema is a view of its columns.
    pub fn columns_of<'a>(&'a self, etype: &Name, schema: &'a Name) -> &'a Name {
        let columns = self.columns.get(etype.as_str());
        let has_view = |columns: &&Name| {
            let of_columns = self.views.get(*columns);
            of_columns.is_some_and(|of_columns| of_columns.views.contains_key(schema))
        };
        columns.filter(has_view).unwrap_or(schema)
    }

    /// Begins a stage in one step, unless the migration or the view has changed since this layout was read. Returns the epoch, or 0 if they
    /// have.
    ///
    /// # Errors
    /// The server is unavailable. The stage may have begun.
    pub async fn begin_stage(
        &self,
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        next: &NextStage,
    ) -> Result<u64, RedisError> {
        let NextStage { columns, state, .. } = next;
        let before = self.schema_views(columns);
        let expected = before.map_or(String::new(), |before| before.state.to_string());
        let view_before = before.and_then(|before| before.views.get(&next.schema));
        let (stage, percent) = (state.stage.name(), state.percent);
        let mut call = STAGE.script.key(keys.layout());
        call.arg(format!("{SCHEMA}{columns}")).arg(expected);
        call.arg(format!("{} {} {stage} {percent}", state.from, state.to));
        call.arg(EPOCH)
            .arg(format!("{VIEW}{columns}:{}", next.schema));
        call.arg(view_before.map_or(String::new(), View::to_string));
        call.arg(next.view.to_string());
        for etype in &next.etypes {
            call.arg(format!("{STORAGE}{etype}"));
            call.arg(self.storage_of(etype).name());
        }
        call.arg(columns.as_str());
        call.invoke_async(connection).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::StoragePhase;
    use crate::redis::layout::fields::tests::parse;

    #[test]
    fn views_of_columns_are_parsed() {
        let layout = parse(&[
            ("partitions", "1024/murmur2"),
            ("hash", "murmur2"),
            ("counters", "module"),
            ("authors", "registry"),
            ("storage:note", "table/v1"),
            ("storage:photo", "object"),
            ("schema:v1", "v1 v2 read-new 25 7"),
            ("view:v1:v2", "read>view +share"),
        ])
        .expect("a layout");
        let name = |text: &str| Name::new(text).expect("a name");
        assert_eq!(layout.storage_of(&name("note")), StoragePhase::Table);
        let columns = |etype, schema| layout.columns_of(&name(etype), &name(schema)).clone();
        assert_eq!(columns("note", "v2"), name("v1"));
        assert_eq!(columns("note", "v1"), name("v1"));
        // It is no view of them.
        assert_eq!(columns("note", "v3"), name("v3"));
        // Its counters have always had this schema.
        assert_eq!(columns("photo", "v2"), name("v2"));
        let views = layout.schema_views(&name("v1")).expect("views");
        assert_eq!(views.state.percent_of_reads(), 25);
        assert!(views.is_added(&name("share")) && !views.is_added(&name("read")));
        for (counter, column) in [("view", "read"), ("read", "read"), ("share", "share")] {
            assert_eq!(layout.column_name(&name("v1"), counter), column);
        }
    }
}
