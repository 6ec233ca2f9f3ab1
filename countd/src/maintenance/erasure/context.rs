//! What the steps of jobs use, and how an attempt ends.

use crate::domain::config::Config;
use crate::domain::error::Problem;
use crate::facts::FactStores;
use crate::ingest::actions::Actions;
use crate::log::kafka::Topic;
use crate::maintenance::jobs::Lease;
use crate::redis::run_id::run_ids;
use crate::redis::store::Store;
use crate::repair::Rebuilder;
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotTracker;
use std::sync::Arc;
use std::time::Duration;

/// What the steps of jobs use.
pub(super) struct Erasure {
    pub store: Store,
    pub catalog: Catalog,
    pub facts: FactStores,
    pub actions: Actions,
    pub authors: Authors,
    /// The topic, if the log is in Kafka.
    pub topic: Option<Topic>,
    /// The length of the lease of a job.
    pub lease: Duration,
}

/// The result of an attempt.
pub(super) enum Outcome {
    /// Everything is erased.
    Done,
    /// The job cannot go on now, for this reason.
    Waiting(String),
}

impl Erasure {
    /// Records which servers there are when a pass begins.
    pub(super) async fn begin_pass(&self, lease: &mut Lease) -> Result<(), Problem> {
        lease.job.progress.servers = self.servers().await?;
        Ok(())
    }

    /// Whether a server was restarted or replaced since the pass began: it may have lost its last writes, so that what the pass has
    /// removed from it is there again. Or an entity was split or merged: facts may have moved to where the pass had been.
    pub(super) async fn has_to_repeat(&self, lease: &Lease) -> Result<bool, Problem> {
        Ok(self.servers().await? != lease.job.progress.servers)
    }

    /// The run IDs of all servers, and the epoch of the layout if entities can be split.
    async fn servers(&self) -> Result<Vec<String>, Problem> {
        let mut servers = run_ids(&self.store).await?;
        let layout = self.store.layout();
        servers.extend(layout.can_split.then(|| format!("epoch:{}", layout.epoch)));
        Ok(servers)
    }

    pub fn new(config: Arc<Config>, store: Store, topic: Option<Topic>) -> Erasure {
        let facts = FactStores::new(store.keys(), store.current_backend(), config.facts.shards);
        let catalog = Catalog::new(config, store.clone());
        let authors = Authors::new(store.clone());
        let rebuilder = Rebuilder::new(catalog.clone(), store.clone(), facts.clone());
        let hot = HotTracker::disabled(catalog.config.hot);
        Erasure {
            actions: Actions::new(
                catalog.clone(),
                store.clone(),
                facts.clone(),
                authors.clone(),
                rebuilder,
                hot,
            ),
            lease: Duration::from_millis(catalog.config.consumer.session_timeout_ms),
            authors,
            topic,
            facts,
            catalog,
            store,
        }
    }
}
