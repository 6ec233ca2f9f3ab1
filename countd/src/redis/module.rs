//! Which servers have loaded the module.

use super::endpoint::client_at;
use super::replicas::Replication;
use super::server_info::{has_module, server_info};
use super::store::Store;
use crate::domain::error::StoreError;
use std::io;

/// The addresses of primaries that have not loaded the module, and of their replicas, unless these are skipped.
///
/// # Errors
/// A server is unavailable.
pub async fn servers_without_module(
    store: &Store,
    skip_replicas: bool,
) -> Result<Vec<String>, StoreError> {
    let endpoint = store.endpoint();
    let info = endpoint.client().get_connection_info();
    let mut without = Vec::new();
    for (name, mut server) in store.named_servers()? {
        if !has_module(&server_info(&mut server).await?) {
            without.push(name);
        }
        if skip_replicas {
            continue;
        }
        for address in Replication::read(&mut server).await?.replicas {
            let connect = async {
                let client = client_at(info, &address)?;
                let mut replica = client.get_multiplexed_async_connection().await?;
                server_info(&mut replica).await
            };
            let name = format!("{}:{}", address.0, address.1);
            let replied = tokio::time::timeout(store.timeout(), connect).await;
            let replied =
                replied.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
            let info = replied.map_err(|error| {
                let problem = format!(
                    "the replica {name} cannot be asked whether it has the module: {error}"
                );
                StoreError::Unavailable(io::Error::other(problem).into())
            })?;
            if !has_module(&info) {
                without.push(name);
            }
        }
    }
    Ok(without)
}
