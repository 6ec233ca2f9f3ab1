//! The section on the memory of an entity in countd.

use crate::driver::countd::Storage;
use crate::measure::countd::bytes::EntityBytes;
use crate::report::check::{Check, Threshold};
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;
use crate::workload::ids::short;
use crate::workload::scale::CountdScale;

/// The name in `--only`.
pub const NAME: &str = "countd-bytes";
/// The heading.
pub const TITLE: &str = "countd: bytes of an entity";

/// Maximum bytes of an entity with tables, when the logs are shared by this many entities.
const MAX_BYTES: f64 = 18.0;
const FULL: u64 = 10_000_000;

/// Formats the results.
pub fn section(results: &[EntityBytes], scale: &CountdScale) -> Section {
    let mut table = Table::new(&["", "entities", "counters", "everything"]);
    let (mut figures, mut checks) = (Figures::default(), Vec::new());
    for result in results {
        let (storage, ids) = (result.storage.name(), result.ids);
        table.row(&[
            format!("{storage}s, {}", ids.label()),
            short(result.entities),
            format!("{:.2}", result.counters),
            format!("{:.2}", result.all),
        ]);
        let name = |what| format!("countd.bytes.{storage}.{}.{what}", ids.name());
        figures.add(name("counters"), result.counters, 2);
        figures.add(name("all"), result.all, 2);
        if result.storage == Storage::Table {
            let what = format!("countd, bytes of an entity, {}", ids.label());
            let threshold = match result.entities >= FULL {
                true => Threshold::AtMost(MAX_BYTES),
                false => Threshold::None,
            };
            checks.push(Check::absolute(what, result.all, "bytes", threshold));
        }
    }
    Section {
        title: TITLE.into(),
        body: format!(
            "`used_memory` minus that of the warmed-up empty server, divided by the number of entities. The entities are notes \
             with five counters (reads log-normal with a median of 150 and a 99th percentile of 70,000) and snowflake ids of \
             three years, which arrive one by one. *Counters* are the keys that hold them. *Everything* is what countd keeps after \
             {} events in each of 1,024 partitions went through the log and the consumer: schema, positions, and the entries \
             that logs retain, which do not grow with the number of entities. Facts are extra.\n\n{}",
            scale.entity_events,
            table.finish()
        ),
        checks,
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ids::{Arrival, Distribution};
    use crate::workload::scale::Scale;

    #[test]
    fn only_a_full_run_has_a_threshold() {
        let bytes = |storage, entities| EntityBytes {
            storage,
            ids: Distribution::Snowflakes3y(Arrival::Random),
            entities,
            counters: 15.5,
            all: 16.5,
        };
        let met = |entities| -> Vec<_> {
            let results = [Storage::Table, Storage::Object].map(|s| bytes(s, entities));
            let section = section(&results, &Scale::full().countd);
            section.checks.iter().map(Check::met).collect()
        };
        assert_eq!(met(FULL), [Some(true)]);
        assert_eq!(met(1_000_000), [None]);
    }
}
