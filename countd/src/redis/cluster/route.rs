//! Which node a command belongs to.

use crate::domain::keys::slot;
use redis::{Arg, Cmd, RedisError, ServerErrorKind, Value};

/// Where a node listens.
pub(crate) type Address = (String, u16);

/// A master and the slots that it has, the first and the last of them.
pub(super) type Range = (u16, u16, Address);

/// Where a command goes.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// To the node of this slot.
    Slot(u16),
    /// It has no key: to every node that the others go to, or to all.
    Every,
    /// Here, after a redirection; with true, only this once.
    Node(Address, bool),
}

/// Who serves which slots.
#[derive(Default)]
pub struct Ranges {
    /// By slot.
    all: Vec<Range>,
    masters: Vec<Address>,
}

impl Ranges {
    /// Of ranges in any order.
    pub(super) fn new(mut all: Vec<Range>) -> Ranges {
        all.sort_unstable();
        let mut masters: Vec<Address> = all.iter().map(|(.., master)| master.clone()).collect();
        masters.sort_unstable();
        masters.dedup();
        Ranges { all, masters }
    }

    /// Where the masters listen, in an order that is the same as long as they are.
    pub(crate) fn masters(&self) -> &[Address] {
        &self.masters
    }

    /// How many slots have a master.
    pub(super) fn slots(&self) -> usize {
        let slots = |(first, last, _): &Range| usize::from(last - first) + 1;
        self.all.iter().map(slots).sum()
    }

    fn address_of(&self, slot: u16) -> Option<&Address> {
        let behind = self.all.partition_point(|(first, ..)| *first <= slot);
        let (_, last, master) = self.all.get(behind.checked_sub(1)?)?;
        (slot <= *last).then_some(master)
    }

    /// Which master has a slot: its place in [`masters`](Self::masters).
    pub(crate) fn master_of(&self, slot: u16) -> Option<usize> {
        self.masters.binary_search(self.address_of(slot)?).ok()
    }

    /// The node of a target; `None` where it is every node.
    pub(super) fn address(&self, target: &Target) -> Result<Option<Address>, RedisError> {
        match target {
            Target::Every => Ok(None),
            Target::Node(address, _) => Ok(Some(address.clone())),
            Target::Slot(slot) => {
                let address = self.address_of(*slot).cloned();
                let address = address.ok_or_else(|| down("nobody serves a slot"));
                address.map(Some)
            }
        }
    }
}

pub(super) fn down(problem: &str) -> RedisError {
    redis::make_extension_error("CLUSTERDOWN".to_owned(), Some(problem.to_owned()))
}

/// Where a command goes, by its key: the first argument of most.
pub(super) fn target(command: &Cmd) -> Target {
    let mut words = command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        _ => &[],
    });
    let key = match words.next() {
        Some(b"PING" | b"INFO" | b"SCRIPT" | b"CLUSTER" | b"FUNCTION" | b"SCAN" | b"ASKING")
        | None => None,
        Some(b"EVAL" | b"EVALSHA" | b"FCALL") => match words.nth(1) {
            Some(b"0") => None,
            _ => words.next(),
        },
        Some(b"CINT.MREAD") => words.nth(1),
        Some(b"XREAD") => {
            words.find(|word| *word == b"STREAMS");
            words.next()
        }
        Some(_) => words.next(),
    };
    key.map_or(Target::Every, |key| Target::Slot(slot(key)))
}

/// Where a reply says that its command should have gone.
pub(super) fn redirection(reply: &Value) -> Option<Target> {
    let Value::ServerError(error) = reply else {
        return None;
    };
    let asks = match error.kind() {
        Some(ServerErrorKind::Moved) => false,
        Some(ServerErrorKind::Ask) => true,
        _ => return None,
    };
    let address = error.details()?.split(' ').nth(1)?;
    let (host, port) = address.rsplit_once(':')?;
    Some(Target::Node((host.to_owned(), port.parse().ok()?), asks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Cmd {
        let mut cmd = Cmd::new();
        cmd.arg(text.split(' ').collect::<Vec<_>>());
        cmd
    }

    #[test]
    fn commands_go_where_their_key_is() {
        let seven = Target::Slot(slot(b"x:{7}"));
        for text in [
            "GET x:{7}",
            "EVALSHA abc 2 x:{7} y:{7}",
            "XREAD COUNT 10 STREAMS x:{7} 0-0",
            "CINT.MREAD 5 x:{7}",
            "RBM.MARK x:{7} 42",
        ] {
            assert!(target(&words(text)) == seven, "{text}");
        }
        for text in ["PING", "SCRIPT LOAD x", "EVALSHA abc 0"] {
            assert!(target(&words(text)) == Target::Every, "{text}");
        }
    }

    #[test]
    fn a_slot_belongs_to_the_range_around_it() {
        let node = |port| ("h".to_owned(), port);
        let ranges = Ranges::new(vec![(20, 30, node(2)), (0, 10, node(1)), (31, 31, node(1))]);
        let of = |slot| ranges.address(&Target::Slot(slot)).ok().flatten();
        assert_eq!(of(0), Some(node(1)));
        assert_eq!(of(10), Some(node(1)));
        assert_eq!(of(11), None);
        assert_eq!(of(30), Some(node(2)));
        assert_eq!(of(31), Some(node(1)));
        assert_eq!(of(32), None);
        assert_eq!(ranges.masters(), [node(1), node(2)]);
        assert_eq!(
            [25, 31, 15].map(|slot| ranges.master_of(slot)),
            [Some(1), Some(0), None]
        );
    }
}
