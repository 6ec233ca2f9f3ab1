//! Counts by day.

use super::reads::Queries;
use crate::domain::day::{civil, parse};
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Name};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use redis::{FromRedisValue, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

static HISTORY: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::reading(include_str!("../lua/history.lua")));

/// The prefixes of fields that are not a day: counts from before days were kept, and corrections.
const OTHER_FIELDS: [&str; 2] = ["total_before_", "corrected_"];

/// The first and the last day of a range, as numbers of days since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayRange {
    /// The first day.
    pub from: u64,
    /// The last day.
    pub to: u64,
}

impl DayRange {
    /// The number of days.
    pub fn days(self) -> u64 {
        self.to + 1 - self.from
    }
}

/// The unit of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Days.
    Day,
    /// Months.
    Month,
}

/// The counts of an entity in a range.
#[derive(Debug, PartialEq, Eq)]
pub struct History {
    /// The date (20261231) or the month (202612) of each unit of the range, and its count.
    pub items: Vec<(u64, i64)>,
    /// What was counted before the range, and what belongs to no day: counts from before days were kept, and corrections up to the end
    /// of the range.
    pub before: i64,
}

/// The permissions that reading counts by day requires.
pub fn required_permissions() -> Permissions {
    HISTORY.required_permissions()
}

impl Queries {
    /// Checks that a metric has counts by day, and an entity type has the metric. Returns the name of the metric.
    fn daily_metric(&self, metric: &str, etype: &Name) -> Result<&Name, Problem> {
        let (name, settings) = self.catalog.metric(metric)?;
        self.catalog.schema_id(etype)?;
        if !settings.daily {
            return Err(Problem::NoHistory(name.clone()));
        }
        if !settings.applies_to(etype) {
            let problem = format!("entity type {etype} has no metric {name}");
            return Err(Problem::Unprocessable(problem));
        }
        Ok(name)
    }

    fn history_call(&self, metric: &Name, entity: &Entity, dates: &[u64]) -> RedisCall {
        let keys = self.store.keys();
        let keys = [
            keys.days_of(metric, entity),
            keys.history_of(metric, entity),
        ];
        let mut call = RedisCall::script(&HISTORY, &keys);
        call.cmd.arg(dates);
        call
    }

    /// The counts of an entity in each day or month of a range.
    ///
    /// # Errors
    /// The metric or the type is unknown, the metric has no counts by day, or Redis failed.
    pub async fn history(
        &self,
        metric: &str,
        entity: &Entity,
        range: DayRange,
        unit: Unit,
    ) -> Result<History, Problem> {
        let name = self.daily_metric(metric, &entity.etype)?;
        let call = self.history_call(name, entity, &[]);
        let reply = call.send_read(&self.store).await?;
        let hashes = Vec::<Vec<(String, String)>>::from_redis_value(reply)
            .map_err(|error| StoreError::Unexpected(format!("counts by day: {error}")))?;
        Ok(summarize(hashes.into_iter().flatten(), range, unit))
    }

    /// The counts of entities on each day of a range, in order: one pipeline.
    ///
    /// # Errors
    /// As [`history`](Self::history), or there are too many entities. A damaged key fails only its own entity.
    pub async fn histories(
        &self,
        metric: &str,
        entities: &[Entity],
        range: DayRange,
    ) -> Result<Vec<Result<Vec<i64>, Problem>>, Problem> {
        self.check_batch_size(entities.len())?;
        let dates: Vec<u64> = (range.from..=range.to).map(civil).collect();
        let mut calls = Vec::with_capacity(entities.len());
        for entity in entities {
            let name = self.daily_metric(metric, &entity.etype)?;
            calls.push(self.history_call(name, entity, &dates));
        }
        let replies = self.read_page(&[], &calls).await?.replies;
        let decode = |reply: Result<Value, StoreError>| {
            let counts = Vec::<i64>::from_redis_value(reply?);
            let counts = counts.map_err(|error| StoreError::Unexpected(error.to_string()))?;
            Ok(counts)
        };
        Ok(replies.into_iter().map(decode).collect())
    }
}

/// Sums up the fields of both Hashes.
fn summarize(
    fields: impl Iterator<Item = (String, String)>,
    range: DayRange,
    unit: Unit,
) -> History {
    let unit_of = |day: u64| match unit {
        Unit::Day => civil(day),
        Unit::Month => civil(day) / 100,
    };
    let mut items: BTreeMap<u64, i64> = (range.from..=range.to)
        .map(|day| (unit_of(day), 0))
        .collect();
    let mut before = 0_i64;
    for (field, count) in fields {
        let count: i64 = count.parse().unwrap_or(0);
        let other = OTHER_FIELDS.iter();
        let other = other.filter_map(|prefix| field.strip_prefix(prefix)).next();
        let Some(day) = parse(other.unwrap_or(&field)) else {
            continue;
        };
        let is_total = field.starts_with(OTHER_FIELDS[0]);
        if is_total || day < range.from || other.is_some() && day <= range.to {
            before = before.saturating_add(count);
        } else if day <= range.to {
            let sum = items.entry(unit_of(day)).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    History {
        items: items.into_iter().collect(),
        before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_summed_by_day_and_month() {
        let fields = || {
            let fields = [
                ("20251230", "1"),
                ("20251231", "2"),
                ("20260101", "3"),
                ("20260101", "4"),
                ("20260102", "-1"),
                ("20260103", "50"),
                ("total_before_2025-06-01", "100"),
                ("total_before_2026-01-05", "200"),
                ("corrected_2026-01-01", "-10"),
                ("corrected_2026-01-03", "1000"),
                ("other", "7"),
            ];
            let text = |(field, value): (&str, &str)| (field.to_owned(), value.to_owned());
            fields.map(text).into_iter()
        };
        let day = |text: &str| parse(text).expect("a date");
        let range = DayRange {
            from: day("2025-12-31"),
            to: day("2026-01-02"),
        };
        let history = summarize(fields(), range, Unit::Day);
        let expected = vec![(20_251_231, 2), (20_260_101, 7), (20_260_102, -1)];
        assert_eq!((history.items, history.before), (expected, 291));
        let history = summarize(fields(), range, Unit::Month);
        assert_eq!(history.items, [(202_512, 2), (202_601, 6)]);
        assert_eq!(history.before, 291);
    }
}
