//! A pass over the keys of all nodes, which moves the objects that it finds.

use super::error::MigrationError;
use super::lease::Lease;
use super::progress::{Counts, Damage, MAX_DAMAGED};
use super::slots::{slot_views, slots};
use super::target::{Movable, Target};
use crate::domain::error::StoreError;
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::domain::progress::Progress;
use crate::maintenance::visits::node_sizes;
use crate::redis::call::RedisCall;
use crate::redis::script::ScriptTemplate;
use crate::redis::store::Store;
use crate::storage::schema::Schemas;
use redis::aio::ConnectionManager;
use std::collections::{BTreeMap, HashMap};

pub(super) static MOVE: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/storage_move.lua")]).with_moves();

/// Commands of a pass.
pub(super) const PERMISSIONS: &[&str] = &["HGET {phases} f", "SCAN 0 MATCH x COUNT 1"];

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// The name of the step.
pub(super) const MOVING: &str = "moving";
/// The maximum number of objects that a script moves, which blocks the server.
const MAX_MOVES: usize = 100;

/// What a pass has found.
#[derive(Debug, Default)]
pub(super) struct PassResult {
    /// The number of objects that could be rows.
    pub found: u64,
    /// The damaged ones, up to [`MAX_DAMAGED`].
    pub damaged: Vec<Damage>,
    /// The number of damaged ones.
    pub damaged_count: u64,
    /// Whether the pass may have missed keys, because slots of the cluster moved.
    pub is_incomplete: bool,
}

/// A pass over the keys.
pub(super) struct Pass<'a> {
    pub store: &'a Store,
    pub schemas: &'a Schemas,
    pub target: &'a Target,
    pub lease: &'a Lease,
    pub counts: &'a mut Counts,
    pub progress: &'a dyn Progress,
}

impl Pass<'_> {
    /// Scans all nodes once.
    ///
    /// # Errors
    /// The lock was lost, or Redis failed.
    pub async fn run(&mut self) -> Result<PassResult, MigrationError> {
        let mut result = PassResult::default();
        // This also finds the current nodes of all slots.
        self.check_phases().await?;
        let nodes = self.store.node_map();
        let mut servers = self.store.servers()?;
        let before = slot_views(self.store, &mut servers).await?;
        let sizes = node_sizes(self.store).await?;
        (self.counts.visited, self.counts.all) = (0, sizes.iter().sum());
        for server in &mut servers {
            self.scan(server, &mut result).await?;
        }
        let after = slot_views(self.store, &mut servers).await?;
        self.check_phases().await?;
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
        let pattern = self.target.pattern(keys);
        let mut cursor = 0_u64;
        loop {
            self.lease.check()?;
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern);
            scan.arg("COUNT").arg(SCAN_COUNT);
            let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(server).await?;
            let movable = found.iter().filter_map(|key| {
                let key = std::str::from_utf8(key).ok()?;
                self.target.movable(keys, key)
            });
            let movable: Vec<Movable> = movable.collect();
            result.found += movable.len() as u64;
            // A step looks at about so many keys, of which it returns those of the pattern.
            self.counts.visited += SCAN_COUNT as u64;
            self.counts.scanned += movable.len() as u64;
            self.move_all(movable, result).await?;
            self.counts.show(MOVING, self.progress);
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn move_all(
        &mut self,
        movable: Vec<Movable>,
        result: &mut PassResult,
    ) -> Result<(), MigrationError> {
        let tagged = self.store.keys().tagged();
        let mut by_slot: BTreeMap<Partition, Vec<Movable>> = BTreeMap::new();
        for one in movable {
            let slot = if tagged { one.partition } else { 0 };
            by_slot.entry(slot).or_default().push(one);
        }
        let mut min_lens: HashMap<Option<Name>, usize> = HashMap::new();
        for (slot, movable) in by_slot {
            for part in movable.chunks(MAX_MOVES) {
                for one in part {
                    if !min_lens.contains_key(&one.schema) {
                        let schema = one.schema.as_ref();
                        let min_len = Target::min_len(self.schemas, schema).await?;
                        min_lens.insert(one.schema.clone(), min_len);
                    }
                }
                let min_len = |one: &Movable| min_lens.get(&one.schema).copied().unwrap_or(0);
                self.move_part(slot, part, min_len, result).await?;
            }
        }
        Ok(())
    }

    async fn move_part(
        &mut self,
        slot: Partition,
        part: &[Movable],
        min_len: impl Fn(&Movable) -> usize,
        result: &mut PassResult,
    ) -> Result<(), MigrationError> {
        let mut keys = vec![self.store.keys().storage_phases(slot)];
        keys.extend(
            part.iter()
                .flat_map(|one| [one.object.clone(), one.table.clone()]),
        );
        let mut call = RedisCall::script(MOVE.moving(), &keys);
        call.cmd.arg(self.target.name());
        for one in part {
            call.cmd.arg(one.id).arg(min_len(one));
        }
        let reply = call.send(self.store).await?;
        let reply: Vec<u64> = redis::from_redis_value(reply)
            .map_err(|error| StoreError::Unexpected(format!("a migration: {error}")))?;
        let [moved, merged, damaged @ ..] = reply.as_slice() else {
            let problem = format!("a migration: {reply:?}");
            return Err(StoreError::Unexpected(problem).into());
        };
        self.counts.moved += moved;
        self.counts.merged += merged;
        for pair in damaged.chunks(2) {
            result.damaged_count += 1;
            let at = (pair[0] as usize).checked_sub(1);
            let Some(one) = at.and_then(|at| part.get(at)) else {
                continue;
            };
            if result.damaged.len() < MAX_DAMAGED {
                result.damaged.push(Damage {
                    key: one.object.clone(),
                    reason: match pair.get(1) {
                        Some(1) => "it has fewer counters than its original schema",
                        _ => "it, or the table of its row, holds another type",
                    },
                });
            }
        }
        Ok(())
    }

    /// Checks that all slots have a phase.
    async fn check_phases(&self) -> Result<(), MigrationError> {
        let phases = phases(self.store, self.target).await?;
        match phases.iter().all(Option::is_some) {
            true => Ok(()),
            false => Err(MigrationError::Refused(
                "a slot has lost the phase of the migration; run the command again".to_owned(),
            )),
        }
    }
}

/// The phases of all slots, in the order of partitions. Without hash tags there is one.
///
/// # Errors
/// Redis failed.
pub(super) async fn phases(
    store: &Store,
    target: &Target,
) -> Result<Vec<Option<String>>, MigrationError> {
    let mut pipeline = redis::pipe();
    for partition in slots(store) {
        pipeline
            .cmd("HGET")
            .arg(store.keys().storage_phases(partition))
            .arg(target.name());
    }
    Ok(pipeline.query_async(&mut store.reads()).await?)
}
