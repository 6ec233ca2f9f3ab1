//! What the verification uses.

use crate::domain::config::Config;
use crate::log::Streams;
use crate::redis::store::Store;
use crate::storage::schema::Schemas;
use std::sync::Arc;

/// The verification of the facts that are kept for users, and of their counters.
pub struct Transposition {
    pub(super) store: Store,
    pub(super) config: Arc<Config>,
    pub(super) log: Streams,
    pub(super) schemas: Schemas,
}

impl Transposition {
    /// Creates a verification.
    pub fn new(store: Store, config: Arc<Config>) -> Transposition {
        Transposition {
            log: Streams::new(store.clone(), &config),
            schemas: Schemas::new(store.clone()),
            store,
            config,
        }
    }
}
