//! Deletes the counters of an entity at a moment at which all its events are counted. An event that is counted later would create them
//! again.

use super::context::Erasure;
use super::counters::Deletion;
use super::names::names;
use crate::domain::error::Problem;
use crate::domain::ids::Entity;
use crate::domain::keys::Partition;
use crate::log::inspect::inspect;
use crate::maintenance::jobs::Lease;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["XRANGE {log} - +"];

/// The number of entries that are read at once.
const PAGE: usize = 200;
/// The number of attempts until the log is waited for again. Each one examines only what was appended since the one before.
const ATTEMPTS: usize = 20;

impl Erasure {
    /// Erases the counters and the author of an entity without facts if no event of it is in the log uncounted.
    pub(super) async fn erase_when_counted(
        &self,
        lease: &mut Lease,
        entity: &Entity,
    ) -> Result<Deletion, Problem> {
        let partition = self.store.keys().of_entity(entity);
        let inspection = inspect(&self.store, &[partition]).await;
        if let Some(error) = inspection.error {
            return Err(error.into());
        }
        let state = inspection.states.get(&partition);
        let Some(next) = state.and_then(|state| state.position.as_ref().ok()) else {
            return Ok(Deletion::Unexamined);
        };
        let mut examined = next.saturating_sub(1);
        for _ in 0..ATTEMPTS {
            match self.examine(lease, partition, examined).await? {
                Some(last) => examined = last,
                None => return Ok(Deletion::Unexamined),
            }
            let deletion = self
                .erase_entity_counters(lease, entity, Some(examined))
                .await?;
            if deletion != Deletion::Unexamined {
                return Ok(deletion);
            }
        }
        Ok(Deletion::Unexamined)
    }

    /// The offset of the last entry of a log, if no entry after `examined` names the target.
    async fn examine(
        &self,
        lease: &mut Lease,
        partition: Partition,
        mut examined: u64,
    ) -> Result<Option<u64>, Problem> {
        let log = self.store.keys().log(partition);
        loop {
            type Page = Vec<(String, Vec<Vec<u8>>)>;
            let mut read = redis::cmd("XRANGE");
            read.arg(&log).arg(format!("(0-{examined}")).arg("+");
            read.arg("COUNT").arg(PAGE);
            let page: Page = read.query_async(&mut self.store.commands()).await?;
            for (id, fields) in &page {
                let mut payloads = fields.iter().skip(1).step_by(2);
                let offset = id.strip_prefix("0-").and_then(|offset| offset.parse().ok());
                match offset {
                    Some(offset) if !payloads.any(|one| names(&lease.job.target, one)) => {
                        examined = offset;
                    }
                    // A consumer renumbers foreign entries.
                    _ => return Ok(None),
                }
            }
            if page.len() < PAGE {
                return Ok(Some(examined));
            }
            lease.keep_alive().await?;
        }
    }
}
