//! The schema of the counters of users.
//!
//! It begins with the counters that all users have, and is stored like the schema of entities with the reserved ID `user` as soon as
//! there are more. The stored schema and the configuration of each process agree as far as both go, so a counter has one index
//! everywhere: a process appends the counters of its configuration at its start, and refuses to start with any other difference. A
//! process whose configuration is the beginning of the stored schema continues to work, and reads all stored counters.

use super::schema::{Schema, Schemas, user_schema_id};
use crate::domain::config::Config;
use crate::domain::error::{ConnectError, SchemaError, StoreError, join_names};
use crate::domain::ids::Name;
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
    compare(&stored, &config.users.names())?;
    Ok(stored)
}

/// Checks that the stored schema and the configuration agree, and appends the counters that are only in the configuration.
///
/// # Errors
/// They differ, or the server is unavailable.
pub async fn check_or_extend(store: &Store, config: &Config) -> Result<Arc<Schema>, ConnectError> {
    let schemas = Schemas::new(store.clone());
    let configured = config.users.names();
    loop {
        let stored = schemas
            .refresh(user_schema_id())
            .await
            .map_err(connect_error)?;
        compare(&stored, &configured)?;
        let Some(new) = configured.get(stored.len()..).filter(|new| !new.is_empty()) else {
            return Ok(stored);
        };
        match schemas
            .extend_from(user_schema_id(), stored.len(), new)
            .await
        {
            Ok(true) => tracing::info!(counters = join_names(new), "counters of users added"),
            // Another process extended it.
            Ok(false) => {}
            Err(error) => return Err(connect_error(error)),
        }
    }
}

/// Compares the stored counters with the configured ones as far as both go.
fn compare(stored: &Schema, configured: &[Name]) -> Result<(), ConnectError> {
    let pairs = stored.names().iter().zip(configured);
    match pairs
        .into_iter()
        .all(|(stored, configured)| stored == configured)
    {
        true => Ok(()),
        false => Err(ConnectError::UserCounters(join_names(stored.names()))),
    }
}

fn connect_error(error: SchemaError) -> ConnectError {
    match error {
        SchemaError::Store(StoreError::Unavailable(error) | StoreError::Rejected(error)) => {
            ConnectError::Redis(error)
        }
        error => ConnectError::UserSchema(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::BUILT_IN_COUNTERS;

    fn names(text: &str) -> Vec<Name> {
        let five = BUILT_IN_COUNTERS.into_iter();
        let words = five.chain(text.split_whitespace());
        words.map(|word| Name::new(word).expect("a name")).collect()
    }

    #[test]
    fn a_configuration_may_extend_the_stored_counters_or_begin_them() {
        let agree = |stored: &str, configured: &str| {
            let stored = Schema::new(names(stored)).expect("a schema");
            compare(&stored, &names(configured)).is_ok()
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
