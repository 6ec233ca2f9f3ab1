//! Redis Sentinel: finds the master, and follows it when a failover makes another server the master.

use super::address::Address;
use super::endpoint::client_at;
use crate::domain::config::RedisConfig;
use arc_swap::ArcSwap;
use futures_util::future::join_all;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ErrorKind, RedisConnectionInfo, RedisError};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::sleep;

/// The interval at which the Sentinels are asked for the master.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum timeout of a Sentinel.
const MAX_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections to the Sentinels.
pub struct Sentinels {
    connections: Vec<ConnectionManager>,
    /// The name of the master.
    master: String,
}

/// The server that is the master now.
pub struct Master {
    /// Its address.
    pub address: Address,
    /// The client, with its address and the credentials.
    pub client: Client,
    /// The shared connection.
    pub connection: ConnectionManager,
}

/// The master, as the Sentinels tell it. Connections to it replace those to the one before.
pub struct FollowedMaster {
    current: ArcSwap<Master>,
    /// With the credentials of the servers.
    client: Client,
    settings: ConnectionManagerConfig,
}

impl Sentinels {
    /// The Sentinels of a configuration. `client` is that of the servers. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// An address is invalid.
    pub fn new(settings: &RedisConfig, client: &Client) -> Result<Sentinels, RedisError> {
        let sentinel = &settings.sentinel;
        let mut credentials = RedisConnectionInfo::default();
        if !sentinel.username.is_empty() {
            credentials = credentials.set_username(&sentinel.username);
        }
        if !sentinel.password.expose().is_empty() {
            credentials = credentials.set_password(sentinel.password.expose());
        }
        let info = client.get_connection_info().clone();
        let info = info.set_redis_settings(credentials);
        let timeout = settings.response_timeout().min(MAX_TIMEOUT);
        let manager = ConnectionManagerConfig::new()
            .set_response_timeout(Some(timeout))
            .set_connection_timeout(Some(timeout))
            .set_number_of_retries(0);
        let addresses = sentinel.parsed_addresses().unwrap_or_default();
        let connections = addresses.iter().map(|address| {
            ConnectionManager::new_lazy_with_config(client_at(&info, address)?, manager.clone())
        });
        Ok(Sentinels {
            connections: connections.collect::<Result<_, RedisError>>()?,
            master: sentinel.master.clone(),
        })
    }

    /// The address of the master: that of the last failover that any Sentinel knows, because one that was cut off knows only earlier ones.
    ///
    /// # Errors
    /// No Sentinel replies, or none knows the master.
    async fn find(&self) -> Result<Address, RedisError> {
        let asked = self.connections.iter().cloned();
        let replies = join_all(asked.map(|sentinel| self.ask(sentinel))).await;
        let (mut latest, mut failure) = (None, None);
        for reply in replies {
            match reply {
                Ok(found) => latest = latest.max(Some(found)),
                Err(error) if failure.as_ref().map(told) < Some(told(&error)) => {
                    failure = Some(error);
                }
                Err(_) => {}
            }
        }
        let unknown = || RedisError::from((ErrorKind::InvalidClientConfig, "no Sentinel"));
        latest
            .map(|(_, address)| address)
            .ok_or_else(|| failure.unwrap_or_else(unknown))
    }

    /// The number of the failover that a Sentinel knows last, and the address of the master.
    async fn ask(&self, mut sentinel: ConnectionManager) -> Result<(u64, Address), RedisError> {
        let mut cmd = redis::cmd("SENTINEL");
        let state = cmd.arg("MASTER").arg(&self.master);
        let state: HashMap<String, String> = state.query_async(&mut sentinel).await?;
        let epoch = state.get("config-epoch").and_then(|text| text.parse().ok());
        // After the epoch: an address is never older than its epoch.
        let mut cmd = redis::cmd("SENTINEL");
        let address = cmd.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        Ok((
            epoch.unwrap_or_default(),
            address.query_async(&mut sentinel).await?,
        ))
    }

    /// Connects to the master, and follows it as long as the result is used. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// The master is unknown or unavailable.
    pub async fn follow(
        self,
        client: &Client,
        settings: &ConnectionManagerConfig,
    ) -> Result<Arc<FollowedMaster>, RedisError> {
        let address = self.find().await?;
        let of_master = client_at(client.get_connection_info(), &address)?;
        let connection = ConnectionManager::new_with_config(of_master.clone(), settings.clone());
        let master = Master {
            address,
            client: of_master,
            connection: connection.await?,
        };
        tracing::info!(host = %master.address.0, port = master.address.1, "the Sentinels know the master");
        let followed = Arc::new(FollowedMaster {
            current: ArcSwap::from_pointee(master),
            client: client.clone(),
            settings: settings.clone(),
        });
        tokio::spawn(run(self, Arc::downgrade(&followed)));
        Ok(followed)
    }
}

impl FollowedMaster {
    /// The server that is the master now.
    pub fn current(&self) -> Arc<Master> {
        self.current.load_full()
    }

    fn replace(&self, address: Address) -> Result<(), RedisError> {
        let client = client_at(self.client.get_connection_info(), &address)?;
        let connection =
            ConnectionManager::new_lazy_with_config(client.clone(), self.settings.clone())?;
        tracing::warn!(host = %address.0, port = address.1, "another server is the master");
        self.current.store(Arc::new(Master {
            address,
            client,
            connection,
        }));
        Ok(())
    }
}

/// How much an error tells: a Sentinel that does not know the master tells most, and one that does not run least.
fn told(error: &RedisError) -> u8 {
    match error.code() {
        Some(_) => 2,
        None => u8::from(!error.is_connection_refusal()),
    }
}

/// Asks the Sentinels, as long as the master is followed.
async fn run(sentinels: Sentinels, followed: Weak<FollowedMaster>) {
    loop {
        sleep(POLL_INTERVAL).await;
        let found = sentinels.find().await;
        let Some(followed) = followed.upgrade() else {
            return;
        };
        let replaced = match found {
            Ok(address) if address != followed.current().address => followed.replace(address),
            Ok(_) => Ok(()),
            // The master can be reached without them.
            Err(error) => {
                tracing::debug!(%error, "no Sentinel tells the master");
                Ok(())
            }
        };
        if let Err(error) = replaced {
            tracing::error!(%error, "cannot use the address of the master");
        }
    }
}
