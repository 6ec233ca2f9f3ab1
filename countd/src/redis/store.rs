//! The connection to Redis, and what its errors mean.

pub use super::nodes::Places;
use super::repeated::Repeated;
use super::timed::Timed;
use crate::domain::keys::Keys;
use crate::log::{Reader, is_closed, needs_operator};
use crate::redis::cluster::{Cluster, Commands};
use crate::redis::script::Backing;
use futures_util::future::select_ok;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ErrorKind, RedisError, ServerErrorKind};
use std::time::Duration;

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It may work later: the server is gone, starting, full or read-only. It may have been done when the connection broke.
    #[error("the store is not available: {0}")]
    Unavailable(RedisError),
    /// A key holds what it should not: another type, or too few counters.
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
        // A log that is closed is opened by the next who reads or appends, or by an operator.
        if is_transient(&error) || is_closed(&error) || needs_operator(&error) {
            StoreError::Unavailable(error)
        } else if matches!(error.code(), Some("WRONGTYPE" | "TOOSHORT")) {
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
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Connections to a server or to the nodes of a cluster, cheap to clone, and the layout of its keys.
#[derive(Clone)]
pub struct Store {
    client: Client,
    pub(super) commands: Commands,
    timeout: Duration,
    pub(super) keys: Keys,
    backing: Backing,
    has_module: bool,
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is none, or nobody answers there.
    #[error("cannot connect to Redis: {0}")]
    Redis(#[from] RedisError),
    /// The module is not loaded, and the data was begun with it.
    #[error(
        "the server at {0} has not loaded the module `countint`, with which this data was begun"
    )]
    NoModule(String),
    /// Facts of a metric were begun in another way.
    #[error(
        "{setting} is {configured}, and this data was begun with {found}: facts would not be found"
    )]
    Facts {
        /// Where it is configured.
        setting: String,
        /// In the configuration.
        configured: String,
        /// In the data.
        found: String,
    },
    /// The data was begun with another number of partitions.
    #[error(
        "this data has {found} partitions, and log.partitions is {configured}: an entity's keys would not be found"
    )]
    Partitions {
        /// In the data.
        found: String,
        /// In the configuration.
        configured: u16,
    },
    /// The user of Redis may not do something.
    #[error("the user of redis.url may not use: {0}")]
    Rights(String),
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
            _ => false,
        }
    }
}

impl Store {
    /// Connects, and checks that the server has data of this layout, and the module if the data was begun with it. On new data
    /// both are written down.
    ///
    /// # Errors
    /// The server is not there or not usable.
    pub async fn connect(
        settings: &crate::domain::config::Redis,
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
        let backing = claim_backing(&mut commands, &keys, has_module).await?;
        if backing == Backing::Module && !has_module {
            return Err(ConnectError::NoModule(settings.url.clone()));
        }
        Ok(Store {
            client,
            commands,
            timeout,
            keys,
            backing,
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

    /// The layout of the keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// How the server keeps counters and sets of ids.
    pub fn backing(&self) -> Backing {
        self.backing
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
) -> Result<Backing, RedisError> {
    let wanted = match has_module {
        true => Backing::Module,
        false => Backing::Plain,
    };
    let found = claim(connection, keys, "counters", wanted.name().to_owned()).await?;
    Ok(match found == Backing::Plain.name() {
        true => Backing::Plain,
        false => Backing::Module,
    })
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
