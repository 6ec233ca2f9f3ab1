//! Checks of counters of users that count facts on the user.
//!
//! All facts on a user and the events of their changes are in one slot, with the log entry of the check. In a cluster the increments of the
//! counter pass through the outbox of that slot, and so does the check, in the entry of the increments of the same batch. It has the
//! value that the counter must have after these increments. Entries of an outbox are applied in order, so the check is exact like one
//! within a slot.

use super::checks::CheckItem;
use crate::domain::config::USER;
use crate::domain::event::{CheckMode, ForwardedCounterCheck, ForwardedMode};
use crate::domain::ids::{Entity, Id, Name};

/// What a check of a user's counter is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserCheck {
    /// The round; 0 outside of one.
    pub round: u64,
    /// What to do with a difference.
    pub mode: CheckMode,
    /// The report to which the commit adds what it has found.
    pub report: Option<Id>,
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
            mode: self.mode,
            round: self.round,
            source: name("user"),
            trace_id: None,
            report: self.report,
            days: None,
        }
    }
}

/// A check that is forwarded to the partition of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedCheck {
    /// The number of facts, without the increments of the batch before the check.
    pub without_batch: i128,
    /// What the check is part of.
    pub check: UserCheck,
}

impl ForwardedCheck {
    /// The entry of the outbox, given all increments of the batch. `None` if the counter would be negative.
    pub fn entry(&self, uid: &Id, counter: &Name, added: i64) -> Option<ForwardedCounterCheck> {
        let expected = u64::try_from(self.without_batch + i128::from(added)).ok()?;
        let UserCheck {
            round,
            mode,
            report,
        } = self.check.clone();
        let mode = ForwardedMode::new(mode, report);
        Some((uid.clone(), counter.clone(), expected, round, mode))
    }
}
