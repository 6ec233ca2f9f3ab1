//! Erases entities and users: jobs that remove facts, counters, authors and traces.
//!
//! Facts are removed by actions, with events. What the facts had added elsewhere (counters of other users, credit of authors, reverse
//! facts) is therefore taken back by the path that added it, exactly once. A pass that finds nothing ends the job.

mod counters;
mod drain;
mod entity;
mod facts;
mod names;
mod permissions;
mod redact;
mod runner;
mod sweep;
mod traces;
mod user;

pub use permissions::required_permissions;
pub use runner::run;

use crate::domain::config::Config;
use crate::facts::FactStores;
use crate::ingest::actions::Actions;
use crate::redis::store::Store;
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use std::sync::Arc;
use std::time::Duration;

/// What the steps of jobs use.
struct Erasure {
    store: Store,
    catalog: Catalog,
    facts: FactStores,
    actions: Actions,
    authors: Authors,
    /// The length of the lease of a job.
    lease: Duration,
}

/// The result of an attempt.
enum Outcome {
    /// Everything is erased.
    Done,
    /// The job cannot go on now, for this reason.
    Waiting(String),
}

impl Erasure {
    fn new(config: Arc<Config>, store: Store) -> Erasure {
        let facts = FactStores::new(store.keys(), store.backend(), config.facts.shards);
        let catalog = Catalog::new(config, store.clone());
        let authors = Authors::new(store.clone());
        Erasure {
            actions: Actions::new(
                catalog.clone(),
                store.clone(),
                facts.clone(),
                authors.clone(),
            ),
            lease: Duration::from_millis(catalog.config.consumer.session_timeout_ms),
            authors,
            facts,
            catalog,
            store,
        }
    }
}
