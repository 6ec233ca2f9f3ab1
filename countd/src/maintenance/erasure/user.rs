//! The steps of erasing a user.

use super::context::{Erasure, Outcome};
use super::counters::Deletion;
use super::homes::Left;
use crate::domain::config::USER;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::split::SplitPhase;
use crate::maintenance::jobs::Lease;

impl Erasure {
    /// Erases a user. A pass that finds no fact, no entity of the user and no changed counter, and during which no server was restarted or
    /// replaced and no entity was split or merged, is the last one. There are at least two: a key can move while keys are scanned.
    pub(super) async fn erase_user(&self, lease: &mut Lease, uid: &Id) -> Result<Outcome, Problem> {
        let etype = Name::new(USER).map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let user = Entity {
            etype,
            eid: uid.clone(),
        };
        loop {
            lease.save().await?;
            let layout = self.store.layout();
            let mut splits = layout.splits().values();
            if splits.any(|state| state.phase != SplitPhase::Split) {
                // Facts move between keys: another pass has to find them.
                lease.job.progress.is_dirty = true;
                lease.save().await?;
                let reason = "an entity is being split or merged".to_owned();
                return Ok(Outcome::Waiting(reason));
            }
            let next = match lease.job.progress.step.as_str() {
                "" => {
                    self.begin_pass(lease).await?;
                    lease.job.progress.expected = self.read_user_counters(uid).await?;
                    lease.job.progress.pass += 1;
                    lease.job.progress.is_dirty = lease.job.progress.pass == 1;
                    // Before the facts: what they could not add is added before it is taken back. A server that has lost its last writes
                    // brings back facts together with their dead letters.
                    self.retry_dead_letters(lease).await?;
                    "facts"
                }
                "facts" => {
                    self.sweep(lease).await?;
                    "followers"
                }
                "followers" => {
                    self.remove_facts_of(lease, &user).await?;
                    "homes"
                }
                "homes" => match self.leave_homes(lease, uid).await? {
                    Left::Nothing => "counters",
                    Left::Homes => "forget",
                    Left::Waiting(reason) => return Ok(Outcome::Waiting(reason)),
                },
                "forget" => {
                    self.forget_homes(lease, uid).await?;
                    "counters"
                }
                "counters" => {
                    if let Some(reason) = self.drain(lease).await? {
                        return Ok(Outcome::Waiting(reason));
                    }
                    lease.save().await?;
                    match self.erase_user_counters(lease, uid).await? {
                        Deletion::Expired => "counters",
                        deletion => {
                            // The journal entry of a deletion names the user. The next pass deletes it when it is counted.
                            let is_journalled =
                                deletion == Deletion::Deleted && self.store.layout().archives;
                            lease.job.progress.is_dirty |=
                                is_journalled || deletion == Deletion::Refused;
                            "traces"
                        }
                    }
                }
                _ => {
                    let logs = self.all_partitions();
                    if let Some(reason) = self.remove_entries(lease, &logs).await? {
                        return Ok(Outcome::Waiting(reason));
                    }
                    self.remove_dead_letters(lease).await?;
                    self.redact_audits(lease, uid).await?;
                    self.remove_user_notes(uid).await?;
                    self.remove_announcements(lease, uid).await?;
                    if self.store.backend().is_mixed() {
                        lease.job.progress.is_dirty = true;
                        let reason = "an adoption converts the data";
                        return Ok(Outcome::Waiting(reason.to_owned()));
                    }
                    lease.job.progress.is_dirty |= self.has_to_repeat(lease).await?;
                    if !lease.job.progress.is_dirty {
                        self.remove_sums(uid).await?;
                        return Ok(Outcome::Done);
                    }
                    ""
                }
            };
            lease.job.progress.step = next.to_owned();
        }
    }
}
