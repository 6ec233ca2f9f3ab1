//! Checks that the configured fact stores match the data. Facts in one kind of store are not found in another, so the stored layout
//! records the kind of each metric.

use crate::domain::config::{Config, FactKind};
use crate::domain::error::ConnectError;
use crate::redis::store::Store;

/// Checks the stored layout of the facts of each metric. Writes nothing.
///
/// # Errors
/// The stored layout differs from the configuration, or the server is unavailable.
pub async fn check(store: &Store, config: &Config) -> Result<(), ConnectError> {
    compare(store, config, false).await
}

/// Checks the stored layout of the facts of each metric, and stores it for new metrics.
///
/// # Errors
/// See [`check`].
pub async fn check_or_init(store: &Store, config: &Config) -> Result<(), ConnectError> {
    compare(store, config, true).await
}

async fn compare(store: &Store, config: &Config, writes: bool) -> Result<(), ConnectError> {
    let mut has_shards = false;
    for (name, metric) in config.metrics.iter() {
        let Some(kind) = metric.fact_kind() else {
            continue;
        };
        has_shards |= kind == FactKind::Sharded;
        let field = format!("facts:{name}");
        let stored = stored_value(store, &field, kind.name(), writes).await?;
        // Days are compacted into an id set, so existing facts of kind rbm become compacted facts of kind daily.
        let is_upgrade = stored == FactKind::Rbm.name() && kind == FactKind::Daily;
        if is_upgrade {
            if writes {
                store.set_layout_field(&field, kind.name()).await?;
            }
        } else if stored != kind.name() {
            let setting = format!("metrics.{name}.facts");
            return Err(mismatch(setting, kind.name(), stored));
        }
    }
    if has_shards {
        let shards = config.facts.shards.to_string();
        let stored = stored_value(store, "shards", &shards, writes).await?;
        if stored != shards {
            return Err(mismatch("facts.shards".to_owned(), &shards, stored));
        }
    }
    Ok(())
}

/// A field of the stored layout. If it does not exist, returns the configured value, and stores it if `writes` is true.
async fn stored_value(
    store: &Store,
    field: &str,
    configured: &str,
    writes: bool,
) -> Result<String, ConnectError> {
    if writes {
        return Ok(store.layout_field_or_init(field, configured).await?);
    }
    let stored = store.layout_field(field).await?;
    Ok(stored.unwrap_or_else(|| configured.to_owned()))
}

fn mismatch(setting: String, configured: &str, found: String) -> ConnectError {
    ConnectError::Facts {
        setting,
        configured: configured.to_owned(),
        found,
    }
}
