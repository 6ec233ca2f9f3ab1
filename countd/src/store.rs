//! The connection to Redis, and what its errors mean.

use crate::cluster::{Cluster, Commands};
use crate::keys::Keys;
use crate::log::Reader;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ErrorKind, FromRedisValue, RedisError, Script, ServerErrorKind};
use std::time::Duration;

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It may work later: the server is gone, starting, full or read-only. Whether the command was done is unknown when the
    /// connection broke, else it was not.
    #[error("the store is not available: {0}")]
    Unavailable(RedisError),
    /// A key holds what it should not.
    #[error("a key holds something else: {0}")]
    WrongType(RedisError),
    /// The server refused the command, and will again.
    #[error("the store refused: {0}")]
    Refused(RedisError),
    /// The server answered what no sound one answers.
    #[error("unexpected reply: {0}")]
    Unexpected(String),
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> StoreError {
        if is_transient(&error) {
            StoreError::Unavailable(error)
        } else if error.code() == Some("WRONGTYPE") {
            StoreError::WrongType(error)
        } else {
            StoreError::Refused(error)
        }
    }
}

impl StoreError {
    /// Whether the server itself answered, so that the command was certainly not done.
    pub fn is_answer(&self) -> bool {
        match self {
            StoreError::Unavailable(e) | StoreError::WrongType(e) | StoreError::Refused(e) => {
                e.code().is_some()
            }
            StoreError::Unexpected(_) => false,
        }
    }
}

/// What a server says while it cannot work but will again.
const TRANSIENT: [&str; 12] = [
    "LOADING",
    "OOM",
    "READONLY",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "MOVED",
    "ASK",
    "NOSCRIPT",
];

fn is_transient(error: &RedisError) -> bool {
    match error.code() {
        Some(code) => TRANSIENT.contains(&code),
        None => {
            error.is_io_error()
                || error.is_timeout()
                || error.is_connection_dropped()
                || error.is_connection_refusal()
        }
    }
}

/// Whether a script has to be loaded first.
fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Connections to a server or to the nodes of a cluster, cheap to clone, and the layout of its keys.
#[derive(Clone)]
pub struct Store {
    client: Client,
    commands: Commands,
    timeout: Duration,
    keys: Keys,
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is none, or nobody answers there.
    #[error("cannot connect to Redis: {0}")]
    Redis(#[from] RedisError),
    /// The module is not loaded.
    #[error("the server at {0} has not loaded the module `countint`")]
    NoModule(String),
    /// The data was begun with another number of partitions.
    #[error(
        "this data has {found} partitions, and log.partitions is {configured}: an entity's keys would not be found"
    )]
    Partitions {
        /// In the data.
        found: u16,
        /// In the configuration.
        configured: u16,
    },
    /// Some slots of the cluster have no master.
    #[error("nobody serves some of the cluster's slots")]
    Cluster,
}

impl ConnectError {
    /// Whether it may work later: the server is not there, or starting.
    pub fn may_pass(&self) -> bool {
        match self {
            ConnectError::Redis(why) => is_transient(why),
            ConnectError::Cluster => true,
            ConnectError::NoModule(_) | ConnectError::Partitions { .. } => false,
        }
    }
}

impl Store {
    /// Connects, and checks that the server has the module and data of this layout. On new data the layout is written down.
    ///
    /// # Errors
    /// The server is not there or not usable.
    pub async fn connect(
        settings: &crate::config::Redis,
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
        let mut commands = match tagged {
            true => Commands::Many(cluster(&client, managed).await?),
            false => Commands::One(first),
        };
        if !has_module(&info) {
            return Err(ConnectError::NoModule(settings.url.clone()));
        }
        let keys = Keys::new(partitions, tagged);
        let found = claim_layout(&mut commands, &keys).await?;
        if found != partitions {
            return Err(ConnectError::Partitions {
                found,
                configured: partitions,
            });
        }
        Ok(Store {
            client,
            commands,
            timeout,
            keys,
        })
    }

    /// The connection for commands. It is shared, and reconnects by itself; a command that was under way is lost then.
    pub fn commands(&self) -> Commands {
        self.commands.clone()
    }

    /// A connection of its own for reading the log of one server. It does not reconnect.
    ///
    /// # Errors
    /// The server is not there.
    pub(crate) async fn reader(&self) -> Result<Reader, StoreError> {
        Ok(Reader::connect(&self.client, self.timeout).await?)
    }

    /// How long a reply may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Runs a script by a command that names its hash, and loads it if the server has not seen it since it started.
    ///
    /// # Errors
    /// The server is not there, or refuses.
    pub async fn run_script<T: FromRedisValue>(
        &self,
        script: &Script,
        call: &Cmd,
    ) -> Result<T, RedisError> {
        let mut connection = self.commands();
        match call.query_async(&mut connection).await {
            // Then it did not run.
            Err(why) if is_no_script(&why) => {
                script.load_async(&mut connection).await?;
                call.query_async(&mut connection).await
            }
            sent => sent,
        }
    }

    /// The layout of the keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// Asks every server for a sign of life.
    ///
    /// # Errors
    /// There is none.
    pub async fn ping(&self) -> Result<(), StoreError> {
        for mut server in self.servers()? {
            let answer: String = redis::cmd("PING").query_async(&mut server).await?;
            if answer != "PONG" {
                return Err(StoreError::Unexpected(format!("PING: {answer}")));
            }
        }
        Ok(())
    }

    /// A connection to each server that has keys.
    ///
    /// # Errors
    /// An address is none.
    pub fn servers(&self) -> Result<Vec<ConnectionManager>, StoreError> {
        match &self.commands {
            Commands::One(server) => Ok(vec![server.clone()]),
            Commands::Many(cluster) => Ok(cluster.masters()?),
        }
    }
}

async fn information(connection: &mut ConnectionManager) -> Result<String, RedisError> {
    redis::cmd("INFO")
        .arg("everything")
        .query_async(connection)
        .await
}

fn has_module(info: &str) -> bool {
    let mut lines = info.lines();
    lines.any(|line| line.starts_with("module:name=countint,"))
}

/// The cluster of a node, whole, and with the module on every master.
async fn cluster(
    client: &Client,
    settings: ConnectionManagerConfig,
) -> Result<Cluster, ConnectError> {
    let cluster = Cluster::connect(client, settings).await?;
    if !cluster.is_whole() {
        return Err(ConnectError::Cluster);
    }
    for mut master in cluster.masters()? {
        if !has_module(&information(&mut master).await?) {
            let id: String = redis::cmd("CLUSTER")
                .arg("MYID")
                .query_async(&mut master)
                .await?;
            return Err(ConnectError::NoModule(format!("node {id}")));
        }
    }
    Ok(cluster)
}

/// The number of partitions of this data, which is that of the keys if it has none yet.
async fn claim_layout(connection: &mut Commands, keys: &Keys) -> Result<u16, RedisError> {
    let found: Option<u16> = redis::cmd("HGET")
        .arg(keys.layout())
        .arg("partitions")
        .query_async(connection)
        .await?;
    if let Some(found) = found {
        return Ok(found);
    }
    let mut first = redis::pipe();
    first
        .cmd("HSETNX")
        .arg(keys.layout())
        .arg("partitions")
        .arg(keys.partitions())
        .ignore();
    first.cmd("HGET").arg(keys.layout()).arg("partitions");
    let (found,): (u16,) = first.query_async(connection).await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> RedisError {
        redis::make_extension_error(code.to_owned(), Some("words".to_owned()))
    }

    #[test]
    fn what_passes_is_told_from_what_stays() {
        for code in TRANSIENT {
            let error = StoreError::from(error(code));
            assert!(matches!(error, StoreError::Unavailable(_)), "{code}");
            assert!(error.is_answer(), "{code}");
        }
        let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let lost = StoreError::from(RedisError::from(lost));
        assert!(matches!(lost, StoreError::Unavailable(_)) && !lost.is_answer());
        assert!(matches!(
            StoreError::from(error("WRONGTYPE")),
            StoreError::WrongType(_)
        ));
        for code in ["NOPERM", "CROSSSLOT", "EXECABORT"] {
            assert!(
                matches!(StoreError::from(error(code)), StoreError::Refused(_)),
                "{code}"
            );
        }
    }
}
