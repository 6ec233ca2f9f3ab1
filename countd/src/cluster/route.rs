//! Which node a command belongs to.

use crate::keys::slot;
use redis::{Arg, Cmd, RedisError, ServerErrorKind, Value};

/// Where a node listens.
pub(super) type Address = (String, u16);

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

/// The node of a target; `None` where it is every node.
pub(super) fn address(target: &Target, ranges: &[Range]) -> Result<Option<Address>, RedisError> {
    match target {
        Target::Every => Ok(None),
        Target::Node(address, _) => Ok(Some(address.clone())),
        Target::Slot(slot) => {
            let behind = ranges.partition_point(|(first, ..)| first <= slot);
            let range = behind.checked_sub(1).and_then(|at| ranges.get(at));
            let range = range.filter(|(_, last, _)| slot <= last);
            range
                .map(|(_, _, address)| Some(address.clone()))
                .ok_or_else(|| down("nobody serves a slot"))
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
        let ranges = [(0, 10, node(1)), (20, 30, node(2))];
        let of = |slot| address(&Target::Slot(slot), &ranges).ok().flatten();
        assert_eq!(of(0), Some(node(1)));
        assert_eq!(of(10), Some(node(1)));
        assert_eq!(of(11), None);
        assert_eq!(of(30), Some(node(2)));
        assert_eq!(of(31), None);
    }
}
