//! What the steps of a rebuild share.

use super::error::RebuildError;
use super::observe::Observer;
use super::report::Report;
use super::shadow::Shadows;
use super::state::{self, State};
use crate::domain::progress::Progress;
use crate::maintenance::storage::Lease;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use std::time::{Duration, Instant};

/// The interval in which holds are renewed.
const BEAT: Duration = Duration::from_secs(10);

/// A rebuild in progress.
pub(super) struct Run<'a> {
    pub store: Store,
    pub catalog: Catalog,
    pub lease: Lease,
    pub state: State,
    pub shadows: Shadows,
    pub observer: Observer,
    pub renewed: Instant,
    pub progress: &'a dyn Progress,
    pub report: Report,
}

impl Run<'_> {
    /// Keeps the lock and the holds. To be called every few seconds.
    pub async fn beat(&mut self) -> Result<(), RebuildError> {
        self.lease.check()?;
        if self.renewed.elapsed() >= BEAT && !self.observer.holds.is_empty() {
            state::renew_holds(&self.store).await?;
            self.renewed = Instant::now();
        }
        Ok(())
    }
}
