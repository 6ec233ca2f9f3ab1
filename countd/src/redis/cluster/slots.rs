//! `CLUSTER SLOTS`: the nodes that serve the slots.

use super::route::{SlotRanges, cluster_down};
use crate::redis::address::Address;
use redis::aio::ConnectionManager;
use redis::{FromRedisValue, RedisError, Value};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["CLUSTER SLOTS"];

/// Reads the slot ranges from the node at an address.
///
/// # Errors
/// The node is unavailable, or knows no node that serves slots.
pub(super) async fn read_slots(
    mut node: ConnectionManager,
    address: &Address,
) -> Result<SlotRanges, RedisError> {
    let rows: Vec<Vec<Value>> = redis::cmd("CLUSTER")
        .arg("SLOTS")
        .query_async(&mut node)
        .await?;
    let (mut ranges, mut replicas) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let mut row = row.into_iter();
        let mut next = || {
            row.next()
                .ok_or_else(|| cluster_down("unexpected reply of CLUSTER SLOTS"))
        };
        let (first, last) = (
            u16::from_redis_value(next()?)?,
            u16::from_redis_value(next()?)?,
        );
        ranges.push((first, last, node_address(next()?, address)?));
        for replica in row {
            replicas.push(node_address(replica, address)?);
        }
    }
    match ranges.is_empty() {
        true => Err(cluster_down("no slot has a master")),
        false => Ok(SlotRanges::new(ranges, replicas)),
    }
}

/// The address of a node in a reply of `CLUSTER SLOTS` from the node at `queried`.
fn node_address(node: Value, queried: &Address) -> Result<Address, RedisError> {
    let mut fields = Vec::<Value>::from_redis_value(node)?.into_iter();
    let host = match fields.next() {
        Some(Value::Nil) | None => String::new(),
        Some(host) => String::from_redis_value(host)?,
    };
    let port = u16::from_redis_value(fields.next().unwrap_or(Value::Nil))?;
    // A node that does not know its own address is the one that was queried.
    Ok(match host.as_str() {
        "" | "?" => (queried.0.clone(), port),
        _ => (host, port),
    })
}
