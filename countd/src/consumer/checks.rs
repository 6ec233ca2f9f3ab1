//! The counters that a commit checks: compares with numbers of facts, and corrects (lua/checks.lua).
//!
//! A check is an entry of the log of the entity. The step that counted the facts has appended it, and each change of a fact appends an
//! event to the same log in its step. So the number of facts is the sum of all events before the entry. The stored counter is the sum of
//! all events that are committed, and [`CheckItem::prefix`] the sum of those that are in the batch and before the entry. The commit
//! compares the position of the partition, so both are known exactly, whatever was read or committed twice.

use super::counter_key::ObjectLength;
use super::section::CommitSection;
use crate::domain::config::{Config, USER};
use crate::domain::event::{CheckMode, now_ms};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{CounterLocation, Keys};
use crate::domain::text::truncate;
use crate::redis::day::DayNumbers;
use crate::repair::{Outcome, record_difference};
use redis::Cmd;
use std::collections::BTreeSet;

/// The maximum length of a trace ID in the audit, in bytes.
const MAX_TRACE: usize = 128;

/// The number of arguments of a check.
const ARGUMENTS: usize = 16;

/// A counter that a commit checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckItem {
    /// The number of facts at the entry.
    pub expected: u64,
    /// What the batch adds to the counter before the entry.
    pub prefix: i64,
    /// The metric.
    pub metric: Name,
    /// The entity.
    pub entity: Entity,
    /// What to do with a difference.
    pub mode: CheckMode,
    /// The round of the reconciliation; 0 outside of one.
    pub round: u64,
    /// The source of a correction, for the audit.
    pub source: Name,
    /// The trace ID of the request.
    pub trace_id: Option<String>,
    /// The report to which the commit adds what it has found.
    pub report: Option<Id>,
    /// The counts by day, which are corrected with the counter.
    pub days: Option<DayNumbers>,
}

/// A check, and where the counter is.
#[derive(Debug)]
struct LocatedCheck {
    at: CounterLocation,
    length: ObjectLength,
    idx: u16,
    item: CheckItem,
}

/// The counters that a commit checks, in the order of their entries.
#[derive(Debug, Default)]
pub struct Checks {
    checks: Vec<LocatedCheck>,
    /// The *once* metrics of which the batch counts events without facts.
    external: BTreeSet<Name>,
    keys: Vec<String>,
}

impl Checks {
    /// Adds a check of the counter with this index.
    pub fn add(
        &mut self,
        keys: Keys,
        (at, length, idx): (CounterLocation, ObjectLength, u16),
        item: CheckItem,
    ) {
        // Users have no counters of metrics: the counter is one of the user.
        let partition = match item.entity.etype.as_str() {
            USER => keys.of_user(&item.entity.eid),
            _ => keys.of_entity(&item.entity),
        };
        self.keys.extend([
            at.key().to_owned(),
            keys.audit(partition),
            keys.drift(partition),
        ]);
        let report = item.report.as_ref();
        self.keys
            .extend(report.map(|id| keys.check_report(id, partition)));
        let days = item.days.iter();
        self.keys
            .extend(days.flat_map(|days| days.keys().iter().cloned()));
        self.checks.push(LocatedCheck {
            at,
            length,
            idx,
            item,
        });
    }

    /// Records that the batch counts events of a *once* metric without facts.
    pub fn add_external(&mut self, metric: &Name) {
        if !self.external.contains(metric) {
            self.external.insert(metric.clone());
        }
    }

    /// The number of checks.
    pub fn len(&self) -> usize {
        self.checks.len()
    }

    /// The number of checks of counters with counts by day.
    pub fn daily(&self) -> usize {
        let checks = self.checks.iter();
        checks.filter(|check| check.item.days.is_some()).count()
    }

    /// Updates the metrics by the reply of a commit.
    pub fn record(&self, reply: &[usize]) {
        let Some((count, found)) = reply.split_first() else {
            return;
        };
        for (check, found) in self.checks.iter().zip(found.chunks_exact(2).take(*count)) {
            let outcome = Outcome::of_code(found[1] as u64);
            record_difference(check.item.source.as_str(), found[0] as u64, outcome);
        }
    }
}

impl CommitSection for Checks {
    fn keys(&self) -> Vec<String> {
        self.keys.clone()
    }

    fn add_arguments(&self, config: &Config, keys: Keys, call: &mut Cmd) -> usize {
        call.arg(self.external.len());
        for metric in &self.external {
            call.arg(metric.as_str());
        }
        call.arg(self.checks.len());
        if !self.checks.is_empty() {
            let (settings, now) = (&config.reconcile, now_ms());
            call.arg(config.audit.retain_per_stream(keys))
                .arg(settings.min_difference)
                .arg(settings.min_percent)
                .arg(now)
                .arg(Keys::corrected_on(config.days.calendar().day_of(now)));
        }
        for LocatedCheck {
            at,
            length,
            idx,
            item,
        } in &self.checks
        {
            let row = at.row().map(|id| id.to_string());
            call.arg(row.unwrap_or_default())
                .arg(length.len)
                .arg(length.min_len)
                .arg(*idx)
                .arg(item.entity.etype.as_str())
                .arg(item.entity.eid.as_str())
                .arg(item.metric.as_str())
                .arg(item.prefix)
                .arg(item.expected)
                .arg(item.mode.name())
                .arg(item.round)
                .arg(item.source.as_str())
                .arg(truncate(item.trace_id.as_deref().unwrap_or("-"), MAX_TRACE))
                .arg(u8::from(item.report.is_some()))
                .arg(u8::from(item.days.is_some()))
                .arg(
                    item.days
                        .as_ref()
                        .map(DayNumbers::row_argument)
                        .unwrap_or_default(),
                );
        }
        let settings = if self.checks.is_empty() { 0 } else { 5 };
        2 + self.external.len() + settings + ARGUMENTS * self.checks.len()
    }
}
