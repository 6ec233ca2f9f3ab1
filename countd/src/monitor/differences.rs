//! The differences between counters and their facts that all processes have found in the last hours, kept in Redis for the console: the process that
//! serves it may compare nothing itself.
//!
//! `countd_counter_difference` is the histogram of one process since its start. A process adds what its histogram has gained to a hash, with a field for
//! each hour and each bound of a bucket, so that processes and restarts add up.

use super::exposition;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;
use redis::RedisError;
use std::collections::BTreeMap;

/// Commands of a [`DifferenceRecorder`].
const PERMISSIONS: &[&str] = &[
    "HINCRBY {differences} f 1",
    "HKEYS {differences}",
    "HDEL {differences} f",
];
/// Commands of [`differences`].
const READ_PERMISSIONS: &[&str] = &["HGETALL {differences}"];

/// The histogram of a process.
const METRIC: &str = "countd_counter_difference";
/// The number of hours that are kept, with the current one.
pub const HOURS: u64 = 24;
const HOUR_MS: u64 = 3_600_000;

/// The permissions to record the differences that a process finds.
pub fn recorder_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// The permissions that [`differences`] requires.
pub fn reader_permissions() -> Permissions {
    Permissions::of_commands(READ_PERMISSIONS)
}

/// Adds the differences that this process finds to those in Redis.
pub struct DifferenceRecorder {
    store: Store,
    /// What was added so far, by the bound of the bucket.
    recorded: BTreeMap<String, u64>,
    /// The hour in which earlier hours were removed last.
    cleared: Option<u64>,
}

impl DifferenceRecorder {
    /// A recorder of a process that has recorded nothing.
    pub fn new(store: Store) -> DifferenceRecorder {
        DifferenceRecorder {
            store,
            recorded: BTreeMap::new(),
            cleared: None,
        }
    }

    /// Records what was found since the last call. `metrics` are those of the process. Sends nothing if nothing was compared. What could not be recorded
    /// is recorded by the next call; a write whose reply is lost is repeated, and may count twice.
    pub async fn record(&mut self, metrics: &str) {
        let found: BTreeMap<String, u64> =
            exposition::buckets(metrics, METRIC).into_iter().collect();
        let added = added(&self.recorded, &found);
        if added.is_empty() {
            return;
        }
        match self.add(hour_of(now_ms()), &added).await {
            Ok(()) => self.recorded = found,
            Err(error) => tracing::debug!(%error, "differences of counters were not recorded"),
        }
    }

    async fn add(&mut self, hour: u64, added: &[(&str, u64)]) -> Result<(), RedisError> {
        let key = self.store.keys().differences();
        let mut pipeline = redis::pipe();
        for (bound, count) in added {
            let field = Field { hour, bound }.to_text();
            pipeline.cmd("HINCRBY").arg(key).arg(field).arg(count);
        }
        pipeline.exec_async(&mut self.store.commands()).await?;
        if self.cleared != Some(hour) {
            // It is done by the next record otherwise.
            match self.clear(hour).await {
                Ok(()) => self.cleared = Some(hour),
                Err(error) => tracing::debug!(%error, "differences of past hours were not removed"),
            }
        }
        Ok(())
    }

    /// Removes the hours that are not shown any more.
    async fn clear(&self, hour: u64) -> Result<(), RedisError> {
        let key = self.store.keys().differences();
        let mut connection = self.store.commands();
        let fields: Vec<String> = redis::cmd("HKEYS")
            .arg(key)
            .query_async(&mut connection)
            .await?;
        let is_past = |text: &&String| !Field::parse(text).is_some_and(|of| of.is_shown_in(hour));
        let past: Vec<&String> = fields.iter().filter(is_past).collect();
        if past.is_empty() {
            return Ok(());
        }
        let mut hdel = redis::cmd("HDEL");
        hdel.arg(key).arg(past).exec_async(&mut connection).await
    }
}

/// The differences that all processes have found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// Since when, in milliseconds since 1970.
    pub since: u64,
    /// The upper bound of each bucket, and the number of comparisons with a difference above the bound before, in the order of the bounds.
    pub buckets: Vec<(f64, u64)>,
}

/// Reads the differences of the last [`HOURS`] hours.
///
/// # Errors
/// Redis failed.
pub async fn differences(store: &Store) -> Result<Differences, StoreError> {
    let mut hgetall = redis::cmd("HGETALL");
    hgetall.arg(store.keys().differences());
    let fields: BTreeMap<String, String> = hgetall.query_async(&mut store.reads()).await?;
    Ok(sum(&fields, hour_of(now_ms())))
}

fn hour_of(ms: u64) -> u64 {
    ms / HOUR_MS
}

/// What a histogram has gained: bounds and counts.
fn added<'a>(
    before: &BTreeMap<String, u64>,
    after: &'a BTreeMap<String, u64>,
) -> Vec<(&'a str, u64)> {
    let gained = after.iter().map(|(bound, count)| {
        let before = before.get(bound).copied().unwrap_or(0);
        (bound.as_str(), count.saturating_sub(before))
    });
    gained.filter(|(_, count)| *count > 0).collect()
}

/// The sums over the hours that are shown.
fn sum(fields: &BTreeMap<String, String>, hour: u64) -> Differences {
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    for (text, count) in fields {
        let field = Field::parse(text).filter(|field| field.is_shown_in(hour));
        let bound = field.and_then(|field| field.bound.parse::<f64>().ok());
        let (Some(bound), Ok(count)) = (bound, count.parse::<u64>()) else {
            continue;
        };
        match buckets.iter_mut().find(|(other, _)| *other == bound) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => buckets.push((bound, count)),
        }
    }
    buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Differences {
        since: (hour + 1).saturating_sub(HOURS) * HOUR_MS,
        buckets,
    }
}

/// A field of the hash: the hour since 1970, and the bound of the bucket as Prometheus writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field<'a> {
    hour: u64,
    bound: &'a str,
}

impl<'a> Field<'a> {
    fn to_text(self) -> String {
        format!("{}:{}", self.hour, self.bound)
    }

    fn parse(text: &'a str) -> Option<Field<'a>> {
        let (hour, bound) = text.split_once(':')?;
        Some(Field {
            hour: hour.parse().ok()?,
            bound,
        })
    }

    /// Whether it is one of the last hours. The clock of another process may be in the next one already.
    fn is_shown_in(self, hour: u64) -> bool {
        self.hour <= hour + 1 && self.hour + HOURS > hour
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
        let counts = counts.iter();
        counts
            .map(|(bound, count)| ((*bound).to_owned(), *count))
            .collect()
    }

    #[test]
    fn only_what_was_gained_is_added() {
        let after = counts(&[("0", 7), ("1", 0), ("+Inf", 2)]);
        let expected = [("+Inf", 2), ("0", 7)];
        assert_eq!(added(&BTreeMap::new(), &after), expected);
        let before = counts(&[("0", 5), ("+Inf", 2)]);
        assert_eq!(added(&before, &after), [("0", 2)]);
        assert!(added(&after, &after).is_empty());
    }

    #[test]
    fn hours_are_summed_up_until_they_are_past() {
        let hour = 500_000;
        let written = [
            (hour, "+Inf", "1"),
            (hour, "0", "5"),
            (hour, "10", "2"),
            (hour + 1 - HOURS, "0", "70"),
            (hour + 1, "10", "3"),
            // Not shown: a day before, and of a clock that is wrong.
            (hour - HOURS, "0", "1000"),
            (hour + 2, "0", "1000"),
            (hour, "nonsense", "1000"),
            (hour, "1", "-4"),
        ];
        let fields = written.map(|(hour, bound, count)| {
            let field = Field { hour, bound }.to_text();
            (field, count.to_owned())
        });
        let mut fields = BTreeMap::from(fields);
        fields.insert("nonsense".to_owned(), "1000".to_owned());
        let found = sum(&fields, hour);
        assert_eq!(found.buckets, [(0.0, 75), (10.0, 5), (f64::INFINITY, 1)]);
        assert_eq!(found.since, (hour - 23) * HOUR_MS);
        assert_eq!(sum(&BTreeMap::new(), hour).buckets, []);
    }
}
