//! The schema of the counters of users.
//!
//! It begins with the counters that all users have, and is stored like the schema of entities with the reserved ID `user` as soon as
//! there are more. The stored schema and the configuration of each process agree as far as both go, so a counter has one index
//! everywhere: a process appends the counters of its configuration at its start, and refuses to start with any other difference. A
//! process whose configuration is the beginning of the stored schema continues to work, and reads all stored counters.

use super::schema::{Schema, Schemas, user_schema_id};
use crate::domain::config::Config;
use crate::domain::error::{ConnectError, SchemaError, join_names};
use crate::redis::store::Store;
use std::sync::Arc;

/// Checks that the stored schema and the configuration agree. Writes nothing.
///
/// # Errors
/// They differ, or the server is unavailable.
pub async fn check(store: &Store, config: &Config) -> Result<Arc<Schema>, ConnectError> {
    let schemas = Schemas::new(store.clone());
    let stored = schemas
        .refresh(user_schema_id())
        .await
        .map_err(connect_error)?;
    match stored.agrees_with(&config.users.names()) {
        true => Ok(stored),
        false => Err(ConnectError::UserCounters(join_names(stored.names()))),
    }
}

/// Checks that the stored schema and the configuration agree, and appends the counters that are only in the configuration.
///
/// # Errors
/// They differ, or the server is unavailable.
pub async fn check_or_extend(store: &Store, config: &Config) -> Result<Arc<Schema>, ConnectError> {
    let schemas = Schemas::new(store.clone());
    let extended = schemas
        .set_or_extend(user_schema_id(), &config.users.names())
        .await;
    extended.map_err(connect_error)
}

/// The error of a configuration that does not match the data names its setting.
fn connect_error(error: SchemaError) -> ConnectError {
    match error {
        SchemaError::Differs { names, .. } => ConnectError::UserCounters(join_names(&names)),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::BUILT_IN_COUNTERS;
    use crate::domain::ids::Name;

    fn names(text: &str) -> Vec<Name> {
        let five = BUILT_IN_COUNTERS.into_iter();
        let words = five.chain(text.split_whitespace());
        words.map(|word| Name::new(word).expect("a name")).collect()
    }

    #[test]
    fn a_configuration_may_extend_the_stored_counters_or_begin_them() {
        let agree = |stored: &str, configured: &str| {
            let stored = Schema::new(names(stored)).expect("a schema");
            stored.agrees_with(&names(configured))
        };
        for (stored, configured) in [
            ("", ""),
            ("", "unread"),
            ("unread", ""),
            ("unread", "unread coins"),
            ("unread coins", "unread"),
        ] {
            assert!(agree(stored, configured), "{stored}: {configured}");
        }
        for (stored, configured) in [
            ("unread", "coins"),
            ("unread coins", "coins"),
            ("unread coins", "coins unread"),
            ("unread coins", "unread gems"),
        ] {
            assert!(!agree(stored, configured), "{stored}: {configured}");
        }
    }
}
