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

/// The value of a field in a reply of `INFO`.
pub(super) fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    let mut values = fields.filter(|(field, _)| *field == name);
    values.next().map(|(_, value)| value.trim())
}

/// Whether the reply of `INFO` lists the module.
pub(super) fn has_module(info: &str) -> bool {
    info.lines()
        .any(|line| line.starts_with("module:name=countint,"))
}
