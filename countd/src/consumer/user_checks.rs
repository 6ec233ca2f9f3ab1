//! Checks of counters of users that count facts on the user.
//!
//! All facts on a user and the events of their changes are in one slot, with the log entry of the check. In a cluster the increments of the
//! counter pass through the outbox of that slot, and so does the check, in the entry of the increments of the same batch. It has the
//! value that the counter must have after these increments. Entries of an outbox are applied in order, so the check is exact like one
//! within a slot.

use super::checks::CheckItem;
use crate::domain::config::USER;
use crate::domain::event::{CheckMode, ForwardedCounterCheck};
use crate::domain::ids::{Entity, Id, Name};

/// What a check of a user's counter is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserCheck {
    /// The round; 0 outside of one.
    pub round: u64,
    /// Whether any difference is corrected.
    pub is_exact: bool,
}

impl UserCheck {
    /// The check of a user's counter, without what the batch adds to it.
    pub fn item(self, uid: &Id, counter: &Name, expected: u64) -> CheckItem {
        let name = |text: &str| Name::new(text).unwrap_or_else(|_| counter.clone());
        CheckItem {
            expected,
            prefix: 0,
            metric: counter.clone(),
            entity: Entity {
                etype: name(USER),
                eid: uid.clone(),
            },
            mode: match self.is_exact {
                true => CheckMode::Exact,
                false => CheckMode::Correct,
            },
            round: self.round,
            source: name("user"),
            trace_id: None,
            report: None,
            lock: None,
            days: None,
        }
    }
}

/// A check that is forwarded to the partition of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedCheck {
    /// The number of facts, without the increments of the batch before the check.
    pub without_batch: i128,
    /// What the check is part of.
    pub check: UserCheck,
}

impl ForwardedCheck {
    /// The entry of the outbox, given all increments of the batch. `None` if the counter would be negative.
    pub fn entry(self, uid: &Id, counter: &Name, added: i64) -> Option<ForwardedCounterCheck> {
        let expected = u64::try_from(self.without_batch + i128::from(added)).ok()?;
        let UserCheck { round, is_exact } = self.check;
        Some((uid.clone(), counter.clone(), expected, round, is_exact))
    }
}
