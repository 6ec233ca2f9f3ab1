//! A pass over the keys of all nodes, which converts the values that it finds to the module's types.

use super::error::MigrationError;
use super::lease::Lease;
use super::passes::{Pass, PassResult, scan_nodes};
use crate::domain::error::StoreError;
use crate::domain::keys::{Adoption, MemberKind};
use crate::domain::progress::Progress;
use crate::maintenance::visits::node_sizes;
use crate::query::fields::hash_tag;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, DAY_COUNTS, ScriptTemplate};
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::collections::BTreeMap;

static ADOPT_VALUES: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/adopt_values.lua")]);
static ADOPT_MEMBERS: ScriptTemplate = ScriptTemplate::writing(&[
    AUTHOR,
    DAY_COUNTS,
    include_str!("../../lua/adopt_members.lua"),
]);
/// The functions of the scripts: they find each value in the form that it has.
const BACKEND: CounterBackend = CounterBackend::ModuleOrStrings;

/// The maximum number of counters that a script converts, which blocks the server.
const MAX_COUNTERS: usize = 100;
/// The number of members that a script looks at.
const MEMBERS: usize = 500;
/// The name of the step.
pub(super) const ADOPTING: &str = "converting";

/// The permissions of a pass.
pub(super) fn required_permissions() -> Permissions {
    ADOPT_VALUES
        .required_permissions(BACKEND)
        .and(ADOPT_MEMBERS.required_permissions(BACKEND))
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Adopted {
    /// The number of keys that the current pass has looked at, of all types.
    pub visited: u64,
    /// The number of keys of all nodes when the pass began.
    pub all: u64,
    /// The number of keys that were converted.
    pub converted: u64,
    /// The number of members that were moved to other keys.
    pub moved: u64,
}

/// Why a key cannot be converted.
const DAMAGED: &str =
    "it, or the key to which its members belong, holds another type or other values";

/// A pass over the keys.
pub(super) struct AdoptionPass<'a> {
    pub store: &'a Store,
    pub lease: &'a Lease,
    pub adopted: &'a mut Adopted,
    pub progress: &'a dyn Progress,
}

impl Pass for AdoptionPass<'_> {
    async fn run(&mut self) -> Result<Option<PassResult>, MigrationError> {
        let mut result = PassResult::default();
        let (store, lease) = (self.store, self.lease);
        (self.adopted.visited, self.adopted.all) = (0, node_sizes(store).await?.iter().sum());
        let keys = store.keys();
        let is_complete = scan_nodes(store, lease, None, async |found| {
            self.adopted.visited += found.len() as u64;
            let found = found.into_iter().filter_map(|key| {
                let adoption = keys.adoption_of(&key)?;
                Some((key, adoption))
            });
            self.convert_all(found.collect(), &mut result).await?;
            self.show(ADOPTING);
            Ok(())
        })
        .await?;
        Ok(is_complete.then_some(result))
    }

    fn show(&self, step: &str) {
        self.adopted.show(step, self.progress);
    }
}

impl AdoptionPass<'_> {
    async fn convert_all(
        &mut self,
        found: Vec<(String, Adoption)>,
        result: &mut PassResult,
    ) -> Result<(), MigrationError> {
        let tagged = self.store.keys().tagged();
        let mut counters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, adoption) in found {
            match adoption {
                Adoption::Counters => {
                    let slot = if tagged {
                        hash_tag(&key).to_owned()
                    } else {
                        String::new()
                    };
                    counters.entry(slot).or_default().push(key);
                }
                // A set can be large, and converting it blocks the server.
                Adoption::Ids => self.convert(&[key], "ids", result).await?,
                Adoption::Members { kind, to } => {
                    self.move_members((&key, &to), kind, result).await?;
                }
            }
        }
        for keys in counters.values() {
            for part in keys.chunks(MAX_COUNTERS) {
                self.convert(part, "counters", result).await?;
            }
        }
        Ok(())
    }

    /// Converts the values at keys of one slot.
    async fn convert(
        &mut self,
        keys: &[String],
        kind: &str,
        result: &mut PassResult,
    ) -> Result<(), MigrationError> {
        let mut call = RedisCall::script(ADOPT_VALUES.on(BACKEND), keys);
        for _ in keys {
            call.cmd.arg(kind);
        }
        let reply = call.send(self.store).await?;
        let reply: Vec<u64> = Vec::from_redis_value(reply)
            .map_err(|error| StoreError::Unexpected(format!("an adoption: {error}")))?;
        let (converted, damaged) = reply.split_first().unwrap_or((&0, &[]));
        self.adopted.converted += converted;
        result.found += converted;
        for at in damaged {
            let at = (*at as usize).checked_sub(1);
            if let Some(key) = at.and_then(|at| keys.get(at)) {
                result.found += 1;
                result.add_damage(key, DAMAGED);
            }
        }
        Ok(())
    }

    /// Moves the members of a key with numeric IDs to another key.
    async fn move_members(
        &mut self,
        (from, to): (&str, &str),
        kind: MemberKind,
        result: &mut PassResult,
    ) -> Result<(), MigrationError> {
        let mut cursor = "0".to_owned();
        loop {
            self.lease.check()?;
            let mut call = RedisCall::script(ADOPT_MEMBERS.on(BACKEND), &[from, to]);
            call.cmd.arg(kind.name()).arg(&cursor).arg(MEMBERS);
            let reply = call.send(self.store).await?;
            let (next, moved, is_damaged) = <(String, u64, bool)>::from_redis_value(reply)
                .map_err(|error| StoreError::Unexpected(format!("an adoption: {error}")))?;
            self.adopted.moved += moved;
            result.found += moved;
            if is_damaged {
                result.found += 1;
                result.add_damage(from, DAMAGED);
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}
