//! Deletes rankings that are not configured any more.

use crate::domain::config::{Config, TypeRanking};
use crate::domain::error::StoreError;
use crate::domain::ids::Name;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::rank::RANK;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use crate::redis::store::Store;

static DELETE: ScriptTemplate =
    ScriptTemplate::writing(&[RANK, include_str!("../../lua/rank_delete.lua")]);

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "SMEMBERS {rank_names}",
    "SADD {rank_names} a",
    "SREM {rank_names} a",
];

/// The permissions to delete rankings.
pub(super) fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(DELETE.required_permissions(CounterBackend::Strings))
}

/// Records that a ranking of a type has keys.
pub(super) async fn record_name(store: &Store, of: &TypeRanking<'_>) -> Result<(), StoreError> {
    let mut add = redis::cmd("SADD");
    add.arg(store.keys().rank_names());
    add.arg(format!("{}:{}", of.name, of.etype));
    let () = add.query_async(&mut store.commands()).await?;
    Ok(())
}

/// Deletes the keys of recorded rankings that are not configured.
pub(super) async fn remove_others(store: &Store, config: &Config) -> Result<(), StoreError> {
    let keys = store.keys();
    let mut members = redis::cmd("SMEMBERS");
    members.arg(keys.rank_names());
    let names: Vec<String> = members.query_async(&mut store.reads()).await?;
    for recorded in names {
        let parsed = recorded.split_once(':');
        let parsed = parsed.and_then(|(n, e)| Some((Name::new(n).ok()?, Name::new(e).ok()?)));
        if let Some((name, etype)) = parsed {
            let is_it = |of: TypeRanking<'_>| *of.name == name && *of.etype == etype;
            if config.rankings().any(is_it) {
                continue;
            }
            for group in 0..keys.rank_groups() {
                let state = keys.rank_state(&name, &etype, group);
                let sets = keys.ranks(&name, &etype, group);
                let mut call = RedisCall::script(DELETE.on(store.backend()), &[&state]);
                call.cmd.arg(sets.prefix).arg(sets.suffix);
                call.send(store).await?;
            }
            tracing::info!(
                ranking = recorded,
                "deleted a ranking that is not configured"
            );
        }
        let mut remove = redis::cmd("SREM");
        remove.arg(keys.rank_names()).arg(&recorded);
        let () = remove.query_async(&mut store.commands()).await?;
    }
    Ok(())
}
