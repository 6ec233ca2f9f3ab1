//! The first connection: to the server of the configuration, a seed of its cluster, or the master that Sentinels know.

use super::address::Address;
use super::cluster::Server;
use super::endpoint::{Endpoint, client_at};
use super::sentinel::Sentinels;
use crate::domain::config::RedisConfig;
use futures_util::future::select_ok;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};

/// Connects to the server of `endpoint`, to one of the seeds if it does not answer, or to the master that the Sentinels know.
///
/// # Errors
/// No server is available.
pub async fn connect_server(
    settings: &RedisConfig,
    endpoint: &Endpoint,
    manager: &ConnectionManagerConfig,
) -> Result<Server, RedisError> {
    let client = endpoint.client();
    if settings.sentinel.is_enabled() {
        let sentinels = Sentinels::new(settings, client)?;
        return Ok(Server::followed(sentinels.follow(client, manager).await?));
    }
    let seeds = settings.seed_addresses().unwrap_or_default();
    let first = connect_first(client, &seeds, manager).await?;
    Ok(Server::new(client.clone(), first))
}

/// Connects to the server of `client` or, if it does not answer, to one of `seeds`.
async fn connect_first(
    client: &Client,
    seeds: &[Address],
    settings: &ConnectionManagerConfig,
) -> Result<ConnectionManager, RedisError> {
    let mut clients = vec![client.clone()];
    for address in seeds {
        clients.push(client_at(client.get_connection_info(), address)?);
    }
    // An unavailable one fails only after a timeout.
    let connections = clients
        .into_iter()
        .map(|client| Box::pin(ConnectionManager::new_with_config(client, settings.clone())));
    Ok(select_ok(connections).await?.0)
}
