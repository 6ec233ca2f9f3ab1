//! The views of columns in the stored layout.

use crate::domain::error::ConnectError;
use crate::domain::ids::Name;
use crate::domain::schema_views::{MigrationState, SchemaViews, View};
use std::collections::{BTreeMap, HashMap};

/// The prefix of the fields with the latest migration of each schema that has columns.
pub(super) const SCHEMA: &str = "schema:";
/// The prefix of the fields with the views of these columns, `view:{columns}:{schema}`.
pub(super) const VIEW: &str = "view:";

/// The views of columns, by the schema that has them.
pub(super) fn parse_views(
    fields: &HashMap<String, String>,
) -> Result<BTreeMap<Name, SchemaViews>, ConnectError> {
    let mut all = BTreeMap::new();
    for (field, value) in fields {
        let Some(columns) = field.strip_prefix(SCHEMA) else {
            continue;
        };
        let unknown = |field: &str, value: &str| ConnectError::UnknownLayout {
            field: field.to_owned(),
            value: value.to_owned(),
        };
        let state = MigrationState::parse(value).ok_or_else(|| unknown(field, value))?;
        let mut views = BTreeMap::new();
        let prefix = format!("{VIEW}{columns}:");
        for (field, value) in fields {
            if let Some(schema) = field.strip_prefix(&prefix) {
                let view = View::parse(value).zip(Name::new(schema).ok());
                let (view, schema) = view.ok_or_else(|| unknown(field, value))?;
                views.insert(schema, view);
            }
        }
        let columns = Name::new(columns).map_err(|_| unknown(field, value))?;
        all.insert(columns, SchemaViews { state, views });
    }
    Ok(all)
}
