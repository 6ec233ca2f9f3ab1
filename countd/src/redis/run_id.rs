//! The run IDs of servers. A server that was restarted has another one: it may have lost its last writes, and its cursors of `SCAN` are
//! invalid.

use super::server_info::info_field;
use super::store::Store;
use crate::domain::error::StoreError;
use redis::aio::ConnectionManager;

/// Commands that this file sends.
pub const PERMISSIONS: &[&str] = &["INFO server"];

/// The run ID of a server.
///
/// # Errors
/// The server is unavailable.
pub async fn run_id(server: &mut ConnectionManager) -> Result<String, StoreError> {
    let info: String = redis::cmd("INFO").arg("server").query_async(server).await?;
    Ok(info_field(&info, "run_id").unwrap_or_default().to_owned())
}

/// The run IDs of all masters, sorted.
///
/// # Errors
/// A master is unavailable.
pub async fn run_ids(store: &Store) -> Result<Vec<String>, StoreError> {
    let mut run_ids = Vec::new();
    for mut server in store.servers()? {
        run_ids.push(run_id(&mut server).await?);
    }
    run_ids.sort_unstable();
    Ok(run_ids)
}
