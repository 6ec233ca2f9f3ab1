//! Connects a process or a command to Redis and to Kafka.

use crate::cli::acl::{self, Roles};
use crate::systemd;
use countd::domain::config::Config;
use countd::domain::error::ConnectError;
use countd::facts;
use countd::log::archive::{ArchiveError, ArchiveGuard};
use countd::log::kafka::{Topic, TopicError};
use countd::redis::layout::{Purpose, StoredLayout};
use countd::redis::store::Store;
use countd::storage::{schema, user_schema};
use std::fmt::Display;
use std::time::Duration;
use tokio::sync::watch;

/// The delay between two attempts to connect.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// Connects and checks the permissions. Retries while the server is unreachable or starting. Returns `None` if `stopping`
/// turns true first.
pub async fn connect(
    config: &Config,
    roles: Roles,
    stopping: &watch::Receiver<bool>,
) -> Result<Option<Store>, ConnectError> {
    let mut stopping = stopping.clone();
    loop {
        let attempt = async {
            let store = connect_once(config).await?;
            let config = &store.with_columns(config);
            acl::check(&store, config, roles).await?;
            if roles.consumes {
                archive(&store, config).await?;
            }
            user_schema::check_or_extend(&store, config).await?;
            if roles.consumes || roles.serves {
                schema::create_or_extend(&store, config).await?;
            }
            Ok::<_, ConnectError>(store)
        };
        let error = match attempt.await {
            Ok(store) => {
                let (data, module) = (store.backend().name(), store.has_module());
                tracing::info!(data, module, "connected");
                if !module {
                    tracing::warn!("no module: counters are Strings, sets of IDs are Sets");
                }
                return Ok(Some(store));
            }
            Err(error) if error.is_transient() => error,
            Err(error) => return Err(error),
        };
        if !wait_to_retry("no connection to Redis yet", &error, &mut stopping).await {
            return Ok(None);
        }
    }
}

/// Reports why an attempt failed, and waits before the next one. Returns false if `stopping` turns true first.
async fn wait_to_retry(
    problem: &str,
    error: &impl Display,
    stopping: &mut watch::Receiver<bool>,
) -> bool {
    tracing::warn!(%error, "{problem}");
    systemd::report_waiting(&format!("{problem}: {error}"));
    tokio::select! {
        () = tokio::time::sleep(RECONNECT_DELAY) => true,
        _ = stopping.wait_for(|stop| *stop) => false,
    }
}

/// Finds the topic of the configuration, if the log is in Kafka. Retries while no broker is reachable and the data has no topic yet. Returns
/// `None` if `stopping` turns true first.
///
/// # Errors
/// The topic cannot be used with the data.
pub async fn open_topic(
    config: &Config,
    store: &Store,
    stopping: &watch::Receiver<bool>,
) -> Result<Option<Option<Topic>>, TopicError> {
    let mut stopping = stopping.clone();
    loop {
        let error = match Topic::open(config, store).await {
            Ok(topic) => return Ok(Some(topic)),
            Err(error) if error.is_transient() => error,
            Err(error) => return Err(error),
        };
        if !wait_to_retry("the topic is not known yet", &error, &mut stopping).await {
            return Ok(None);
        }
    }
}

/// Connects and checks that the data matches the configured fact stores. New data records them.
///
/// # Errors
/// The server is unreachable, or the data does not match the configuration.
pub async fn connect_once(config: &Config) -> Result<Store, ConnectError> {
    let store = Store::connect(config, Purpose::Use).await?;
    if store.layout().is_restoring {
        return Err(ConnectError::Restoring);
    }
    facts::check_or_init(&store, config).await?;
    Ok(store)
}

/// Checks that the archive belongs to the data and is not newer. Records that counted entries are archived, if they are.
async fn archive(store: &Store, config: &Config) -> Result<(), ConnectError> {
    if let Some(dir) = config.log.archive.dir() {
        match ArchiveGuard::new(store.clone(), dir).check().await {
            Err(error @ (ArchiveError::Foreign(_) | ArchiveError::Ahead { .. })) => {
                return Err(ConnectError::ArchiveRefused(error.to_string()));
            }
            // The archiver checks it before it writes.
            Err(error) => tracing::warn!(%error, "the archive cannot be checked now"),
            Ok(()) => {}
        }
    }
    match (config.log.archive.dir(), store.layout().archives) {
        (Some(_), false) => {
            StoredLayout::record_archive(&mut store.commands(), &store.keys(), true).await?;
            store.refresh_layout().await?;
            Ok(())
        }
        (None, true) => Err(ConnectError::Archive),
        _ => Ok(()),
    }
}
