//! A pass over the keys of all nodes, which converts the values that it finds to the module's types.

use super::error::MigrationError;
use super::lease::Lease;
use super::progress::{Damage, MAX_DAMAGED};
use super::slots::slot_views;
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
use redis::aio::ConnectionManager;
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

/// The commands of a pass.
const PERMISSIONS: &[&str] = &["SCAN 0 COUNT 1"];

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// The maximum number of counters that a script converts, which blocks the server.
const MAX_COUNTERS: usize = 100;
/// The number of members that a script looks at.
const MEMBERS: usize = 500;
/// The name of the step.
pub(super) const ADOPTING: &str = "converting";

/// The permissions of a pass.
pub(super) fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
        .and(ADOPT_VALUES.required_permissions(BACKEND))
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

/// What a pass has found.
#[derive(Debug, Default)]
pub(super) struct PassResult {
    /// The damaged keys, up to [`MAX_DAMAGED`].
    pub damaged: Vec<Damage>,
    /// The number of damaged ones.
    pub damaged_count: u64,
    /// Whether the pass may have missed keys, because slots of the cluster moved.
    pub is_incomplete: bool,
}

impl PassResult {
    fn add_damage(&mut self, key: &str) {
        self.damaged_count += 1;
        if self.damaged.len() < MAX_DAMAGED {
            self.damaged.push(Damage {
                key: key.to_owned(),
                reason: "it, or the key to which its members belong, holds another type or other values",
            });
        }
    }
}

/// A pass over the keys.
pub(super) struct Pass<'a> {
    pub store: &'a Store,
    pub lease: &'a Lease,
    pub adopted: &'a mut Adopted,
    pub progress: &'a dyn Progress,
}

impl Pass<'_> {
    /// Scans all nodes once.
    ///
    /// # Errors
    /// The lock was lost, or Redis failed.
    pub async fn run(&mut self) -> Result<PassResult, MigrationError> {
        let mut result = PassResult::default();
        let nodes = self.store.node_map();
        let mut servers = self.store.servers()?;
        let before = slot_views(self.store, &mut servers).await?;
        let sizes = node_sizes(self.store).await?;
        (self.adopted.visited, self.adopted.all) = (0, sizes.iter().sum());
        for server in &mut servers {
            self.scan(server, &mut result).await?;
        }
        let after = slot_views(self.store, &mut servers).await?;
        let is_stable = before.is_some() && before == after;
        result.is_incomplete = !(is_stable && nodes.is_same(&self.store.node_map()));
        Ok(result)
    }

    async fn scan(
        &mut self,
        server: &mut ConnectionManager,
        result: &mut PassResult,
    ) -> Result<(), MigrationError> {
        let keys = self.store.keys();
        let mut cursor = 0_u64;
        loop {
            self.lease.check()?;
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(SCAN_COUNT);
            let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(server).await?;
            self.adopted.visited += found.len() as u64;
            let found = found.into_iter().filter_map(|key| {
                let key = String::from_utf8(key).ok()?;
                let adoption = keys.adoption_of(&key)?;
                Some((key, adoption))
            });
            let found: Vec<(String, Adoption)> = found.collect();
            self.convert_all(found, result).await?;
            self.adopted.show(ADOPTING, self.progress);
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

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
        for at in damaged {
            let at = (*at as usize).checked_sub(1);
            if let Some(key) = at.and_then(|at| keys.get(at)) {
                result.add_damage(key);
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
            if is_damaged {
                result.add_damage(from);
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}
