//! The replicas of all primaries, and how fresh they are.

use super::freshness::PrimaryHistory;
use super::info::{self, Replication, has_moving_slots};
use crate::domain::config::RedisConfig;
use crate::domain::error::is_no_script;
use crate::redis::address::Address;
use crate::redis::permissions::Permissions;
use futures_util::future::join_all;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Arg, Client, Cmd, ConnectionAddr, ConnectionInfo, Pipeline, RedisError, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout, timeout_at};

/// Commands that this file sends to the nodes of a cluster.
const CLUSTER_PERMISSIONS: &[&str] = &["READONLY", "CLUSTER NODES"];

/// The number of probes within the time that data may be old.
const PROBES: u32 = 5;
/// The maximum interval of probes.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum timeout of a probe. A server that does not answer delays the probes of the others.
const MAX_TIMEOUT: Duration = Duration::from_secs(2);

/// The permissions that reading from replicas requires, on primaries and replicas.
pub fn required_permissions(is_cluster: bool) -> Permissions {
    let more = if is_cluster { CLUSTER_PERMISSIONS } else { &[] };
    Permissions::of_commands(info::PERMISSIONS).and(Permissions::of_commands(more))
}

/// The primaries.
pub struct Primaries {
    /// Whether they are nodes of a cluster.
    pub is_cluster: bool,
    /// Their addresses, under which their replicas are asked for, and connections to them, as they are known now.
    pub servers: Box<dyn Fn() -> Vec<(Address, ConnectionManager)> + Send + Sync>,
}

/// The replicas of all primaries.
pub struct Replicas {
    primaries: Primaries,
    /// The credentials of all servers.
    first: ConnectionInfo,
    settings: ConnectionManagerConfig,
    /// `redis.replicas`, or else the replicas in `INFO replication` of the primary.
    configured: Vec<Address>,
    max_staleness: Duration,
    is_started: AtomicBool,
    connections: Mutex<HashMap<Address, ConnectionManager>>,
    found: Mutex<HashMap<Address, Primary>>,
}

/// A primary and its replicas.
#[derive(Default)]
struct Primary {
    history: PrimaryHistory,
    replicas: Vec<Replica>,
}

/// A replica that can be read.
#[derive(Clone)]
struct Replica {
    connection: ConnectionManager,
    /// It has everything that the primary had executed by then.
    fresh_at: Instant,
    /// Whether it has failed since the last probe.
    has_failed: Arc<AtomicBool>,
}

impl Replicas {
    /// The replicas of primaries, with the credentials of `client`.
    pub fn new(
        primaries: Primaries,
        client: &Client,
        config: &RedisConfig,
        settings: ConnectionManagerConfig,
    ) -> Replicas {
        let max_staleness = config.max_staleness();
        Replicas {
            primaries,
            first: client.get_connection_info().clone(),
            // A reply that comes when the data is too old is of no use.
            settings: settings
                .set_response_timeout(Some(max_staleness.min(config.response_timeout()))),
            configured: config.replica_addresses().unwrap_or_default(),
            max_staleness,
            is_started: AtomicBool::new(false),
            connections: Mutex::default(),
            found: Mutex::default(),
        }
    }

    /// Reads from a replica of a primary. `None` if it has none whose data is fresh enough, or if the replica does not answer before its data
    /// is too old, or with an error. Must be called in a Tokio runtime.
    pub async fn read(
        self: &Arc<Self>,
        primary: &Address,
        commands: impl Iterator<Item = Cmd>,
    ) -> Option<Vec<Value>> {
        if !self.is_started.swap(true, Ordering::AcqRel) {
            tokio::spawn(run(Arc::downgrade(self)));
        }
        let usable = self.usable(primary);
        let commands: Vec<Cmd> = match usable.is_empty() {
            true => return None,
            false => commands.collect(),
        };
        if commands.iter().any(loads_script) {
            // A caller whose script is missing loads it into all servers.
            join_all(usable.iter().map(|replica| self.send(replica, &commands))).await;
            return None;
        }
        let replica = fastrand::choice(usable)?;
        let replies = self.send(&replica, &commands).await;
        let name = match &replies {
            Some(_) => "countd_replica_reads_total",
            None => "countd_replica_fallbacks_total",
        };
        metrics::counter!(name).increment(1);
        replies
    }

    /// Sends commands to a replica. `None` if it does not answer all of them before its data is too old.
    async fn send(&self, replica: &Replica, commands: &[Cmd]) -> Option<Vec<Value>> {
        let is_cluster = self.primaries.is_cluster;
        let mut pipeline = Pipeline::new();
        if is_cluster {
            // Of each pipeline, because the connection may be a new one.
            pipeline.cmd("READONLY");
        }
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let count = pipeline.len();
        let deadline = (replica.fresh_at + self.max_staleness).into();
        let mut connection = replica.connection.clone();
        let sent = connection.req_packed_commands(&pipeline, 0, count);
        match timeout_at(deadline, sent).await {
            Ok(Ok(replies)) if !replies.iter().any(is_error) => {
                Some(replies.into_iter().skip(usize::from(is_cluster)).collect())
            }
            Ok(Ok(_)) => None,
            // Until the next probe has reached it, others need not wait, too.
            Ok(Err(_)) | Err(_) => {
                replica.has_failed.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// The replicas that are fresh enough.
    fn usable(&self, primary: &Address) -> Vec<Replica> {
        let found = lock(&self.found);
        let replicas = found
            .get(primary)
            .map(|primary| primary.replicas.as_slice());
        let now = Instant::now();
        let is_usable = |replica: &&Replica| {
            let age = now.saturating_duration_since(replica.fresh_at);
            age < self.max_staleness && !replica.has_failed.load(Ordering::Relaxed)
        };
        let replicas = replicas.unwrap_or_default().iter();
        replicas.filter(is_usable).cloned().collect()
    }

    async fn probe(&self) {
        let primaries = (self.primaries.servers)();
        let addresses: Vec<Address> = primaries.iter().map(|(at, _)| at.clone()).collect();
        let probes = primaries
            .into_iter()
            .map(|(address, connection)| self.probe_primary(address, connection));
        join_all(probes).await;
        let mut found = lock(&self.found);
        found.retain(|address, _| addresses.contains(address));
        let readable = found
            .values()
            .map(|primary| primary.replicas.len())
            .sum::<usize>();
        metrics::gauge!("countd_replicas").set(readable as f64);
    }

    async fn probe_primary(&self, address: Address, mut connection: ConnectionManager) {
        let sent = Instant::now();
        let reply = self.replication(&mut connection).await;
        let reply = reply.filter(|reply| reply.is_primary);
        let is_movable = self.primaries.is_cluster;
        let (Some(reply), false) = (
            reply,
            // A replica does not know which keys of a moving slot have moved.
            is_movable && self.has_moving_slots(&mut connection).await,
        ) else {
            lock(&self.found).entry(address).or_default().replicas = Vec::new();
            return;
        };
        let addresses = match self.configured.is_empty() {
            true => &reply.replicas,
            false => &self.configured,
        };
        let probes = addresses.iter().map(|address| async move {
            let mut connection = self.connection(address).ok()?;
            let reply = self.replication(&mut connection).await?;
            Some((connection, reply))
        });
        let replies = join_all(probes).await;
        let mut found = lock(&self.found);
        let primary = found.entry(address).or_default();
        primary.history.add(sent, &reply, self.max_staleness);
        let history = &primary.history;
        let fresh = replies
            .into_iter()
            .flatten()
            .filter_map(|(connection, reply)| {
                Some(Replica {
                    connection,
                    fresh_at: history.fresh_at(&reply)?,
                    has_failed: Arc::default(),
                })
            });
        primary.replicas = fresh.collect();
    }

    fn probe_timeout(&self) -> Duration {
        (self.max_staleness / 2).min(MAX_TIMEOUT)
    }

    /// `None` if the server does not reply in time.
    async fn replication(&self, server: &mut ConnectionManager) -> Option<Replication> {
        let read = timeout(self.probe_timeout(), Replication::read(server));
        read.await.ok()?.ok()
    }

    /// Whether slots move away from a node, or that is unknown.
    async fn has_moving_slots(&self, node: &mut ConnectionManager) -> bool {
        let mut cmd = redis::cmd("CLUSTER");
        let nodes = cmd.arg("NODES").query_async::<String>(node);
        match timeout(self.probe_timeout(), nodes).await {
            Ok(Ok(nodes)) => has_moving_slots(&nodes),
            _ => true,
        }
    }

    fn connection(&self, address: &Address) -> Result<ConnectionManager, RedisError> {
        let mut connections = lock(&self.connections);
        if let Some(connection) = connections.get(address) {
            return Ok(connection.clone());
        }
        let (host, port) = address.clone();
        let info = self.first.clone();
        let client = Client::open(info.set_addr(ConnectionAddr::Tcp(host, port)))?;
        let connection = ConnectionManager::new_lazy_with_config(client, self.settings.clone())?;
        connections.insert(address.clone(), connection.clone());
        Ok(connection)
    }
}

/// Probes all servers, as long as the replicas are used.
async fn run(replicas: Weak<Replicas>) {
    loop {
        let Some(replicas) = replicas.upgrade() else {
            return;
        };
        replicas.probe().await;
        let interval = (replicas.max_staleness / PROBES).min(MAX_INTERVAL);
        drop(replicas);
        sleep(interval).await;
    }
}

fn loads_script(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(b"SCRIPT")))
}

/// Whether the primary has to be asked. Not if a script is missing, because the caller loads it and reads again.
fn is_error(reply: &Value) -> bool {
    match reply {
        Value::ServerError(error) => !is_no_script(&error.clone().into()),
        _ => false,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
