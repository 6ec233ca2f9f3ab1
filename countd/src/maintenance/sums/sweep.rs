//! A sweep: its stages, and what it uses.

use crate::domain::config::Config;
use crate::domain::error::{SchemaError, StoreError};
use crate::log::Streams;
use crate::redis::store::Store;
use crate::storage::schema::{Schema, Schemas, user_schema_id};
use std::sync::Arc;
use std::time::Duration;

/// The stages of a sweep. Its number and stage are in each slot.
pub(super) const SUMS_ARE_NEW: u64 = 1;
pub(super) const COLOURING: u64 = 2;
pub(super) const COMPARING: u64 = 3;
pub(super) const COMPARED: u64 = 4;
pub(super) const UNCOLOURING: u64 = 5;
pub(super) const ENDED: u64 = 6;

/// Sweeps over the authors and their counters.
pub struct SumSweep {
    pub(super) store: Store,
    pub(super) config: Arc<Config>,
    pub(super) log: Streams,
    pub(super) schemas: Schemas,
}

impl SumSweep {
    /// Creates a sweep.
    pub fn new(store: Store, config: Arc<Config>) -> SumSweep {
        SumSweep {
            log: Streams::new(store.clone(), &config),
            schemas: Schemas::new(store.clone()),
            store,
            config,
        }
    }

    /// The schema of users.
    pub(super) async fn user_schema(&self) -> Result<Arc<Schema>, StoreError> {
        let schema = self.schemas.get(user_schema_id()).await;
        schema.map_err(|error| match error {
            SchemaError::Store(error) => error,
            error => StoreError::Unexpected(error.to_string()),
        })
    }

    /// Pauses after this number of rows, so that a sweep does not take too much of the server's time.
    pub(super) async fn pace(&self, rows: usize) {
        let rate = self.config.reconcile.entities_per_second.max(1);
        let pause = Duration::from_secs_f64(rows as f64 / rate as f64);
        tokio::time::sleep(pause).await;
    }
}
