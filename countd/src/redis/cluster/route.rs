//! Routing: the node to which a command is sent.

use crate::domain::keys::{MAX_PARTITIONS, slot};
use crate::redis::address::Address;
use redis::{Arg, Cmd, RedisError, ServerErrorKind, Value};

/// The first and the last slot of a range, and the master that serves it.
pub(super) type SlotRange = (u16, u16, Address);

/// Where a command goes.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The node that serves this slot.
    Slot(u16),
    /// A command without a key: every node that gets other commands of the pipeline, or all nodes.
    AllNodes,
    /// The node that a redirection names; true after `ASK`.
    Node(Address, bool),
}

/// The mapping of slots to masters.
#[derive(Default)]
pub struct SlotRanges {
    /// Sorted by slot.
    all: Vec<SlotRange>,
    masters: Vec<Address>,
    replicas: Vec<Address>,
    /// Grows when a slot has another master than before.
    version: u64,
}

impl SlotRanges {
    /// From ranges in any order, and the replicas of their masters.
    pub(super) fn new(mut all: Vec<SlotRange>, replicas: Vec<Address>) -> SlotRanges {
        all.sort_unstable();
        let mut masters: Vec<Address> = all.iter().map(|(.., master)| master.clone()).collect();
        masters.sort_unstable();
        masters.dedup();
        SlotRanges {
            all,
            masters,
            replicas,
            version: 0,
        }
    }

    /// The ranges that follow others.
    pub(super) fn after(self, before: &SlotRanges) -> SlotRanges {
        let is_changed = self.all != before.all;
        SlotRanges {
            version: before.version + u64::from(is_changed),
            ..self
        }
    }

    /// Whether no slot has got another master between both.
    pub(crate) fn is_same(&self, other: &SlotRanges) -> bool {
        self.version == other.version
    }

    /// The addresses of the masters and of their replicas. One may occur several times.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Address> {
        self.masters.iter().chain(&self.replicas)
    }

    /// The addresses of the masters, sorted.
    pub(crate) fn masters(&self) -> &[Address] {
        &self.masters
    }

    /// The number of slots that have a master.
    pub(super) fn slot_count(&self) -> usize {
        let slots = |(first, last, _): &SlotRange| usize::from(last - first) + 1;
        self.all.iter().map(slots).sum()
    }

    fn address_of(&self, slot: u16) -> Option<&Address> {
        let after = self.all.partition_point(|(first, ..)| *first <= slot);
        let (_, last, master) = self.all.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(master)
    }

    /// The master that serves a slot, as an index into [`masters`](Self::masters).
    pub(crate) fn master_of(&self, slot: u16) -> Option<usize> {
        self.masters.binary_search(self.address_of(slot)?).ok()
    }

    /// The hash tag of a partition of this master that is not in this slot.
    pub(super) fn other_tag(&self, master: &Address, slot_of_tag: u16) -> Option<String> {
        let mut tags = (0..MAX_PARTITIONS).map(|partition| partition.to_string());
        tags.find(|tag| {
            let found = slot(tag.as_bytes());
            found != slot_of_tag && self.address_of(found) == Some(master)
        })
    }

    /// The node of a target; `None` for all nodes.
    pub(super) fn address(&self, target: &Target) -> Result<Option<Address>, RedisError> {
        match target {
            Target::AllNodes => Ok(None),
            Target::Node(address, _) => Ok(Some(address.clone())),
            Target::Slot(slot) => {
                let address = self.address_of(*slot).cloned();
                let address = address.ok_or_else(|| cluster_down("a slot has no master"));
                address.map(Some)
            }
        }
    }
}

pub(super) fn cluster_down(problem: &str) -> RedisError {
    redis::make_extension_error("CLUSTERDOWN".to_owned(), Some(problem.to_owned()))
}

/// The target of a command, by its first key.
pub(super) fn target(command: &Cmd) -> Target {
    first_key(command).map_or(Target::AllNodes, |key| Target::Slot(slot(key)))
}

/// The first key of a command.
pub(super) fn first_key(command: &Cmd) -> Option<&[u8]> {
    let mut args = command.args_iter().map(|arg| match arg {
        Arg::Simple(arg) => arg,
        _ => &[],
    });
    match args.next() {
        Some(b"PING" | b"INFO" | b"SCRIPT" | b"CLUSTER" | b"FUNCTION" | b"SCAN" | b"ASKING")
        | None => None,
        Some(b"EVAL" | b"EVALSHA" | b"FCALL") => match args.nth(1) {
            Some(b"0") => None,
            _ => args.next(),
        },
        Some(b"CINT.MREAD" | b"RBM.PAGE" | b"XINFO") => args.nth(1),
        Some(b"CTAB.PAGE") => args.nth(2),
        Some(b"XREAD") => {
            args.find(|arg| *arg == b"STREAMS");
            args.next()
        }
        Some(_) => args.next(),
    }
}

/// The target of a `MOVED` or `ASK` reply.
pub(super) fn redirection(reply: &Value) -> Option<Target> {
    let Value::ServerError(error) = reply else {
        return None;
    };
    let is_ask = match error.kind() {
        Some(ServerErrorKind::Moved) => false,
        Some(ServerErrorKind::Ask) => true,
        _ => return None,
    };
    let address = error.details()?.split(' ').nth(1)?;
    let (host, port) = address.rsplit_once(':')?;
    Some(Target::Node((host.to_owned(), port.parse().ok()?), is_ask))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Cmd {
        let mut cmd = Cmd::new();
        cmd.arg(text.split(' ').collect::<Vec<_>>());
        cmd
    }

    #[test]
    fn commands_are_routed_by_their_first_key() {
        let seven = Target::Slot(slot(b"x:{7}"));
        for text in [
            "GET x:{7}",
            "EVALSHA abc 2 x:{7} y:{7}",
            "XREAD COUNT 10 STREAMS x:{7} 0-0",
            "CINT.MREAD 5 x:{7}",
            "CTAB.PAGE 5 1 x:{7} 1",
            "RBM.PAGE 42 x:{7}",
            "XINFO STREAM x:{7}",
            "RBM.MARK x:{7} 42",
        ] {
            assert!(target(&command(text)) == seven, "{text}");
        }
        for text in ["PING", "SCRIPT LOAD x", "EVALSHA abc 0"] {
            assert!(target(&command(text)) == Target::AllNodes, "{text}");
        }
    }

    #[test]
    fn slot_is_found_in_the_range_that_covers_it() {
        let node = |port| ("h".to_owned(), port);
        let all = vec![(20, 30, node(2)), (0, 10, node(1)), (31, 31, node(1))];
        let ranges = SlotRanges::new(all, vec![node(4)]);
        assert!(ranges.nodes().eq([&node(1), &node(2), &node(4)]));
        let of = |slot| ranges.address(&Target::Slot(slot)).ok().flatten();
        assert_eq!(of(0), Some(node(1)));
        assert_eq!(of(10), Some(node(1)));
        assert_eq!(of(11), None);
        assert_eq!(of(30), Some(node(2)));
        assert_eq!(of(31), Some(node(1)));
        assert_eq!(of(32), None);
        assert_eq!(ranges.masters(), [node(1), node(2)]);
        // No partition up to 16383 has one of the slots 20 to 30 twice.
        let other = |master| ranges.other_tag(&node(master), 25);
        let found = other(2).map(|tag| slot(tag.as_bytes()));
        assert!(found.is_some_and(|found| (20..=30).contains(&found) && found != 25));
        assert_eq!(other(3), None);
        assert_eq!(
            [25, 31, 15].map(|slot| ranges.master_of(slot)),
            [Some(1), Some(0), None]
        );
    }
}
