//! FactStore that were begun in one way are not found in another: the data remembers which.

use crate::domain::config::{Config, FactKind};
use crate::domain::error::ConnectError;
use crate::redis::store::Store;

/// Checks that the facts of each metric are kept as they were begun.
///
/// # Errors
/// They were begun in another way, or the server cannot be asked.
pub async fn check(store: &Store, config: &Config) -> Result<(), ConnectError> {
    compare(store, config, false).await
}

/// The same, and writes down how those are kept that were not begun yet.
///
/// # Errors
/// As [`check`].
pub async fn claim(store: &Store, config: &Config) -> Result<(), ConnectError> {
    compare(store, config, true).await
}

async fn compare(store: &Store, config: &Config, begins: bool) -> Result<(), ConnectError> {
    let mut has_shards = false;
    for (name, metric) in config.metrics.iter() {
        let Some(kind) = metric.fact_kind() else {
            continue;
        };
        has_shards |= kind == FactKind::Sharded;
        let field = format!("facts:{name}");
        let found = begun(store, &field, kind.name(), begins).await?;
        // A set of ids is what days are folded into: it is one of old days.
        let goes_on = found == FactKind::Rbm.name() && kind == FactKind::Daily;
        if goes_on {
            if begins {
                store.reclaim(&field, kind.name()).await?;
            }
        } else if found != kind.name() {
            let setting = format!("metrics.{name}.facts");
            return Err(other(setting, kind.name(), found));
        }
    }
    if has_shards {
        let shards = config.facts.shards.to_string();
        let found = begun(store, "shards", &shards, begins).await?;
        if found != shards {
            return Err(other("facts.shards".to_owned(), &shards, found));
        }
    }
    Ok(())
}

/// How something was begun: as configured, if it was not yet.
async fn begun(
    store: &Store,
    field: &str,
    configured: &str,
    begins: bool,
) -> Result<String, ConnectError> {
    if begins {
        return Ok(store.claim(field, configured).await?);
    }
    let found = store.claimed(field).await?;
    Ok(found.unwrap_or_else(|| configured.to_owned()))
}

fn other(setting: String, configured: &str, found: String) -> ConnectError {
    ConnectError::Facts {
        setting,
        configured: configured.to_owned(),
        found,
    }
}
