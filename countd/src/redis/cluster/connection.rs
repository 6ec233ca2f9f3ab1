//! The nodes of a Redis Cluster as one connection.
//!
//! A command goes to the node that serves the slot of its key. The commands of a pipeline go to all nodes concurrently, one round
//! trip each, and keep their order on each node. Redirections are followed. A command whose connection was lost is not retried
//! here, because it may have been executed: the caller decides. The cluster client of the `redis` crate would retry it, and an
//! append would count twice.

use super::acked::{AckedNodes, marks};
use super::route::{SlotRanges, Target, cluster_down, redirection, target};
use super::slots::read_slots;
use super::via::Via;
use crate::redis::ack::AckRule;
use crate::redis::address::Address;
use crate::redis::endpoint::client_at;
use crate::redis::replicas::Replicas;
use futures_util::future::{join_all, select_ok};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ConnectionAddr, ConnectionInfo, Pipeline, RedisError, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Commands that the connection itself sends.
pub(super) const PERMISSIONS: &[&str] = &["ASKING"];

/// The maximum number of redirections of a command. After that, the redirection is its reply.
const MAX_REDIRECTIONS: usize = 5;
/// The interval between refreshes of the slot ranges that nothing else causes.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// A connection to all nodes. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
    via: Via<Arc<AckedNodes>>,
}

struct Inner {
    /// The configured node, with the credentials for all nodes.
    first: ConnectionInfo,
    /// The configured nodes.
    seeds: BTreeSet<Address>,
    settings: ConnectionManagerConfig,
    connections: Mutex<HashMap<Address, ConnectionManager>>,
    ranges: RwLock<Arc<SlotRanges>>,
    /// The slot ranges have to be refreshed.
    is_stale: AtomicBool,
    /// When they are refreshed even so, in milliseconds since `since`: replicas that were added are candidates of later refreshes.
    refresh_at: AtomicU64,
    since: Instant,
    refreshing: tokio::sync::Mutex<()>,
}

/// The commands for one node: their indexes in the pipeline, and whether `ASKING` precedes them.
type NodeCommands = Vec<(usize, bool)>;

impl Cluster {
    /// Connects to the nodes of `client` and `seeds`, and discovers the others.
    ///
    /// # Errors
    /// None of the nodes is available, or they know no node that serves slots.
    pub async fn connect(
        client: &Client,
        seeds: Vec<Address>,
        settings: ConnectionManagerConfig,
    ) -> Result<Cluster, RedisError> {
        let first = client.get_connection_info().clone();
        let mut seeds = BTreeSet::from_iter(seeds);
        if let ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } =
            first.addr()
        {
            seeds.insert((host.clone(), *port));
        }
        let inner = Arc::new(Inner {
            first,
            seeds,
            settings,
            connections: Mutex::default(),
            ranges: RwLock::default(),
            is_stale: AtomicBool::new(true),
            refresh_at: AtomicU64::new(0),
            since: Instant::now(),
            refreshing: tokio::sync::Mutex::default(),
        });
        let cluster = Cluster {
            inner,
            via: Via::Primary,
        };
        cluster.refresh().await?;
        Ok(cluster)
    }

    /// A connection to the same nodes that returns replies only once they are as safe as required. `settings` are those of its
    /// connections.
    pub fn acked(&self, settings: ConnectionManagerConfig, rule: AckRule) -> Cluster {
        Cluster {
            inner: Arc::clone(&self.inner),
            via: Via::Acked(Arc::new(AckedNodes::new(settings, rule))),
        }
    }

    /// A connection to the same nodes for reads that replicas may answer.
    pub fn with_replicas(&self, replicas: Arc<Replicas>) -> Cluster {
        Cluster {
            inner: Arc::clone(&self.inner),
            via: Via::Replicas(replicas),
        }
    }

    /// A connection to each master.
    ///
    /// # Errors
    /// The address of a node is invalid.
    pub fn masters(&self) -> Result<Vec<ConnectionManager>, RedisError> {
        let ranges = self.ranges();
        let masters = ranges.masters().iter();
        masters.map(|address| self.node(address)).collect()
    }

    /// Whether every slot has a master.
    pub fn covers_all_slots(&self) -> bool {
        self.ranges().slot_count() == usize::from(crate::domain::keys::MAX_PARTITIONS)
    }

    /// The last known slot ranges.
    pub fn ranges(&self) -> Arc<SlotRanges> {
        let ranges = self
            .inner
            .ranges
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&ranges)
    }

    fn node(&self, address: &Address) -> Result<ConnectionManager, RedisError> {
        let connections = self.inner.connections.lock();
        let mut connections = connections.unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = connections.get(address) {
            return Ok(connection.clone());
        }
        let client = self.client(address)?;
        let settings = self.inner.settings.clone();
        let connection = ConnectionManager::new_lazy_with_config(client, settings)?;
        connections.insert(address.clone(), connection.clone());
        Ok(connection)
    }

    fn client(&self, address: &Address) -> Result<Client, RedisError> {
        client_at(&self.inner.first, address)
    }

    /// The slot ranges are refreshed before the next command.
    fn mark_stale(&self) {
        self.inner.is_stale.store(true, Ordering::Release);
    }

    /// Whether the slot ranges may have changed, or were not refreshed for [`REFRESH_INTERVAL`].
    fn must_refresh(&self) -> bool {
        let Inner {
            is_stale,
            refresh_at,
            since,
            ..
        } = &*self.inner;
        let now = since.elapsed().as_millis() as u64;
        is_stale.load(Ordering::Acquire) || now >= refresh_at.load(Ordering::Acquire)
    }

    /// Refreshes the slot ranges if they may have changed. All nodes are queried concurrently, since an unavailable node replies only
    /// after a timeout.
    async fn refresh(&self) -> Result<(), RedisError> {
        let _exclusive = self.inner.refreshing.lock().await;
        if !self.must_refresh() {
            return Ok(());
        }
        self.inner.is_stale.store(false, Ordering::Release);
        let refresh_at = self.inner.since.elapsed() + REFRESH_INTERVAL;
        let refresh_at = refresh_at.as_millis() as u64;
        self.inner.refresh_at.store(refresh_at, Ordering::Release);
        // All masters may have been replaced by their replicas since the last refresh.
        let mut candidates: BTreeSet<Address> = self.ranges().nodes().cloned().collect();
        candidates.extend(self.inner.seeds.iter().cloned());
        let queries = candidates
            .iter()
            .map(|address| Box::pin(async move { read_slots(self.node(address)?, address).await }));
        let queries: Vec<_> = queries.collect();
        let reply = match queries.is_empty() {
            true => Err(cluster_down("the address is not that of a cluster node")),
            false => select_ok(queries).await,
        };
        match reply {
            Ok((ranges, _)) => {
                let current = self.inner.ranges.write();
                let mut current = current.unwrap_or_else(PoisonError::into_inner);
                *current = Arc::new(ranges.after(&current));
                Ok(())
            }
            Err(error) => {
                self.mark_stale();
                Err(error)
            }
        }
    }

    /// Sends commands and returns their replies in order. The error of a command is its reply.
    pub(super) async fn send(&self, commands: &[&Cmd]) -> Result<Vec<Value>, RedisError> {
        let mut replies: Vec<Option<Value>> = vec![None; commands.len()];
        let targets = commands.iter().map(|command| target(command));
        let mut pending: Vec<(usize, Target)> = targets.enumerate().collect();
        for _ in 0..=MAX_REDIRECTIONS {
            if self.must_refresh() {
                self.refresh().await?;
            }
            let by_node = match self.by_node(&pending) {
                Ok(by_node) => by_node,
                // A node that has seen a failover only in part lists the slots of the old master without one. Its reply must not be kept.
                Err(_) => {
                    self.mark_stale();
                    self.refresh().await?;
                    self.by_node(&pending).inspect_err(|_| self.mark_stale())?
                }
            };
            let keyless: BTreeSet<usize> = pending
                .iter()
                .filter(|(_, target)| *target == Target::AllNodes)
                .map(|(at, _)| *at)
                .collect();
            let sent = by_node.into_iter().map(|(address, assigned)| async move {
                let replies = self.send_to(&address, commands, &assigned).await;
                (assigned, replies)
            });
            let (mut failed, mut redirected) = (None, Vec::new());
            for (assigned, received) in join_all(sent).await {
                let received = match received {
                    Ok(received) => received,
                    Err(error) => {
                        self.mark_stale();
                        failed = Some((error, assigned));
                        continue;
                    }
                };
                for ((at, _), reply) in assigned.into_iter().zip(received) {
                    if let Some(target) = redirection(&reply) {
                        if !matches!(target, Target::Node(_, true)) {
                            self.mark_stale();
                        }
                        redirected.push((at, target));
                    }
                    let is_replaceable = |old: &Value| matches!(old, Value::ServerError(_));
                    if !keyless.contains(&at) || replies[at].as_ref().is_none_or(is_replaceable) {
                        replies[at] = Some(reply);
                    }
                }
            }
            if let Some((error, assigned)) = failed {
                // One reply is enough for a command without a key.
                let is_lost =
                    |(at, _): &(usize, bool)| !keyless.contains(at) || replies[*at].is_none();
                if assigned.iter().any(is_lost) {
                    return Err(error);
                }
            }
            if redirected.is_empty() {
                break;
            }
            redirected.sort_by_key(|(at, _)| *at);
            pending = redirected;
        }
        Ok(replies
            .into_iter()
            .map(|reply| reply.unwrap_or(Value::Nil))
            .collect())
    }

    /// The commands that each node gets.
    fn by_node(
        &self,
        pending: &[(usize, Target)],
    ) -> Result<BTreeMap<Address, NodeCommands>, RedisError> {
        let ranges = self.ranges();
        let mut by_node: BTreeMap<Address, NodeCommands> = BTreeMap::new();
        // Nodes of commands with a key come first: commands without a key go to them, too.
        for (_, target) in pending {
            if let Some(address) = ranges.address(target)? {
                by_node.entry(address).or_default();
            }
        }
        if by_node.is_empty() {
            let masters = ranges.masters().iter();
            by_node = masters
                .map(|address| (address.clone(), Vec::new()))
                .collect();
        }
        for (at, target) in pending {
            match ranges.address(target)? {
                Some(address) => {
                    let is_ask = matches!(target, Target::Node(_, true));
                    by_node.entry(address).or_default().push((*at, is_ask));
                }
                None => by_node
                    .values_mut()
                    .for_each(|assigned| assigned.push((*at, false))),
            }
        }
        Ok(by_node)
    }

    async fn send_to(
        &self,
        address: &Address,
        commands: &[&Cmd],
        assigned: &NodeCommands,
    ) -> Result<Vec<Value>, RedisError> {
        let mut pipe = Pipeline::with_capacity(assigned.len());
        for (at, is_ask) in assigned {
            if *is_ask {
                pipe.cmd("ASKING");
            }
            pipe.add_command(commands[*at].clone());
        }
        let count = pipe.len();
        let all = || pipe.cmd_iter().cloned();
        if let Via::Replicas(replicas) = &self.via
            && assigned.iter().all(|(_, is_ask)| !is_ask)
            && let Some(replies) = replicas.read(address, all()).await
        {
            return Ok(replies);
        }
        let replies = match &self.via {
            Via::Primary | Via::Replicas(_) => {
                let mut node = self.node(address)?;
                node.req_packed_commands(&pipe, 0, count).await?
            }
            Via::Acked(acked) => {
                let assigned = assigned.iter().map(|(at, is_ask)| (commands[*at], *is_ask));
                let marks = marks(&self.ranges(), address, assigned);
                let node = acked.node(address, || self.client(address))?;
                node.send(all().collect(), marks).await?
            }
        };
        let mut replies = replies.into_iter();
        let mut received = Vec::with_capacity(assigned.len());
        for (_, is_ask) in assigned {
            if *is_ask {
                replies.next();
            }
            received.extend(replies.next());
        }
        Ok(received)
    }
}
