//! What a server says about itself.

use redis::RedisError;
use redis::aio::ConnectionLike;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["INFO everything"];

/// The reply of `INFO everything`, which also lists the modules.
pub(super) async fn server_info(server: &mut impl ConnectionLike) -> Result<String, RedisError> {
    redis::cmd("INFO")
        .arg("everything")
        .query_async(server)
        .await
}

/// Whether the reply of `INFO` lists the module.
pub(super) fn has_module(info: &str) -> bool {
    info.lines()
        .any(|line| line.starts_with("module:name=countint,"))
}
