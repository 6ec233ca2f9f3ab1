//! Notices of changes of the logs, of one server or of all primaries of a cluster.

use super::error::FeedError;
use super::primaries::Primaries;
use super::subscriber::Subscriber;
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionAddr};
use std::collections::BTreeSet;
use tokio::sync::Notify;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["PING"];

/// Where notices come from.
enum Source {
    /// The server at this address.
    Server(MultiplexedConnection, ConnectionAddr),
    /// All primaries of a cluster.
    Cluster(Primaries),
}

/// Receives notices of changes.
pub(super) struct Tracking {
    store: Store,
    source: Source,
    subscriber: Subscriber,
}

fn address(client: &Client) -> ConnectionAddr {
    client.get_connection_info().addr().clone()
}

impl Tracking {
    /// Connects. Changes from now on are noticed.
    ///
    /// # Errors
    /// Redis is unavailable or rejects a command, or slots of the cluster are moving.
    pub async fn start(store: &Store) -> Result<Tracking, FeedError> {
        let subscriber = Subscriber::new(store);
        let source = match store.keys().tagged() {
            true => Source::Cluster(Primaries::start(store, &subscriber).await?),
            false => {
                let endpoint = store.endpoint();
                let client = endpoint.client();
                Source::Server(subscriber.open(client).await?, address(client))
            }
        };
        Ok(Tracking {
            store: store.clone(),
            source,
            subscriber,
        })
    }

    /// Is notified of changes.
    pub fn notify(&self) -> &Notify {
        self.subscriber.notify()
    }

    /// A connection to each server.
    pub fn connections(&self) -> Vec<MultiplexedConnection> {
        match &self.source {
            Source::Server(connection, _) => vec![connection.clone()],
            Source::Cluster(primaries) => primaries.connections(),
        }
    }

    /// The partitions whose logs have changed since the last call: all changes that were acknowledged before this call are among them.
    ///
    /// # Errors
    /// Notices may be missing.
    pub async fn changed(&mut self) -> Result<BTreeSet<Partition>, FeedError> {
        match &mut self.source {
            Source::Server(connection, opened) => {
                // Sentinels may name another master.
                if *opened != address(self.store.endpoint().client()) {
                    return Err(FeedError::Lost);
                }
                redis::cmd("PING").exec_async(connection).await?;
            }
            Source::Cluster(primaries) => primaries.synchronize().await?,
        }
        self.subscriber.take()
    }

    /// Checks that no keys have moved between servers since this began.
    ///
    /// # Errors
    /// Some may have.
    pub async fn check_slots(&mut self) -> Result<(), FeedError> {
        match &mut self.source {
            Source::Server(..) => Ok(()),
            Source::Cluster(primaries) => primaries.check_slots().await,
        }
    }
}
