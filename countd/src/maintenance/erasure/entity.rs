//! The steps of erasing an entity.

use super::context::{Erasure, Outcome};
use super::counters::Deletion;
use crate::domain::error::Problem;
use crate::domain::ids::Entity;
use crate::domain::split::{SplitPhase, SplitState};
use crate::maintenance::jobs::Lease;
use crate::maintenance::storage::Lease as MigrationLock;
use crate::redis::layout::StoredLayout;

/// The number of attempts to delete the counters of an entity at a moment at which all its events are counted. Clients that act on it
/// without a pause must not delay the job forever.
const MAX_ATTEMPTS: u32 = 100;

impl Erasure {
    /// Begins the merge of an entity that is split, which a process that consumes performs. Returns why the erasure waits.
    async fn merge_first(&self, entity: &Entity) -> Result<Option<String>, Problem> {
        let Some(state) = self.store.layout().split_of(entity).cloned() else {
            return Ok(None);
        };
        if state.phase == SplitPhase::Split {
            // A command that changes data of all entities, such as a rebuild, has the lock.
            let lock = MigrationLock::acquire(&self.store, || ()).await;
            let lock = match lock {
                Ok(lock) => lock,
                Err(error) => return Ok(Some(error.to_string())),
            };
            let merging = SplitState {
                phase: SplitPhase::Merging,
                ..(*state).clone()
            };
            let (mut connection, keys) = (self.store.commands(), self.store.keys());
            let change = (Some(&*state), Some(&merging));
            let recorded = StoredLayout::record_split(&mut connection, &keys, entity, change).await;
            lock.release().await;
            recorded?;
        }
        Ok(Some("the entity is being merged".to_owned()))
    }

    /// Erases an entity. Actions that arrive meanwhile are erased until its counters are deleted; later ones are new. An action may be
    /// counted later than that only if clients acted on the entity during all [`MAX_ATTEMPTS`].
    pub(super) async fn erase_entity(
        &self,
        lease: &mut Lease,
        entity: &Entity,
    ) -> Result<Outcome, Problem> {
        let partition = self.store.keys().of_entity(entity);
        let mut attempts = 0;
        loop {
            lease.save().await?;
            if let Some(reason) = self.merge_first(entity).await? {
                return Ok(Outcome::Waiting(reason));
            }
            let next = match lease.job.progress.step.as_str() {
                // Before the facts: what they could not add is added before it is taken back.
                "" => {
                    self.begin_pass(lease).await?;
                    self.retry_dead_letters(lease).await?;
                    "facts"
                }
                "facts" => {
                    self.remove_facts_of(lease, entity).await?;
                    lease.job.progress.pass += 1;
                    "counters"
                }
                "counters" => {
                    if let Some(reason) = self.drain_partition(lease, partition).await? {
                        return Ok(Outcome::Waiting(reason));
                    }
                    lease.save().await?;
                    attempts += 1;
                    let deletion = match attempts > MAX_ATTEMPTS {
                        true => self.erase_entity_counters(lease, entity, None).await?,
                        false => self.erase_when_counted(lease, entity).await?,
                    };
                    match deletion {
                        Deletion::Refused => "facts",
                        Deletion::Deleted | Deletion::Absent => "keys",
                        Deletion::Expired | Deletion::Unexamined => "counters",
                    }
                }
                "keys" => {
                    self.sweep(lease).await?;
                    match self.store.keys().tagged() {
                        true => "keysAgain",
                        false => "traces",
                    }
                }
                // A slot of a cluster can have moved to a node whose keys were visited before.
                "keysAgain" => {
                    self.sweep(lease).await?;
                    "traces"
                }
                // The step before may have been the last of an earlier attempt.
                _ => {
                    // In a cluster, logs of other partitions have changes of facts of their users. Those of shards are elsewhere, too.
                    let is_everywhere = self.store.keys().tagged() || self.store.layout().can_split;
                    let (partitions, reason) = match is_everywhere {
                        true => (self.all_partitions(), self.drain(lease).await?),
                        false => (
                            vec![partition],
                            self.drain_partition(lease, partition).await?,
                        ),
                    };
                    if let Some(reason) = reason {
                        return Ok(Outcome::Waiting(reason));
                    }
                    // Events that were appended before the counters were deleted have been counted.
                    self.forget_author(entity).await?;
                    if let Some(reason) = self.remove_entries(lease, &partitions).await? {
                        return Ok(Outcome::Waiting(reason));
                    }
                    self.remove_dead_letters(lease).await?;
                    self.remove_notes(entity).await?;
                    if !self.has_to_repeat(lease).await? {
                        return Ok(Outcome::Done);
                    }
                    ""
                }
            };
            lease.job.progress.step = next.to_owned();
        }
    }
}
