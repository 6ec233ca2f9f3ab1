//! Connections to all primaries of a cluster, which receive notices of changes.
//!
//! A log is in the data of the primary that has its slot, or of the one that imports it. So each primary is tracked, also those without slots, and
//! a slot that moves between them loses no notice. What could lose notices is a primary that is not tracked:
//!
//! - A node that joins or leaves changes `cluster_known_nodes` of each node before keys can be moved to it.
//! - A replica is elected by most primaries. Their `cluster_current_epoch` changes before it takes over. After `CLUSTER FAILOVER TAKEOVER`, which is not
//!   an election, it changes as soon as they hear of it.
//! - A node that takes the place of another one while no synchronization sees it, and a replica that is made a primary without slots, change
//!   `CLUSTER NODES` only, which is compared if the last comparison is older than [`VERIFY_INTERVAL`].

use super::cluster::{Info, View};
use super::error::FeedError;
use super::subscriber::Subscriber;
use crate::redis::address::Address;
use crate::redis::endpoint::client_at;
use crate::redis::store::Store;
use futures_util::future::try_join_all;
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use std::time::{Duration, Instant};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["CLUSTER INFO", "CLUSTER NODES"];

/// How long ago `CLUSTER NODES` may have been compared. It takes longer than `CLUSTER INFO`, and its reply grows with the cluster.
const VERIFY_INTERVAL: Duration = Duration::from_millis(100);

const NOT_SERVING: FeedError = FeedError::Cluster("a primary is not available");
const CHANGED: FeedError = FeedError::Cluster("nodes have joined, left or failed over");
const MOVING: FeedError = FeedError::Cluster("slots are moving");

/// Connections to all primaries.
pub(super) struct Primaries {
    connections: Vec<MultiplexedConnection>,
    /// What each said when the connections were opened.
    infos: Vec<Info>,
    /// The nodes when the connections were opened.
    view: View,
    /// When they were compared last.
    verified: Instant,
}

impl Primaries {
    /// Connects to all primaries.
    ///
    /// # Errors
    /// A node is unavailable, nodes disagree, or slots are moving.
    pub async fn start(store: &Store, subscriber: &Subscriber) -> Result<Primaries, FeedError> {
        let (view, hosts) = first_view(store).await?;
        let endpoint = store.endpoint();
        let info = endpoint.client().get_connection_info();
        let opened = view.primaries.values().map(async |primary| {
            let host = primary.host(&hosts).ok_or(NOT_SERVING)?.to_owned();
            let address: Address = (host, primary.port);
            subscriber.open(&client_at(info, &address)?).await
        });
        let mut connections = try_join_all(opened).await?;
        let verified = Instant::now();
        let (infos, views) = ask_all(&mut connections).await?;
        // They differ while not all have heard of an election.
        let is_settled = infos
            .windows(2)
            .all(|pair| pair[0].current_epoch == pair[1].current_epoch);
        let are_meant = view
            .primaries
            .keys()
            .eq(views.iter().map(|view| &view.myself));
        if !is_settled || !are_meant {
            return Err(CHANGED);
        }
        let primaries = Primaries {
            connections,
            infos,
            view,
            verified,
        };
        primaries.compare_slots(&views)?;
        Ok(primaries)
    }

    /// The connections.
    pub fn connections(&self) -> Vec<MultiplexedConnection> {
        self.connections.clone()
    }

    /// Returns once all notices of changes that were acknowledged before this call have arrived.
    ///
    /// # Errors
    /// A node is unavailable, or another one may have been written.
    pub async fn synchronize(&mut self) -> Result<(), FeedError> {
        if self.verified.elapsed() >= VERIFY_INTERVAL {
            let begun = Instant::now();
            let (infos, views) = ask_all(&mut self.connections).await?;
            let is_other = |view: &View| !view.has_same_primaries(&self.view);
            if infos != self.infos || views.iter().any(is_other) {
                return Err(CHANGED);
            }
            self.verified = begun;
            return Ok(());
        }
        let asked = self.connections.iter_mut().map(async |connection| {
            let mut cmd = redis::cmd("CLUSTER");
            let reply: String = cmd.arg("INFO").query_async(connection).await?;
            Info::parse(&reply).ok_or(NOT_SERVING)
        });
        match try_join_all(asked).await? == self.infos {
            true => Ok(()),
            false => Err(CHANGED),
        }
    }

    /// Checks that no slot is moving, and that none has moved since the connections were opened.
    ///
    /// # Errors
    /// One has, or a node is unavailable.
    pub async fn check_slots(&mut self) -> Result<(), FeedError> {
        let (infos, views) = ask_all(&mut self.connections).await?;
        // A slot that has moved to and fro has changed an epoch.
        if infos != self.infos {
            return Err(CHANGED);
        }
        self.compare_slots(&views)
    }

    fn compare_slots(&self, views: &[View]) -> Result<(), FeedError> {
        let is_same = |view: &View| !view.is_moving && view.has_same_slots(&self.view);
        match views.iter().all(is_same) {
            true => Ok(()),
            false => Err(MOVING),
        }
    }
}

/// The nodes that the first available primary knows, and the hosts of the primaries with slots. The first host is that of this primary.
async fn first_view(store: &Store) -> Result<(View, Vec<String>), FeedError> {
    let servers = store.addressed_servers()?;
    let mut hosts: Vec<String> = servers.iter().map(|((host, _), _)| host.clone()).collect();
    let mut failed: Option<RedisError> = None;
    for (at, (_, mut server)) in servers.into_iter().enumerate() {
        let mut cmd = redis::cmd("CLUSTER");
        let reply: Result<String, _> = cmd.arg("NODES").query_async(&mut server).await;
        match reply {
            Ok(reply) => {
                hosts.swap(0, at);
                return Ok((View::parse(&reply).ok_or(NOT_SERVING)?, hosts));
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.map_or(NOT_SERVING, FeedError::from))
}

/// What each node says.
async fn ask_all(
    connections: &mut [MultiplexedConnection],
) -> Result<(Vec<Info>, Vec<View>), FeedError> {
    let asked = connections.iter_mut().map(async |connection| {
        let mut pipeline = redis::pipe();
        pipeline.cmd("CLUSTER").arg("INFO");
        pipeline.cmd("CLUSTER").arg("NODES");
        let (info, nodes): (String, String) = pipeline.query_async(connection).await?;
        let said = Info::parse(&info).zip(View::parse(&nodes));
        said.ok_or(NOT_SERVING)
    });
    Ok(try_join_all(asked).await?.into_iter().unzip())
}
