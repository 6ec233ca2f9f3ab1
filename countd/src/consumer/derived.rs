//! Aggregates derived events: increments of users' counters and changes of their facts that another partition forwards.

use super::increments::Increments;
use super::position::Position;
use super::timeline_rule::TimelineRule;
use super::timelines::Change;
use super::user_checks::UserCheck;
use crate::domain::event::{Derived, MAX_ADDS, MAX_REVS, Rev, Source, SumIncrement};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::Partition;
use crate::log::MAX_OFFSET;
use std::collections::BTreeMap;

/// The result of adding a derived event to a batch.
pub enum DerivedOutcome {
    /// It was added to the batch, except for the increments in these dead letters (reason and payload).
    Added(Vec<(String, Vec<u8>)>),
    /// The fence of its source is past it: it was counted before.
    Duplicate,
    /// A part of it cannot be counted, for this reason, and dead letters cannot be written.
    Held(String),
}

/// Adds a derived event of a partition's log to the batch.
///
/// # Errors
/// Its source is malformed.
pub fn add_derived(
    increments: &mut Increments<'_>,
    (partition, position): (Partition, &Position),
    derived: &Derived,
) -> Result<DerivedOutcome, String> {
    let keys = increments.rules.locator.keys();
    if let Some(source) = derived.source {
        validate_source(source, keys.partitions())?;
        let update = increments.batch.positions.get(&partition);
        let advanced = update.and_then(|update| update.fences.get(&source.from));
        let fence = advanced.or_else(|| position.fences.get(&source.from));
        if fence.is_some_and(|fence| source.seq < *fence) {
            return Ok(DerivedOutcome::Duplicate);
        }
    }
    let mut rejected: BTreeMap<String, RejectedIncrements> = BTreeMap::new();
    let mut accepted = Vec::with_capacity(derived.adds.len());
    for add in &derived.adds {
        match check_counter(increments, partition, &add.0, &add.1) {
            Ok(counter) => accepted.push((&add.0, counter, add.2)),
            Err(reason) => rejected.entry(reason).or_default().adds.push(add.clone()),
        }
    }
    let mut accepted_sums = Vec::with_capacity(derived.sums.len());
    for sum in &derived.sums {
        match check_counter(increments, partition, &sum.0, &sum.1) {
            Ok(counter) => accepted_sums.push((counter, sum)),
            Err(reason) => rejected.entry(reason).or_default().sums.push(sum.clone()),
        }
    }
    let mut rejected_revs: BTreeMap<String, Vec<Rev>> = BTreeMap::new();
    let mut accepted_revs = Vec::with_capacity(derived.revs.len());
    for rev in &derived.revs {
        match check_rev(increments, partition, rev) {
            Ok(rule) => accepted_revs.extend(rule.map(|rule| (rule, rev))),
            // A later check may correct the timeline.
            Err(_) if rev.is_verified => {}
            Err(reason) => rejected_revs.entry(reason).or_default().push(rev.clone()),
        }
    }
    if increments.rules.holds_dead_letters {
        let mut reasons = rejected.keys().chain(rejected_revs.keys());
        if let Some(reason) = reasons.next() {
            return Ok(DerivedOutcome::Held(reason.clone()));
        }
    }
    if let Some(Source { from, seq }) = derived.source
        && let Some(update) = increments.batch.positions.get_mut(&partition)
    {
        update.fences.insert(from, seq + 1);
    }
    for (uid, counter, delta) in accepted {
        increments.add_to_user(uid, partition, counter, delta);
    }
    if !accepted_sums.is_empty() {
        increments.enable_sums(partition);
    }
    for (counter, (uid, _, delta, sweep)) in accepted_sums {
        let sums = &mut increments.batch.sums;
        sums.add(partition, uid, counter, *delta, *sweep);
    }
    // The increments of the event, and those before it, are in the batch or committed.
    for (uid, counter, expected, round, mode) in &derived.checks {
        if let Ok(idx) = check_counter(increments, partition, uid, counter) {
            let (mode, report) = mode.parts();
            let check = UserCheck {
                round: *round,
                mode,
                report,
            };
            let item = check.item(uid, counter, *expected);
            increments.check_user_counter((uid, partition), idx, item);
        }
    }
    let Increments { rules, batch, .. } = increments;
    for (rule, rev) in accepted_revs {
        if rev.is_verified {
            let audit = rules.locator.keys().audit(partition);
            batch.timelines.enable_audit(audit);
        }
        let target = (rules.locator, &mut batch.timelines);
        let change = Change::of_rev(rev);
        rule.add_reverse(target, &rev.entity, &rev.uid, change);
    }
    let payloads = dead_letter_payloads(rejected, rejected_revs);
    Ok(DerivedOutcome::Added(payloads))
}

/// The increments that are rejected for a reason.
#[derive(Default)]
struct RejectedIncrements {
    adds: Vec<(Id, Name, i64)>,
    sums: Vec<SumIncrement>,
}

/// The index of a counter of a user, whose counters are usable.
fn check_counter(
    increments: &mut Increments<'_>,
    partition: Partition,
    uid: &Id,
    counter: &Name,
) -> Result<u16, String> {
    let home = increments.rules.locator.keys().of_user(uid);
    if home != partition {
        return Err(format!("it belongs to partition {home}"));
    }
    increments.check_user(uid, home)?;
    increments.rules.user_counter(counter)
}

/// The timeline that a forwarded change concerns; `None` if facts of the metric are not kept for users any more.
fn check_rev(
    increments: &Increments<'_>,
    partition: Partition,
    rev: &Rev,
) -> Result<Option<TimelineRule>, String> {
    let rules = &increments.rules;
    let home = rules.locator.keys().of_user(&rev.uid);
    if home != partition {
        return Err(format!("it belongs to partition {home}"));
    }
    let Some(rule) = TimelineRule::of(&rev.metric, rules) else {
        return Ok(None);
    };
    if !rules.unusable_keys.is_empty() {
        rule.check_reverse(rules, &rev.entity, &rev.uid)?;
    }
    Ok(Some(rule))
}

fn validate_source(Source { from, seq }: Source, partitions: Partition) -> Result<(), String> {
    if from >= partitions {
        return Err(format!("malformed: from: there is no partition {from}"));
    }
    if !(1..=MAX_OFFSET).contains(&seq) {
        return Err(format!(
            "malformed: seq: {seq} is not an offset of an outbox"
        ));
    }
    Ok(())
}

/// The reasons and payloads of the dead letters. The payloads have no source: when they are retried, the fence is already past it.
fn dead_letter_payloads(
    rejected: BTreeMap<String, RejectedIncrements>,
    rejected_revs: BTreeMap<String, Vec<Rev>>,
) -> Vec<(String, Vec<u8>)> {
    let mut payloads = Vec::new();
    let mut add = |reason: &str, remainder: Derived| {
        // Strings and numbers can always be serialized.
        let payload = serde_json::to_vec(&remainder).unwrap_or_default();
        payloads.push((reason.to_owned(), payload));
    };
    for (reason, revs) in rejected_revs {
        for revs in revs.chunks(MAX_REVS) {
            let revs = revs.to_vec();
            add(
                &reason,
                Derived {
                    revs,
                    ..Derived::default()
                },
            );
        }
    }
    for (reason, RejectedIncrements { adds, mut sums }) in rejected {
        for adds in adds.chunks(MAX_ADDS) {
            // The sums of a user belong to their increments.
            let sums = std::mem::take(&mut sums);
            let adds = adds.to_vec();
            add(
                &reason,
                Derived {
                    adds,
                    sums,
                    ..Derived::default()
                },
            );
        }
        if !sums.is_empty() {
            add(
                &reason,
                Derived {
                    sums,
                    ..Derived::default()
                },
            );
        }
    }
    payloads
}
