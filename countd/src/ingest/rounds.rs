//! The order of the actions of a batch. Actions that undo earlier ones of the batch are sent after the replies of these: in one pipeline an action
//! can fail and a later one succeed, when a replica takes over between them. A removal that is counted before the addition that it undoes would
//! leave the counter 1 too high, because counters do not fall below 0.

use crate::domain::error::StoreError;
use crate::domain::event::Event;
use crate::domain::op::Op;
use redis::{RedisError, Value};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What an action changes, and in which direction. Changes of one thing in the same direction can be made in any order.
#[derive(Clone, Copy)]
pub(super) struct Change {
    /// A hash. Equal hashes of different things cost time, but change no count.
    of: u64,
    op: Op,
}

impl Change {
    /// A hash of what it changes.
    pub(super) fn of(self) -> u64 {
        self.of
    }

    /// The change of an action: of a fact, or of the counter of an entity.
    pub(super) fn new(event: &Event, op: Op, is_fact: bool) -> Change {
        let mut hasher = DefaultHasher::new();
        (&event.metric, &event.entity).hash(&mut hasher);
        if is_fact {
            event.uid.hash(&mut hasher);
        }
        Change {
            of: hasher.finish(),
            op,
        }
    }
}

/// The round in which each action is sent.
pub(super) struct Rounds<'a> {
    changes: &'a [Change],
    rounds: Vec<usize>,
}

impl<'a> Rounds<'a> {
    /// The rounds of actions, in their order. Most batches have one.
    pub(super) fn of(changes: &'a [Change]) -> Rounds<'a> {
        let is_mixed = changes.windows(2).any(|pair| pair[0].op != pair[1].op);
        let mut latest: HashMap<u64, (usize, Op)> = HashMap::new();
        let mut round_of = |change: &Change| {
            let (round, op) = latest.entry(change.of).or_insert((0, change.op));
            if *op != change.op {
                (*round, *op) = (*round + 1, change.op);
            }
            *round
        };
        let rounds = match is_mixed {
            true => changes.iter().map(&mut round_of).collect(),
            false => vec![0; changes.len()],
        };
        Rounds { changes, rounds }
    }

    /// The number of rounds.
    pub(super) fn count(&self) -> usize {
        self.rounds.iter().max().map_or(0, |last| last + 1)
    }

    /// The actions of a round. Those of which an earlier change failed, and may succeed when it is sent again, get its error as their reply
    /// instead.
    pub(super) fn sendable(
        &self,
        round: usize,
        replies: &mut [Result<Value, RedisError>],
    ) -> Vec<usize> {
        let mut failed: HashMap<u64, RedisError> = HashMap::new();
        let mut sendable = Vec::new();
        for (index, change) in self.changes.iter().enumerate() {
            match self.rounds[index] {
                earlier if earlier < round => {
                    if let Err(error) = &replies[index]
                        && matches!(StoreError::from(error.clone()), StoreError::Unavailable(_))
                    {
                        failed.insert(change.of, error.clone());
                    }
                }
                this if this == round => match failed.get(&change.of) {
                    Some(error) => replies[index] = Err(error.clone()),
                    None => sendable.push(index),
                },
                _ => {}
            }
        }
        sendable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::ErrorKind;

    fn changes(text: &str) -> Vec<Change> {
        let words = text.split(' ');
        let change = |word: &str| Change {
            of: u64::from(word.as_bytes()[1]),
            op: match word.as_bytes()[0] {
                b'+' => Op::Add,
                _ => Op::Remove,
            },
        };
        words.map(change).collect()
    }

    #[test]
    fn what_undoes_an_earlier_action_is_in_a_later_round() {
        for (text, expected) in [
            ("+a +b +a", vec![0, 0, 0]),
            ("-a -b -a", vec![0, 0, 0]),
            ("+a -b +c", vec![0, 0, 0]),
            ("+a -a +a +a -b -a", vec![0, 1, 2, 2, 0, 3]),
        ] {
            let changes = changes(text);
            let rounds = Rounds::of(&changes);
            assert_eq!(rounds.rounds, expected, "{text}");
            assert_eq!(rounds.count(), expected.iter().max().unwrap_or(&0) + 1);
        }
        assert_eq!(Rounds::of(&[]).count(), 0);
    }

    #[test]
    fn what_undoes_a_failed_action_is_not_sent() {
        let changes = changes("+a +b +a -a -b +a");
        let rounds = Rounds::of(&changes);
        let unavailable = RedisError::from((ErrorKind::Io, "connection refused"));
        let mut replies = vec![Ok(Value::Nil); 6];
        assert_eq!(rounds.sendable(0, &mut replies), [0, 1, 2]);
        replies[2] = Err(unavailable);
        assert_eq!(rounds.sendable(1, &mut replies), [4]);
        assert!(replies[3].is_err());
        assert!(rounds.sendable(2, &mut replies).is_empty());
        assert!(replies[5].is_err());
    }

    #[test]
    fn a_rejected_action_does_not_hold_others_up() {
        let changes = changes("+a -a");
        let rounds = Rounds::of(&changes);
        let rejected = RedisError::from((ErrorKind::Extension, "AUTHOR", "registered".to_owned()));
        let mut replies = vec![Err(rejected), Ok(Value::Nil)];
        assert_eq!(rounds.sendable(1, &mut replies), [1]);
    }
}
