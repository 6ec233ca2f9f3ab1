//! The connections to the nodes for writes that wait for acknowledgements.

use super::route::{SlotRanges, first_key};
use crate::domain::keys::{ack_key, slot, tag};
use crate::redis::ack::{AckRule, AckedNode, Mark};
use crate::redis::address::Address;
use redis::aio::ConnectionManagerConfig;
use redis::{Client, Cmd, RedisError};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The connections to the nodes that were written.
pub(super) struct AckedNodes {
    rule: AckRule,
    settings: ConnectionManagerConfig,
    nodes: Mutex<HashMap<Address, AckedNode>>,
}

impl AckedNodes {
    /// No connections yet.
    pub fn new(settings: ConnectionManagerConfig, rule: AckRule) -> AckedNodes {
        AckedNodes {
            rule,
            settings,
            nodes: Mutex::default(),
        }
    }

    /// The connections to a node. `client` has its address.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn node(
        &self,
        address: &Address,
        client: impl FnOnce() -> Result<Client, RedisError>,
    ) -> Result<AckedNode, RedisError> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(address) {
            return Ok(node.clone());
        }
        let node = AckedNode::new(&client()?, &self.settings, self.rule)?;
        nodes.insert(address.clone(), node.clone());
        Ok(node)
    }
}

/// The keys that a node can write with these commands: one in the slot of a command, and one in another slot, because the first slot may be
/// moving. Of each command, whether `ASKING` precedes it.
pub(super) fn marks<'a>(
    ranges: &SlotRanges,
    node: &Address,
    commands: impl Iterator<Item = (&'a Cmd, bool)>,
) -> Vec<Mark> {
    let mut keys =
        commands.filter_map(|(command, is_ask)| Some((tag(first_key(command)?), is_ask)));
    let first = keys.next().map(|(tag, is_ask)| Mark {
        key: ack_key(&String::from_utf8_lossy(tag)),
        is_ask,
    });
    let first_slot = first.as_ref().map(|mark| slot(mark.key.as_bytes()));
    let other = ranges.other_tag(node, first_slot.unwrap_or(u16::MAX));
    let other = other.map(|tag| Mark::new(ack_key(&tag)));
    first.into_iter().chain(other).collect()
}
