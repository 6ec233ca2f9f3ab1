//! The steps of erasing an entity.

use super::context::{Erasure, Outcome};
use super::counters::Deletion;
use crate::domain::error::Problem;
use crate::domain::ids::Entity;
use crate::maintenance::jobs::Lease;

impl Erasure {
    /// Erases an entity. Actions that arrive meanwhile are erased until its counters are deleted; later ones are new.
    pub(super) async fn erase_entity(
        &self,
        lease: &mut Lease,
        entity: &Entity,
    ) -> Result<Outcome, Problem> {
        let partition = self.store.keys().of_entity(entity);
        loop {
            lease.save().await?;
            let next = match lease.job.progress.step.as_str() {
                // Before the facts: what they could not add is added before it is taken back.
                "" => {
                    self.retry_dead_letters(lease).await?;
                    "facts"
                }
                "facts" => {
                    self.remove_facts_of(lease, entity).await?;
                    lease.job.progress.pass += 1;
                    "counters"
                }
                "counters" => {
                    if let Some(reason) = self.drain_logs(lease, &[partition]).await? {
                        return Ok(Outcome::Waiting(reason));
                    }
                    lease.save().await?;
                    match self.erase_entity_counters(lease, entity).await? {
                        Deletion::Refused => "facts",
                        Deletion::Deleted | Deletion::Absent => "keys",
                        Deletion::Expired => "counters",
                    }
                }
                "keys" => {
                    self.sweep(lease).await?;
                    "traces"
                }
                // The step before may have been the last of an earlier attempt.
                _ => {
                    // In a cluster, logs of other partitions have changes of facts of their users.
                    let (partitions, reason) = match self.store.keys().tagged() {
                        true => (self.all_partitions(), self.drain(lease).await?),
                        false => (vec![partition], self.drain_logs(lease, &[partition]).await?),
                    };
                    if let Some(reason) = reason {
                        return Ok(Outcome::Waiting(reason));
                    }
                    // Events that were appended before the counters were deleted have been counted.
                    self.forget_author(entity).await?;
                    self.remove_entries(lease, &partitions).await?;
                    self.remove_dead_letters(lease).await?;
                    return Ok(Outcome::Done);
                }
            };
            lease.job.progress.step = next.to_owned();
        }
    }
}
