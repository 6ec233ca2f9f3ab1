//! Pages of baselines.

use super::observe::Observation;
use crate::domain::ids::{Id, Name};
use crate::domain::keys::Partition;
use crate::log::archive::BaselinePage;
use std::collections::BTreeSet;

/// What a baseline has of a page: the counters, without what the log has after the offset of the baseline.
pub(super) fn page(
    observed: &Observation,
    partition: Partition,
    (schema, names, metrics): (&Name, &[Name], &BTreeSet<Name>),
) -> Option<BaselinePage> {
    let etype = observed.rows.first()?.entity.etype.clone();
    let counters = names.iter().enumerate();
    let counters: Vec<usize> = counters
        .filter(|(_, name)| metrics.contains(*name))
        .map(|(idx, _)| idx)
        .collect();
    let rows = observed.rows.iter().map(|row| {
        let value = |idx: usize| match row.tail.is_new {
            true => 0,
            false => (row.actual(idx) - row.tail.of(idx)).max(0).unsigned_abs(),
        };
        let values = counters.iter().filter_map(|idx| {
            let number = u16::try_from(*idx).ok()?;
            Some((number, value(*idx))).filter(|(_, value)| *value > 0)
        });
        (row.entity.eid.clone(), values.collect::<Vec<_>>())
    });
    let rows: Vec<(Id, Vec<(u16, u64)>)> = rows.filter(|(_, values)| !values.is_empty()).collect();
    (!rows.is_empty()).then(|| BaselinePage {
        partition,
        schema: schema.clone(),
        etype,
        rows,
    })
}
