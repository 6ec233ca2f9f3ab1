//! Facts that were begun in one way are not found in another: the data remembers which.

use crate::config::{Config, FactKind};
use crate::store::{ConnectError, Store};

/// Writes down how the facts of each metric are kept, and checks that this is how they were begun.
///
/// # Errors
/// They were begun in another way, or the server cannot be asked.
pub async fn claim(store: &Store, config: &Config) -> Result<(), ConnectError> {
    let mut has_shards = false;
    for (name, metric) in config.metrics.iter() {
        let Some(kind) = metric.kept() else { continue };
        has_shards |= kind == FactKind::Sharded;
        let field = format!("facts:{name}");
        let found = store.claim(&field, kind.name()).await?;
        // A set of ids is what days are folded into: it is one of old days.
        let goes_on = found == FactKind::Rbm.name() && kind == FactKind::Daily;
        if goes_on {
            store.reclaim(&field, kind.name()).await?;
        } else if found != kind.name() {
            let setting = format!("metrics.{name}.facts");
            return Err(other(setting, kind.name(), found));
        }
    }
    if has_shards {
        let shards = config.facts.shards.to_string();
        let found = store.claim("shards", &shards).await?;
        if found != shards {
            return Err(other("facts.shards".to_owned(), &shards, found));
        }
    }
    Ok(())
}

fn other(setting: String, configured: &str, found: String) -> ConnectError {
    ConnectError::Facts {
        setting,
        configured: configured.to_owned(),
        found,
    }
}
