//! The state that all handlers share.

use super::budget::BodyBudget;
use super::jwt::{JwtVerifier, KeyFileError};
use super::scrape::Scrape;
use super::sessions::Sessions;
use super::tokens::Tokens;
use crate::domain::config::Config;
use crate::domain::health::Health;
use crate::facts::FactStores;
use crate::ingest::actions::Actions;
use crate::ingest::envelopes::EnvelopeWriter;
use crate::ingest::limits::RateLimits;
use crate::ingest::user_counters::UserCounters;
use crate::log::kafka::Topic;
use crate::maintenance::jobs::Jobs;
use crate::query::changes::Changes;
use crate::query::feed::Pages;
use crate::query::prefilter::Prefilter;
use crate::query::ranks::Ranks;
use crate::query::reads::Queries;
use crate::redis::store::Store;
use crate::repair::Rebuilder;
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotTracker;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::watch;

/// The state of the HTTP server. Handlers and middleware clone it several times for each request, so it is shared: a store alone
/// is expensive to clone.
#[derive(Clone)]
pub struct App(Arc<AppState>);

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// What an [`App`] shares.
pub struct AppState {
    pub config: Arc<Config>,
    pub store: Store,
    pub catalog: Catalog,
    pub actions: Actions,
    pub authors: Authors,
    pub jobs: Jobs,
    pub envelopes: EnvelopeWriter,
    pub queries: Queries,
    pub ranks: Ranks,
    pub user_counters: UserCounters,
    pub pages: Pages,
    /// The changes of counters, if they are announced.
    pub changes: Option<Changes>,
    pub health: Health,
    pub hot: HotTracker,
    pub metrics: Scrape,
    /// The OpenAPI document.
    pub document: Arc<str>,
    pub limits: Arc<RateLimits>,
    pub budget: BodyBudget,
    /// The static tokens.
    pub tokens: Arc<Tokens>,
    /// Verifies JSON Web Tokens, if they are configured.
    pub jwt: Option<Arc<JwtVerifier>>,
    /// The sessions of the console.
    pub sessions: Sessions,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The keys of JSON Web Tokens cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// The process cannot handle signals.
    #[error("cannot handle SIGHUP: {0}")]
    Signal(#[from] std::io::Error),
}

impl App {
    /// Creates the state. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// The keys of JSON Web Tokens cannot be read, or the process cannot handle signals.
    pub fn new(
        config: &Arc<Config>,
        (store, topic): (Store, Option<Topic>),
        health: Health,
        metrics: Scrape,
        document: String,
        prefilter: Prefilter,
        stopping: watch::Receiver<bool>,
    ) -> Result<App, StartError> {
        let catalog = Catalog::new(Arc::clone(config), store.clone());
        let authors = Authors::new(store.clone());
        let facts = FactStores::new(store.keys(), store.current_backend(), config.facts.shards);
        let rebuilder = Rebuilder::new(catalog.clone(), store.clone(), facts.clone());
        let hot = HotTracker::start(config.hot, store.clone(), stopping.clone());
        let queries = Queries::new(
            catalog.clone(),
            store.clone(),
            facts.clone(),
            rebuilder.clone(),
            hot.clone(),
        );
        let settings = &config.changes;
        Ok(App(Arc::new(AppState {
            limits: RateLimits::new(&config.limits, store.clone()),
            budget: BodyBudget::new(&config.http),
            jwt: JwtVerifier::start(&config.auth.jwt)?,
            tokens: Tokens::start(config)?,
            sessions: Sessions::default(),
            config: Arc::clone(config),
            actions: Actions::new(
                catalog.clone(),
                store.clone(),
                facts.clone(),
                authors.clone(),
                rebuilder,
                hot.clone(),
            )
            .with_topic(topic.clone()),
            authors,
            user_counters: UserCounters::new(catalog.clone(), store.clone()),
            changes: settings
                .enabled
                .then(|| Changes::new(settings, store.clone(), stopping)),
            jobs: Jobs::new(store.clone()),
            envelopes: EnvelopeWriter::new(catalog.clone(), store.clone(), hot.clone())
                .with_topic(topic),
            pages: Pages::new(catalog.clone(), facts, queries.clone(), prefilter),
            queries,
            ranks: Ranks::new(Arc::clone(config), store.clone()),
            store,
            catalog,
            health,
            hot,
            metrics,
            document: document.into(),
        })))
    }
}
