//! The connection to Redis, and the stored layout of its data.

use super::latency::LatencyRecorder;
use super::layout::{self, Purpose, StoredLayout};
pub use super::layout_cell::CurrentBackend;
use super::layout_cell::LayoutCell;
pub use super::nodes::NodeMap;
use super::retry::RetryReads;
use super::server_info::{self, has_module, server_info};
use crate::domain::config::{Ack, Config, ReadFrom};
use crate::domain::error::{ConnectError, StoreError};
use crate::domain::ids::Name;
use crate::domain::keys::{Keys, PartitionHash};
use crate::redis::ack::{self, AckRule};
use crate::redis::address::Address;
use crate::redis::cluster::{self, Cluster, Commands};
use crate::redis::connect::connect_server;
use crate::redis::endpoint::Endpoint;
use crate::redis::permissions::Permissions;
use crate::redis::replicas::{self, Primaries, Replicas};
use crate::redis::script::CounterBackend;
use futures_util::future::select_ok;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Commands that every process sends.
const PERMISSIONS: &[&str] = &[
    "PING",
    "SCRIPT LOAD x",
    "HGET {layout} f",
    "HSETNX {layout} f v",
    "HSET {layout} f v",
];
/// Commands that `countd check` sends on data without the module.
pub const LIBRARY_PERMISSIONS: &[&str] = &["FUNCTION LIST"];

/// Connections to a server or to the nodes of a cluster, and the layout of the keys. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    endpoint: Endpoint,
    commands: Commands,
    /// For writes that are confirmed.
    writes: Commands,
    ack: Ack,
    /// For reads that replicas may answer, if they may.
    replica_reads: Option<Commands>,
    timeout: Duration,
    pub(super) keys: Keys,
    pub(super) layout: Arc<LayoutCell>,
    has_module: bool,
    /// The metrics that the configuration keeps for users.
    pub(super) reverse: Arc<[Name]>,
    /// The schema of each configured type, and the one that has the columns of its counters, as this process uses them.
    pub(super) columns: Arc<BTreeMap<Name, (Name, Name)>>,
    /// Whether the columns of a type have changed: this process cannot use them.
    pub(super) is_outdated: Arc<AtomicBool>,
}

impl Store {
    /// Connects, and checks that the data has the configured number of partitions, and that the server has the module if the data
    /// was created with it. Initializes the layout of an empty server.
    ///
    /// # Errors
    /// The server is unavailable or has another layout.
    pub async fn connect(config: &Config, purpose: Purpose) -> Result<Store, ConnectError> {
        let settings = &config.redis;
        let endpoint = Endpoint::open(settings)?;
        let client = endpoint.client();
        let timeout = settings.response_timeout();
        let manager = ConnectionManagerConfig::new()
            .set_response_timeout(Some(timeout))
            .set_connection_timeout(Some(timeout))
            .set_number_of_retries(1)
            .set_max_delay(Duration::from_millis(500));
        let seeds = settings.seed_addresses().unwrap_or_default();
        let first = connect_server(settings, &endpoint, &manager).await?;
        let info = server_info(&mut first.connection()).await?;
        let tagged = info.lines().any(|l| l.trim_end() == "cluster_enabled:1");
        let (mut commands, is_module_loaded) = match tagged {
            true => connect_cluster(client, seeds, manager.clone()).await?,
            false if !seeds.is_empty() => return Err(ConnectError::Seeds(settings.url.clone())),
            false => (Commands::Server(first), has_module(&info)),
        };
        for mut server in commands.servers()? {
            ack::check_server(&mut server, settings).await?;
        }
        let writes = match AckRule::configured(settings) {
            None => commands.clone(),
            Some(rule) => {
                let manager = manager.clone();
                // Waiting is a part of the response time.
                let manager = manager.set_response_timeout(Some(timeout + rule.timeout()));
                commands.acked(manager, rule)
            }
        };
        let replica_reads = (settings.read_from == ReadFrom::Replica).then(|| {
            let known = commands.clone();
            let primaries = Primaries {
                is_cluster: tagged,
                servers: Box::new(move || known.addressed_servers().unwrap_or_default()),
            };
            let replicas = Replicas::new(primaries, client, settings, manager);
            commands.with_replicas(Arc::new(replicas))
        });
        let keys = |hash| Keys::new(config.log.partitions, tagged, hash);
        // The key of the layout does not depend on the hash.
        let any_keys = keys(PartitionHash::Murmur2);
        // Data that was created without the module keeps its backend when the module is loaded later, until it is converted.
        let preferred = match is_module_loaded {
            true => CounterBackend::Module,
            false => CounterBackend::Strings,
        };
        let read_at = Instant::now();
        let layout =
            StoredLayout::load_or_init(&mut commands, &any_keys, (config, purpose), preferred)
                .await?;
        if layout.backend != CounterBackend::Strings && !is_module_loaded {
            return Err(ConnectError::NoModule(settings.url.clone()));
        }
        let columns = config.entities.iter().map(|(etype, entity)| {
            let columns = layout.columns_of(etype, &entity.schema).clone();
            (etype.clone(), (entity.schema.clone(), columns))
        });
        Ok(Store {
            columns: Arc::new(columns.collect()),
            is_outdated: Arc::default(),
            endpoint,
            commands,
            writes,
            ack: settings.ack,
            replica_reads,
            timeout,
            keys: keys(layout.hash),
            layout: Arc::new(LayoutCell::new(layout, read_at)),
            has_module: is_module_loaded,
            reverse: config.metrics.reverse().cloned().collect(),
        })
    }

    /// The permissions that every process requires.
    pub fn required_permissions(&self) -> Permissions {
        let mut permissions =
            Permissions::of_commands(PERMISSIONS).and(layout::required_permissions());
        permissions = permissions.and(Permissions::of_commands(server_info::PERMISSIONS));
        permissions = permissions.and(Permissions::of_commands(ack::permissions(self.ack)));
        if self.replica_reads.is_some() {
            permissions = permissions.and(replicas::required_permissions(self.keys.tagged()));
        }
        if self.keys.tagged() {
            permissions = permissions.and(cluster::required_permissions());
        }
        if self
            .endpoint
            .client()
            .get_connection_info()
            .redis_settings()
            .db()
            != 0
        {
            permissions = permissions.and(Permissions::of_commands(&["SELECT 0"]));
        }
        permissions
    }

    /// Connections to the server, or to all masters of the cluster.
    ///
    /// # Errors
    /// The address of a node is invalid.
    pub fn servers(&self) -> Result<Vec<ConnectionManager>, StoreError> {
        Ok(self.commands.servers()?)
    }

    /// [`servers`](Self::servers), with the addresses under which their replicas are known.
    ///
    /// # Errors
    /// The address of a node is invalid.
    pub fn addressed_servers(&self) -> Result<Vec<(Address, ConnectionManager)>, StoreError> {
        Ok(self.commands.addressed_servers()?)
    }

    /// [`servers`](Self::servers), each with its address as `host:port`.
    ///
    /// # Errors
    /// The address of a node is invalid.
    pub fn named_servers(&self) -> Result<Vec<(String, ConnectionManager)>, StoreError> {
        let servers = self.addressed_servers()?.into_iter();
        let client = self.commands.client();
        let only = client.map(|client| client.get_connection_info().addr().to_string());
        let named = servers.map(|((host, port), server)| match &only {
            None => (format!("{host}:{port}"), server),
            Some(name) => (name.clone(), server),
        });
        Ok(named.collect())
    }

    /// The last known mapping of partitions to nodes.
    pub fn node_map(&self) -> NodeMap {
        let ranges = match &self.commands {
            Commands::Server(_) => None,
            Commands::Cluster(cluster) => Some(cluster.ranges()),
        };
        NodeMap::new(self.keys, ranges)
    }

    /// The shared connection for commands. It reconnects automatically; commands in flight then fail.
    pub fn commands(&self) -> LatencyRecorder<Commands> {
        LatencyRecorder(self.commands.clone())
    }

    /// The connections for writes that are confirmed, to a client or by removing what was written from elsewhere. A reply is returned once
    /// everything that its server has executed until then is as safe as `redis.ack` requires.
    pub fn writes(&self) -> LatencyRecorder<Commands> {
        LatencyRecorder(self.writes.clone())
    }

    /// The shared connection for read-only commands, which are retried once if the connection is lost.
    pub fn reads(&self) -> RetryReads<LatencyRecorder<Commands>> {
        RetryReads(self.commands())
    }

    /// What [`writes`](Self::writes) wait for.
    pub fn ack(&self) -> Ack {
        self.ack
    }

    /// Whether replicas may answer [`replica_reads`](Self::replica_reads).
    pub fn reads_from_replicas(&self) -> bool {
        self.replica_reads.is_some()
    }

    /// The shared connection for reads that may be as old as `redis.max_staleness_ms`. Nothing may be decided from their replies that
    /// changes data.
    pub fn replica_reads(&self) -> RetryReads<LatencyRecorder<Commands>> {
        let commands = self.replica_reads.as_ref().unwrap_or(&self.commands);
        RetryReads(LatencyRecorder(commands.clone()))
    }

    /// How the server is reached that it is now, for dedicated connections. In a cluster, that of `redis.url`.
    pub fn endpoint(&self) -> Endpoint {
        match self.commands.client() {
            Some(client) => self.endpoint.with_client(client),
            None => self.endpoint.clone(),
        }
    }

    /// The response timeout.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The layout of the keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// How the data stores counters and id sets. It changes while an adoption runs.
    pub fn backend(&self) -> CounterBackend {
        self.layout.backend()
    }

    /// A handle on [`backend`](Self::backend), for objects that outlive a change of the layout.
    pub fn current_backend(&self) -> CurrentBackend {
        CurrentBackend::Of(Arc::clone(&self.layout))
    }

    /// The stored layout of the data. It changes while a migration runs.
    pub fn layout(&self) -> Arc<StoredLayout> {
        self.layout.load()
    }

    /// Whether the server had loaded the module when this process connected to it. Data that was created without it does not use it until it
    /// is converted.
    pub fn has_module(&self) -> bool {
        self.has_module
    }

    /// Whether the server has loaded the fallback library, which countd itself does not need.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn has_library(&self) -> Result<bool, StoreError> {
        let libraries: Vec<redis::Value> = redis::cmd("FUNCTION")
            .arg(&["LIST", "LIBRARYNAME", "countint"])
            .query_async(&mut self.commands())
            .await?;
        Ok(!libraries.is_empty())
    }

    /// A field of the stored layout.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn layout_field(&self, field: &str) -> Result<Option<String>, RedisError> {
        layout_field(&mut self.commands(), &self.keys, field).await
    }

    /// A field of the stored layout, set to `value` if it does not exist.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn layout_field_or_init(
        &self,
        field: &str,
        value: &str,
    ) -> Result<String, RedisError> {
        let mut commands = self.commands.clone();
        layout_field_or_init(&mut commands, &self.keys, field, value.to_owned()).await
    }

    /// Sets a field of the stored layout.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn set_layout_field(&self, field: &str, value: &str) -> Result<(), RedisError> {
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.keys.layout()).arg(field).arg(value);
        cmd.exec_async(&mut self.commands()).await
    }

    /// Pings all servers. Succeeds as soon as one replies.
    ///
    /// # Errors
    /// No server replies.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let servers = self.servers()?.into_iter();
        let pings: Vec<_> = servers.map(|server| Box::pin(ping(server))).collect();
        if pings.is_empty() {
            return Err(StoreError::Unexpected("no server is known".to_owned()));
        }
        select_ok(pings).await.map(|_| ())
    }
}

async fn ping(server: ConnectionManager) -> Result<(), StoreError> {
    let mut server = RetryReads(server);
    let reply: String = redis::cmd("PING").query_async(&mut server).await?;
    match reply.as_str() {
        "PONG" => Ok(()),
        _ => Err(StoreError::Unexpected(format!("PING: {reply}"))),
    }
}

/// Connects to the cluster of a node. Also returns whether every master has loaded the module.
async fn connect_cluster(
    client: &Client,
    seeds: Vec<Address>,
    settings: ConnectionManagerConfig,
) -> Result<(Commands, bool), ConnectError> {
    let cluster = Cluster::connect(client, seeds, settings).await?;
    if !cluster.covers_all_slots() {
        return Err(ConnectError::Cluster);
    }
    let mut all_have_module = true;
    for mut master in cluster.masters()? {
        all_have_module &= has_module(&server_info(&mut master).await?);
    }
    Ok((Commands::Cluster(cluster), all_have_module))
}

async fn layout_field(
    connection: &mut impl ConnectionLike,
    keys: &Keys,
    field: &str,
) -> Result<Option<String>, RedisError> {
    let mut cmd = redis::cmd("HGET");
    cmd.arg(keys.layout()).arg(field);
    cmd.query_async(connection).await
}

async fn layout_field_or_init(
    connection: &mut Commands,
    keys: &Keys,
    field: &str,
    value: String,
) -> Result<String, RedisError> {
    if let Some(value) = layout_field(connection, keys, field).await? {
        return Ok(value);
    }
    let mut init = redis::pipe();
    init.cmd("HSETNX")
        .arg(keys.layout())
        .arg(field)
        .arg(value)
        .ignore();
    init.cmd("HGET").arg(keys.layout()).arg(field);
    let (value,): (String,) = init.query_async(connection).await?;
    Ok(value)
}
