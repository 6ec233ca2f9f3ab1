//! Appends checks of counters to the logs: the step that counts the facts appends their number.

use super::cost::{COST_PERMISSIONS, Costs};
use crate::domain::error::{StoreError, rejected_by_foreign_last_id};
use crate::domain::event::{Check, MAX_CHECKS};
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::facts::{CardSource, recount, recount_permissions};
use crate::log::{offset, renumber};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, SOURCES, ScriptTemplate};
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::collections::BTreeMap;

static APPEND: ScriptTemplate =
    ScriptTemplate::writing(&[SOURCES, include_str!("../lua/append_checks.lua")]);

/// The maximum number of entities per call. The script blocks the server.
const ENTITIES_PER_CALL: usize = 50;

/// The permissions that [`append_checks`] requires.
pub fn append_permissions(backend: CounterBackend) -> Permissions {
    APPEND
        .required_permissions(backend)
        .and(recount_permissions(backend))
        .and(Permissions::of_commands(COST_PERMISSIONS))
}

/// A check to append.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// The entry. Its numbers of facts are ignored.
    pub check: Check,
    /// The metrics whose counters are checked, and where their facts are.
    pub metrics: Vec<(Name, CardSource)>,
}

/// What was appended.
#[derive(Debug, Default)]
pub struct AppendedChecks {
    /// The offset of the last check in each log.
    pub last: BTreeMap<Partition, u64>,
    /// The number of metrics whose facts cannot be counted.
    pub uncounted: u64,
}

/// Counts the facts of entities, and appends a check of each entity to its log.
///
/// # Errors
/// The store is unavailable, or a log rejects the entries. The checks of other partitions may have been appended: a repeated check has no
/// effect.
pub async fn append_checks(
    store: &Store,
    checks: &[CheckRequest],
) -> Result<AppendedChecks, StoreError> {
    let mut by_partition: BTreeMap<Partition, Vec<&CheckRequest>> = BTreeMap::new();
    for request in checks {
        let partition = store.keys().of_entity(&request.check.entity());
        by_partition.entry(partition).or_default().push(request);
    }
    let mut appended = AppendedChecks::default();
    for (partition, requests) in by_partition {
        let mut costs = Costs::default();
        for request in &requests {
            costs.add_entity();
            let sources = request.metrics.iter().take(MAX_CHECKS);
            sources.for_each(|(_, source)| costs.add_counter(Some(source), None));
        }
        for range in costs.calls(store, ENTITIES_PER_CALL).await? {
            let requests = &requests[range];
            let sources = requests.iter().flat_map(|request| &request.metrics);
            recount(store, sources.map(|(_, source)| source)).await?;
            let call = call(store, partition, requests);
            let reply = match call.send(store).await {
                // A rejected append has no effect.
                Err(error) if rejected_by_foreign_last_id(&error) => {
                    renumber(store, partition).await?;
                    call.send(store).await
                }
                reply => reply,
            };
            let (last, uncounted) = <(String, u64)>::from_redis_value(reply?)
                .map_err(|error| StoreError::Unexpected(format!("appended checks: {error}")))?;
            appended.uncounted += uncounted;
            if let Some(offset) = offset(last.as_bytes()) {
                appended.last.insert(partition, offset);
            }
        }
    }
    Ok(appended)
}

fn call(store: &Store, partition: Partition, requests: &[&CheckRequest]) -> RedisCall {
    let log = store.keys().log(partition);
    let mut keys = vec![&log];
    for request in requests {
        let sources = request.metrics.iter().take(MAX_CHECKS);
        keys.extend(sources.flat_map(|(_, source)| source.keys()));
    }
    let mut call = RedisCall::script(APPEND.on(store.backend()), &keys);
    for request in requests {
        let metrics = request.metrics.iter().take(MAX_CHECKS);
        call.cmd
            .arg(request.check.to_json_head())
            .arg(metrics.len());
        for (metric, source) in metrics {
            call.cmd.arg(metric.as_str());
            source.add_arguments(&mut call.cmd);
        }
    }
    call
}
