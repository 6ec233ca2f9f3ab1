//! A pass over the keys of all nodes, which moves the objects that it finds.

use super::error::MigrationError;
use super::lease::Lease;
use super::passes::{Pass, PassResult, SCAN_COUNT, scan_nodes};
use super::progress::Counts;
use super::slots::slots;
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
use std::collections::{BTreeMap, HashMap};

pub(super) static MOVE: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/storage_move.lua")]).with_moves();

/// Commands of a pass.
pub(super) const PERMISSIONS: &[&str] = &["HGET {phases} f"];

/// The name of the step.
pub(super) const MOVING: &str = "moving";
/// The maximum number of objects that a script moves, which blocks the server.
const MAX_MOVES: usize = 100;

/// A pass over the keys.
pub(super) struct MigrationPass<'a> {
    pub store: &'a Store,
    pub schemas: &'a Schemas,
    pub target: &'a Target,
    pub lease: &'a Lease,
    pub counts: &'a mut Counts,
    pub progress: &'a dyn Progress,
}

impl Pass for MigrationPass<'_> {
    async fn run(&mut self) -> Result<Option<PassResult>, MigrationError> {
        let mut result = PassResult::default();
        // This also finds the current nodes of all slots.
        self.check_phases().await?;
        let (store, lease, keys) = (self.store, self.lease, self.store.keys());
        (self.counts.visited, self.counts.all) = (0, node_sizes(store).await?.iter().sum());
        let pattern = self.target.pattern(keys);
        let is_complete = scan_nodes(store, lease, Some(&pattern), async |found| {
            let target = self.target;
            let movable = found.iter().filter_map(|key| target.movable(keys, key));
            let movable: Vec<Movable> = movable.collect();
            result.found += movable.len() as u64;
            // A step looks at about so many keys, of which it returns those of the pattern.
            self.counts.visited += SCAN_COUNT as u64;
            self.counts.scanned += movable.len() as u64;
            self.move_all(movable, &mut result).await?;
            self.show(MOVING);
            Ok(())
        })
        .await?;
        self.check_phases().await?;
        Ok(is_complete.then_some(result))
    }

    fn show(&self, step: &str) {
        self.counts.show(step, self.progress);
    }
}

impl MigrationPass<'_> {
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
            let at = (pair[0] as usize).checked_sub(1);
            let key = at.and_then(|at| part.get(at));
            let reason = match pair.get(1) {
                Some(1) => "it has fewer counters than its original schema",
                _ => "it, or the table of its row, holds another type",
            };
            result.add_damage(key.map_or("", |one| &one.object), reason);
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
