//! Appends facts to the logs of their entities as they are in the step that appends them. The commit that reaches such an entry corrects the
//! timelines of users that say otherwise.

use crate::domain::config::Config;
use crate::domain::error::{StoreError, rejected_by_foreign_last_id};
use crate::domain::event::{Check, MAX_CHECKS};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::facts::{Fact, FactStores, MemberSource};
use crate::log::renumber;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use crate::redis::store::Store;
use std::collections::BTreeMap;

static VERIFY: ScriptTemplate = ScriptTemplate::writing(&[include_str!("../lua/verify_facts.lua")]);

/// The maximum number of entries per call. The script blocks the server.
const ENTRIES_PER_CALL: usize = 4;

/// A fact that may differ from the timeline of its user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SuspectFact {
    /// The metric.
    pub metric: Name,
    /// The type of the entity.
    pub etype: Name,
    /// The ID of the entity.
    pub eid: Id,
    /// The user.
    pub uid: Id,
}

/// The permissions that [`verify_facts`] requires.
pub fn verify_permissions(backend: CounterBackend) -> Permissions {
    VERIFY.required_permissions(backend)
}

/// Reads facts and appends them to the logs of their entities.
///
/// # Errors
/// The store is unavailable, or a log rejects the entries. Some may have been appended: a repeated one has no effect.
pub async fn verify_facts(
    store: &Store,
    config: &Config,
    facts: &[SuspectFact],
) -> Result<(), StoreError> {
    let mut by_entity: BTreeMap<(Partition, Name, Id), Vec<&SuspectFact>> = BTreeMap::new();
    for fact in facts {
        let entity = Entity {
            etype: fact.etype.clone(),
            eid: fact.eid.clone(),
        };
        let partition = store.keys().of_entity(&entity);
        let of_entity = (partition, entity.etype, entity.eid);
        by_entity.entry(of_entity).or_default().push(fact);
    }
    let mut by_partition: BTreeMap<Partition, Vec<&[&SuspectFact]>> = BTreeMap::new();
    for ((partition, ..), facts) in &by_entity {
        let entries = facts.chunks(MAX_CHECKS);
        by_partition.entry(*partition).or_default().extend(entries);
    }
    for (partition, entries) in by_partition {
        for entries in entries.chunks(ENTRIES_PER_CALL) {
            let call = call(store, config, partition, entries)?;
            match call.send(store).await {
                // A rejected append has no effect.
                Err(error) if rejected_by_foreign_last_id(&error) => {
                    renumber(store, partition).await?;
                    call.send(store).await?
                }
                reply => reply?,
            };
        }
    }
    Ok(())
}

fn call(
    store: &Store,
    config: &Config,
    partition: Partition,
    entries: &[&[&SuspectFact]],
) -> Result<RedisCall, StoreError> {
    let stores = FactStores::new(store.keys(), store.current_backend(), config.facts.shards);
    let mut keys = vec![store.keys().log(partition)];
    let mut arguments = redis::Cmd::new();
    let source_name =
        Name::new("reverse").map_err(|error| StoreError::Unexpected(error.to_string()))?;
    for facts in entries {
        let Some(first) = facts.first() else {
            continue;
        };
        let entity = Entity {
            etype: first.etype.clone(),
            eid: first.eid.clone(),
        };
        let check = Check::exact(&entity, source_name.clone());
        arguments.arg(check.to_json_head()).arg(facts.len());
        for fact in *facts {
            let source = member_source(&stores, config, fact, &entity);
            keys.extend_from_slice(source.keys());
            arguments.arg(fact.metric.as_str()).arg(fact.uid.as_str());
            source.add_arguments(&mut arguments);
        }
    }
    let mut call = RedisCall::script(VERIFY.on(store.backend()), &keys);
    for argument in arguments.args_iter() {
        if let redis::Arg::Simple(argument) = argument {
            call.cmd.arg(argument);
        }
    }
    Ok(call)
}

fn member_source(
    stores: &FactStores,
    config: &Config,
    fact: &SuspectFact,
    entity: &Entity,
) -> MemberSource {
    let metric = config.metrics.get(fact.metric.as_str());
    let of_metric = metric.and_then(|(_, metric)| stores.of(metric));
    match of_metric {
        Some(facts) if facts.check_uid(&fact.uid).is_ok() => facts.member_source(&Fact {
            metric: &fact.metric,
            entity,
            uid: &fact.uid,
        }),
        _ => MemberSource::none(),
    }
}
