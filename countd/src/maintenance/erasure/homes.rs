//! Removes a user from the bases of split entities, where they have taken a fact back since the facts were frozen.
//!
//! The base keeps these users because a removal in its log and a later addition in that of a shard have no order on their way to the
//! timeline. So before their home becomes a shard, the base refuses their actions, and everything it has appended for them reaches the
//! timeline. As in a split, no step relies on one that its server could lose: a base that has forgotten that a user leaves would add a
//! second fact. The steps repeat without effect, and a merge ends them.

use super::context::Erasure;
use crate::domain::config::FactKind;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Id;
use crate::facts::{Leaving, SplitFacts};
use crate::log::published::confirm_all;
use crate::maintenance::jobs::Lease;
use crate::maintenance::split::LOSS;
use std::time::{Duration, Instant};

/// The delay before the lease of the job is extended again.
const POLL: Duration = Duration::from_millis(250);

/// What a user leaves.
pub(super) enum Left {
    /// No base.
    Nothing,
    /// Bases, which refuse their actions until the user is forgotten.
    Homes,
    /// They cannot leave now, for this reason.
    Waiting(String),
}

impl Erasure {
    fn splits(&self) -> SplitFacts {
        SplitFacts::new(self.store.keys(), self.facts.clone())
    }

    /// Lets a user leave the bases where they have no fact any more, and waits until their events there have reached the timelines and no
    /// server can lose that they leave.
    pub(super) async fn leave_homes(&self, lease: &mut Lease, uid: &Id) -> Result<Left, Problem> {
        // Only these facts are split.
        if self.facts.get(FactKind::Rbm).check_uid(uid).is_err() {
            return Ok(Left::Nothing);
        }
        self.store.check_layout()?;
        let (layout, splits) = (self.store.layout(), self.splits());
        let mut leaves = false;
        for (base, state) in layout.splits() {
            lease.keep_alive().await?;
            let reply = splits.leave(base, state, uid).send(&self.store).await;
            let leaving = match reply.map_err(StoreError::from) {
                Ok(reply) => Leaving::decode(reply)?,
                Err(StoreError::WrongType(_)) => {
                    lease.job.progress.damaged += 1;
                    tracing::warn!(etype = %base.etype, eid = %base.eid, "the former users of a split entity cannot be read");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            leaves |= leaving == Leaving::Leaves;
            lease.job.progress.is_dirty |= leaving != Leaving::NotFormer;
        }
        if !leaves {
            return Ok(Left::Nothing);
        }
        lease.save().await?;
        if let Some(reason) = self.drain(lease).await? {
            return Ok(Left::Waiting(reason));
        }
        self.wait_until_durable(lease).await?;
        // The next pass begins with the servers that there are then.
        Ok(match self.has_to_repeat(lease).await? {
            true => Left::Nothing,
            false => Left::Homes,
        })
    }

    /// Removes a user who leaves. Does not go on while a server can lose it: the base would refuse their actions again.
    pub(super) async fn forget_homes(&self, lease: &mut Lease, uid: &Id) -> Result<(), Problem> {
        let (layout, splits) = (self.store.layout(), self.splits());
        for (base, state) in layout.splits() {
            lease.keep_alive().await?;
            splits.forget(base, state, uid).send(&self.store).await?;
        }
        // If a server was restarted, the pass is repeated.
        self.wait_until_durable(lease).await
    }

    /// Waits until everything that was written before is on the disks of all servers and, with `redis.ack`, of their replicas, unless one
    /// is restarted or replaced.
    async fn wait_until_durable(&self, lease: &mut Lease) -> Result<(), Problem> {
        confirm_all(&self.store).await?;
        let begun = Instant::now();
        while begun.elapsed() < LOSS {
            lease.keep_alive().await?;
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}
