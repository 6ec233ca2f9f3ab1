//! The section on the memory of an object.

use crate::measure::entities::{Entities, KINDS, WARM_UP};
use crate::report::chart::{self, Bar, Group};
use crate::report::check::{Check, Threshold};
use crate::report::figures::Figures;
use crate::report::section::{Section, SummaryRow, SummaryTable};
use crate::report::table::Table;
use crate::workload::dataset::ObjectKind;
use crate::workload::ids::short;

/// The name in `--only`.
pub const NAME: &str = "entities";
/// The heading.
pub const TITLE: &str = "Bytes per entity";

/// Maximum difference between a CountInt and a packed String, in bytes.
const OVER_STRING: f64 = 16.0;
/// Maximum ratio of a CountInt to a Hash.
const TO_HASH: f64 = 0.9;

/// Formats the memory of `objects` objects of each kind.
pub fn section(entities: &Entities, objects: u64) -> Section {
    let n = short(objects);
    let mut table = Table::new(&["data structure", "bytes"]);
    let mut figures = Figures::default();
    for (kind, bytes) in KINDS.iter().zip(entities.0) {
        table.row(&[kind.label(), &format!("{bytes:.2}")]);
        figures.add(format!("entity.{}", name(*kind)), bytes, 2);
    }
    let body = format!(
        "`used_memory` after loading {n} objects (`cnt:v1:note:1234567`), minus its value before, divided by {n}: the value, \
         the key or keys, and the share of the keyspace's dictionary. Each data structure has a server of its own, which was \
         warmed up with {WARM_UP} objects and emptied. Counts are log-uniform below 2^20. The keys, and the fields of a Hash, \
         are called read, like, fav, comment and repost. A Hash grows with its names and its counts, a CountInt does not.\n\n{}",
        table.finish()
    );
    let bars = KINDS.iter().zip(entities.0).map(|(kind, value)| Bar {
        label: kind.label().into(),
        value,
        quartiles: None,
        ours: *kind == ObjectKind::CountInt,
    });
    let group = Group {
        title: format!("{n} objects of five counters, with their keys"),
        bars: bars.collect(),
    };
    let chart = chart::bars("bytes-per-entity", TITLE, "bytes", &[group], |v| {
        format!("{v:.1}")
    });
    Section {
        title: TITLE.into(),
        body,
        summary: summary(entities),
        checks: checks(entities),
        charts: vec![chart],
        figures,
        ..Section::default()
    }
}

/// The name of a kind in figures.
fn name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::CountInt => "countint",
        ObjectKind::Packed => "packed-string",
        ObjectKind::Hash => "hash",
        ObjectKind::TerseHash => "hash-one-letter-names",
        ObjectKind::Keys => "five-keys",
        ObjectKind::Floor => "plain-module",
    }
}

fn summary(entities: &Entities) -> Vec<SummaryRow> {
    let ours = entities.bytes(ObjectKind::CountInt);
    let row = |kind: ObjectKind| {
        let theirs = entities.bytes(kind);
        SummaryRow {
            table: SummaryTable::Memory,
            task: "an entity of five counters".into(),
            ours: (ObjectKind::CountInt.label().into(), format!("{ours:.2}")),
            theirs: (kind.label().into(), format!("{theirs:.2}")),
            ratio: ours / theirs,
        }
    };
    [ObjectKind::Keys, ObjectKind::Hash, ObjectKind::Packed]
        .map(row)
        .into()
}

fn checks(entities: &Entities) -> Vec<Check> {
    let ours = entities.bytes(ObjectKind::CountInt);
    let ratio = |kind, label: &str, threshold| {
        let what = format!("bytes per entity, CountInt : {label}");
        Check::cost(what, ours / entities.bytes(kind), threshold)
    };
    let over = ours - entities.bytes(ObjectKind::Packed);
    // To a hundredth: smaller differences are the server's own allocations.
    let over = (over * 100.0).round() / 100.0;
    let over_string = Check::absolute(
        "bytes per entity, CountInt over a packed String".into(),
        over,
        "bytes",
        Threshold::AtMost(OVER_STRING),
    );
    vec![
        Check {
            worse: over > 0.0,
            ..over_string
        },
        ratio(ObjectKind::Hash, "Hash of five", Some(TO_HASH)),
        ratio(
            ObjectKind::TerseHash,
            "Hash of five, one-letter names",
            None,
        ),
        ratio(ObjectKind::Keys, "five keys", None),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_structure_has_a_row_and_a_figure() {
        let section = section(
            &Entities([443.82, 152.41, 136.22, 136.39, 120.39]),
            1_000_000,
        );
        assert!(section.body.contains("| five keys (INCR) | 443.82 |\n"));
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"entity.countint\": 136.39"));
        assert_eq!(figures.lines().count(), KINDS.len() + 2);
        let met: Vec<_> = section.checks.iter().map(|c| (c.met(), c.worse)).collect();
        assert_eq!(
            met,
            [
                (Some(true), true),
                (Some(true), false),
                (None, true),
                (None, false)
            ]
        );
    }
}
