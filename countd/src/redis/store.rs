//! The connection to Redis, and what its errors mean.

pub use super::nodes::NodeMap;
use super::repeated::Repeated;
use super::timed::Timed;
use crate::domain::error::{ConnectError, StoreError};
use crate::domain::keys::Keys;
use crate::redis::cluster::{Cluster, Commands};
use crate::redis::script::CounterBackend;
use futures_util::future::select_ok;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};
use std::time::Duration;

/// Connections to a server or to the nodes of a cluster, cheap to clone, and the layout of its keys.
#[derive(Clone)]
pub struct Store {
    client: Client,
    pub(super) commands: Commands,
    timeout: Duration,
    pub(super) keys: Keys,
    backend: CounterBackend,
    has_module: bool,
}

impl Store {
    /// Connects, and checks that the server has data of this layout, and the module if the data was begun with it. On new data
    /// both are written down.
    ///
    /// # Errors
    /// The server is not there or not usable.
    pub async fn connect(
        settings: &crate::domain::config::RedisConfig,
        partitions: u16,
    ) -> Result<Store, ConnectError> {
        let client = Client::open(settings.url.as_str())?;
        let timeout = settings.response_timeout();
        let managed = ConnectionManagerConfig::new()
            .set_response_timeout(Some(timeout))
            .set_connection_timeout(Some(timeout))
            .set_number_of_retries(1)
            .set_max_delay(Duration::from_millis(500));
        let mut first = ConnectionManager::new_with_config(client.clone(), managed.clone()).await?;
        let info = information(&mut first).await?;
        let tagged = info.lines().any(|l| l.trim_end() == "cluster_enabled:1");
        let (mut commands, has_module) = match tagged {
            true => cluster(&client, managed).await?,
            false => (Commands::One(first), names_module(&info)),
        };
        let keys = Keys::new(partitions, tagged);
        let configured = partitions;
        let found = claim(&mut commands, &keys, "partitions", configured.to_string()).await?;
        if found != configured.to_string() {
            return Err(ConnectError::Partitions { found, configured });
        }
        let backend = claim_backing(&mut commands, &keys, has_module).await?;
        if backend == CounterBackend::Module && !has_module {
            return Err(ConnectError::NoModule(settings.url.clone()));
        }
        Ok(Store {
            client,
            commands,
            timeout,
            keys,
            backend,
            has_module,
        })
    }

    /// The connection for commands. It is shared, and reconnects by itself; a command that was under way is lost then.
    pub fn commands(&self) -> Timed<Commands> {
        Timed(self.commands.clone())
    }

    /// The same for commands that change nothing: one that was lost with its connection is sent once more.
    pub fn reads(&self) -> Repeated<Timed<Commands>> {
        Repeated(self.commands())
    }

    /// The address of the server and the credentials, for connections of a caller's own.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How long a reply may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The layout of the keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// How the server keeps counters and sets of ids.
    pub fn backend(&self) -> CounterBackend {
        self.backend
    }

    /// Whether the server has loaded the module. Data that was begun without it does not use it.
    pub fn has_module(&self) -> bool {
        self.has_module
    }

    /// Whether the server has the fallback library, which countd itself does not need.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn has_library(&self) -> Result<bool, StoreError> {
        let found: Vec<redis::Value> = redis::cmd("FUNCTION")
            .arg(&["LIST", "LIBRARYNAME", "countint"])
            .query_async(&mut self.commands())
            .await?;
        Ok(!found.is_empty())
    }

    /// What the layout of this data has in a field.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn claimed(&self, field: &str) -> Result<Option<String>, RedisError> {
        claimed(&mut self.commands(), &self.keys, field).await
    }

    /// What the layout of this data has in a field, which is `value` if it has nothing there yet.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn claim(&self, field: &str, value: &str) -> Result<String, RedisError> {
        let mut commands = self.commands.clone();
        claim(&mut commands, &self.keys, field, value.to_owned()).await
    }

    /// Changes a field of the layout.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn reclaim(&self, field: &str, value: &str) -> Result<(), RedisError> {
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.keys.layout()).arg(field).arg(value);
        cmd.exec_async(&mut self.commands()).await
    }

    /// Asks all servers for a sign of life; one is enough.
    ///
    /// # Errors
    /// There is none.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let servers = self.servers()?.into_iter();
        let asked: Vec<_> = servers.map(|server| Box::pin(answers(server))).collect();
        if asked.is_empty() {
            return Err(StoreError::Unexpected("no server is known".to_owned()));
        }
        select_ok(asked).await.map(|_| ())
    }
}

async fn answers(server: ConnectionManager) -> Result<(), StoreError> {
    let mut server = Repeated(server);
    let answer: String = redis::cmd("PING").query_async(&mut server).await?;
    match answer.as_str() {
        "PONG" => Ok(()),
        _ => Err(StoreError::Unexpected(format!("PING: {answer}"))),
    }
}

async fn information(connection: &mut ConnectionManager) -> Result<String, RedisError> {
    redis::cmd("INFO")
        .arg("everything")
        .query_async(connection)
        .await
}

/// Whether the information of a server says that it has loaded the module.
fn names_module(info: &str) -> bool {
    info.lines()
        .any(|line| line.starts_with("module:name=countint,"))
}

/// The cluster of a node, whole, and whether every master has the module.
async fn cluster(
    client: &Client,
    settings: ConnectionManagerConfig,
) -> Result<(Commands, bool), ConnectError> {
    let cluster = Cluster::connect(client, settings).await?;
    if !cluster.is_whole() {
        return Err(ConnectError::Cluster);
    }
    let mut have_module = true;
    for mut master in cluster.masters()? {
        have_module &= names_module(&information(&mut master).await?);
    }
    Ok((Commands::Many(cluster), have_module))
}

async fn claimed(
    connection: &mut impl ConnectionLike,
    keys: &Keys,
    field: &str,
) -> Result<Option<String>, RedisError> {
    let mut cmd = redis::cmd("HGET");
    cmd.arg(keys.layout()).arg(field);
    cmd.query_async(connection).await
}

/// What the layout of this data has in a field, which is `value` if it has nothing there yet.
async fn claim(
    connection: &mut Commands,
    keys: &Keys,
    field: &str,
    value: String,
) -> Result<String, RedisError> {
    if let Some(found) = claimed(connection, keys, field).await? {
        return Ok(found);
    }
    let mut first = redis::pipe();
    first
        .cmd("HSETNX")
        .arg(keys.layout())
        .arg(field)
        .arg(value)
        .ignore();
    first.cmd("HGET").arg(keys.layout()).arg(field);
    let (found,): (String,) = first.query_async(connection).await?;
    Ok(found)
}

/// How this data is kept. Data that was begun without the module stays as it is where the module is loaded later.
async fn claim_backing(
    connection: &mut Commands,
    keys: &Keys,
    has_module: bool,
) -> Result<CounterBackend, RedisError> {
    let wanted = match has_module {
        true => CounterBackend::Module,
        false => CounterBackend::Strings,
    };
    let found = claim(connection, keys, "counters", wanted.name().to_owned()).await?;
    Ok(match found == CounterBackend::Strings.name() {
        true => CounterBackend::Strings,
        false => CounterBackend::Module,
    })
}
