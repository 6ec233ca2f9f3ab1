//! The memory of Redis that data takes.

use super::figures::{Figures, FiguresError};
use super::placement::PARTITIONS;
use super::workload::{LogKind, Stored, Workload};
use serde::Serialize;

/// Bytes of an uncounted entry of a log, as docs/countd/operations.md says.
pub const LOG_ENTRY: f64 = 200.0;
/// What a log keeps of its counted entries: `log.retain_bytes`, and up to as much again until the next trim.
const RETAINED: f64 = 16_384.0;
/// The counters of an entity of the benchmarks.
const MEASURED_COUNTERS: f64 = 5.0;
/// Bytes of a counter of an object.
const CELL: f64 = 5.0;
/// The sizes of the sets whose bytes for each member are measured.
const SET_SIZES: [(f64, &str); 7] = [
    (1.0, "1"),
    (10.0, "10"),
    (100.0, "100"),
    (1e3, "1k"),
    (1e4, "10k"),
    (1e5, "100k"),
    (1e6, "1m"),
];
/// Sizes of tables in rows, and the name of the time that moving one of them to another server takes.
const TABLE_SIZES: [(f64, &str); 4] = [(1e4, "10k"), (1e5, "100k"), (1e6, "1m"), (1e7, "10m")];

/// The memory of all masters together, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Counters of entities.
    pub counters: f64,
    /// Facts.
    pub facts: f64,
    /// Counted entries that logs keep.
    pub log: f64,
    /// Entries that are not counted at the end of an outage of the consumers.
    pub backlog: f64,
}

impl Memory {
    /// The memory that a load needs.
    ///
    /// # Errors
    /// A figure is missing.
    pub fn new(figures: &Figures, workload: &Workload) -> Result<Memory, FiguresError> {
        let logged = match workload.log {
            LogKind::Streams => workload.actions,
            LogKind::Kafka => workload.actions * workload.once,
        };
        Ok(Memory {
            counters: workload.entities * entity(figures, workload)?,
            facts: workload.entities * facts(figures, workload.facts)?,
            log: RETAINED * PARTITIONS as f64,
            backlog: logged * workload.outage * LOG_ENTRY,
        })
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.counters + self.facts + self.log + self.backlog
    }
}

/// The bytes of the counters of an entity.
fn entity(figures: &Figures, workload: &Workload) -> Result<f64, FiguresError> {
    let more = workload.metrics - MEASURED_COUNTERS;
    match workload.storage {
        // Of a row with an ID in sequence, nearly everything is its counters.
        Stored::Table => {
            let counters = figures.get("row.heavy-tail")?;
            let all = figures.get("countd.bytes.table.snowflake-3y-ascending.all")?;
            Ok(all + counters * more / MEASURED_COUNTERS)
        }
        Stored::Object => {
            let all = figures.get("countd.bytes.object.snowflake-3y-ascending.all")?;
            Ok(all + CELL * more)
        }
    }
}

/// The bytes of this many facts of an entity: snowflake IDs in a set of this size.
fn facts(figures: &Figures, facts: f64) -> Result<f64, FiguresError> {
    let bytes = |size: &str| figures.get(&format!("member.snowflake.{size}.rbm"));
    // Below 1, some entities have no set.
    Ok(facts * interpolate(&SET_SIZES, facts, bytes)?)
}

/// The seconds for which a master is blocked while the largest table is moved to another one, or is copied.
///
/// # Errors
/// A figure is missing.
pub fn table_move(figures: &Figures, workload: &Workload) -> Result<f64, FiguresError> {
    let rows = match workload.storage {
        Stored::Table => workload.entities / PARTITIONS as f64,
        Stored::Object => 0.0,
    };
    let (largest, _) = TABLE_SIZES[TABLE_SIZES.len() - 1];
    let time = |size: &str| Ok(figures.get(&format!("table.{size}.migrate-ms"))?.max(1e-3) * 1e-3);
    let (smallest, _) = TABLE_SIZES[0];
    // In proportion to the rows outside of what was measured.
    let outside = (rows / largest).max(1.0) * (rows / smallest).min(1.0);
    Ok(interpolate(&TABLE_SIZES, rows, time)? * outside)
}

/// The seconds that a server takes to load this many rows from a snapshot.
///
/// # Errors
/// A figure is missing.
pub fn load_rows(figures: &Figures, workload: &Workload, rows: f64) -> Result<f64, FiguresError> {
    let name = match workload.storage {
        Stored::Table => "snapshot.tables.load-s",
        Stored::Object => "snapshot.countints.load-s",
    };
    Ok(figures.get(name)? * rows / 1e6)
}

/// A value between measured ones, on a line in logarithmic scales; that of the nearest size outside of them.
fn interpolate(
    sizes: &[(f64, &str)],
    size: f64,
    value: impl Fn(&str) -> Result<f64, FiguresError>,
) -> Result<f64, FiguresError> {
    let above = sizes.partition_point(|(measured, _)| *measured < size);
    let (Some(low), Some(high)) = (sizes.get(above.wrapping_sub(1)), sizes.get(above)) else {
        let nearest = sizes[above.min(sizes.len() - 1)];
        return value(nearest.1);
    };
    let share = (size / low.0).ln() / (high.0 / low.0).ln();
    let (low, high) = (value(low.1)?, value(high.1)?);
    Ok(low * (high / low).powf(share))
}

#[cfg(test)]
mod tests {
    use super::super::workload::testing::workload;
    use super::*;

    fn figures() -> Figures {
        let text = r#"{
            "row.heavy-tail": 8, "countd.bytes.table.snowflake-3y-ascending.all": 17,
            "countd.bytes.object.snowflake-3y-ascending.all": 158,
            "member.snowflake.1.rbm": 120, "member.snowflake.10.rbm": 20, "member.snowflake.100.rbm": 8,
            "member.snowflake.1k.rbm": 7, "member.snowflake.10k.rbm": 6, "member.snowflake.100k.rbm": 6, "member.snowflake.1m.rbm": 5,
            "table.10k.migrate-ms": 1, "table.100k.migrate-ms": 10, "table.1m.migrate-ms": 70, "table.10m.migrate-ms": 800,
            "snapshot.tables.load-s": 0.05, "snapshot.countints.load-s": 0.6
        }"#;
        Figures::parse(text).expect("figures")
    }

    fn memory(workload: &Workload) -> Memory {
        Memory::new(&figures(), workload).expect("memory")
    }

    #[test]
    fn memory_is_that_of_counters_facts_and_logs() {
        // 1M entities of 17 bytes and ten facts of 20 bytes; 1,000 actions per second for 600 s.
        let memory = memory(&workload());
        assert_eq!((memory.counters, memory.facts), (17e6, 200e6));
        assert_eq!((memory.log, memory.backlog), (16_777_216.0, 120e6));
        assert_eq!(memory.total(), 353_777_216.0);
    }

    #[test]
    fn memory_depends_on_counters_storage_and_log() {
        let of = |change: fn(&mut Workload)| {
            let mut changed = workload();
            change(&mut changed);
            memory(&changed)
        };
        assert_eq!(of(|w| w.metrics = 10.0).counters, 25e6);
        assert_eq!(of(|w| w.storage = Stored::Object).counters, 158e6);
        assert_eq!(of(|w| w.log = LogKind::Kafka).backlog, 60e6);
        assert_eq!(of(|w| w.facts = 0.0).facts, 0.0);
        // Half of the entities have one fact, in a set of 120 bytes.
        assert_eq!(of(|w| w.facts = 0.5).facts, 60e6);
        assert_eq!(of(|w| w.facts = 1e7).facts, 5e13);
    }

    #[test]
    fn memory_is_at_least_the_data_and_grows_with_it() {
        let figures = Figures::embedded().expect("figures");
        let of = |entities, facts| {
            let load = Workload {
                entities,
                facts,
                ..workload()
            };
            Memory::new(&figures, &load).expect("memory").total()
        };
        let random = &mut fastrand::Rng::with_seed(3);
        for _ in 0..1_000 {
            let entities = 10f64.powf(random.f64() * 10.0);
            let facts = 10f64.powf(random.f64() * 7.0 - 1.0);
            // The lower bound of docs/benchmarks.md for a million snowflakes is 3.75 bytes each.
            assert!(of(entities, facts) >= entities * (16.0 + 3.75 * facts));
            assert!(of(entities, facts * 1.1) > of(entities, facts));
            assert!(of(entities * 1.1, facts) > of(entities, facts));
        }
    }

    #[test]
    fn large_tables_block_a_server_in_proportion_to_their_rows() {
        let seconds = |entities| {
            table_move(
                &figures(),
                &Workload {
                    entities,
                    ..workload()
                },
            )
            .expect("a time")
        };
        let near =
            |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-9, "{value}");
        near(seconds(1024e6), 0.07);
        near(seconds(10_240e6), 0.8);
        near(seconds(20_480e6), 1.6);
        near(seconds(1.024e6), 1e-4);
        assert!(seconds(512e6) < seconds(1024e6));
        assert_eq!(load_rows(&figures(), &workload(), 2e6), Ok(0.1));
    }
}
