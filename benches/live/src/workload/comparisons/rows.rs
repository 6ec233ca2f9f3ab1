//! Comparisons of the rows of a table with a key for each entity.

use crate::workload::comparison::{Comparison, Side, first_to_others};
use crate::workload::dataset::{DataSet, ObjectKind};
use crate::workload::ids::short;
use crate::workload::pick::Pick;
use crate::workload::scale::Scale;
use crate::workload::table::Rows;

/// In the order in which they run.
pub fn comparisons(scale: &Scale) -> Vec<Comparison> {
    let (rows, objects) = (scale.rows, scale.objects);
    let ours = |label: &str, commands: &str| {
        Side::new(label, DataSet::Rows(Rows::Plain, rows), commands).picking(Pick::Rows(rows))
    };
    let theirs = |label: &str, kind, commands: &str| {
        Side::new(label, DataSet::Objects(kind, objects), commands)
    };
    let comparison =
        |name: &'static str, title: &str, sides, thresholds: &[Option<f64>]| Comparison {
            name: name.into(),
            group: name,
            stage: "rows".into(),
            title: format!(
                "{title}: one of {} rows, or of {} keys",
                short(rows),
                short(objects)
            ),
            unit: "operations",
            units: 1,
            pick: Pick::Objects(objects),
            sides,
            ratios: first_to_others(thresholds),
            qualifier: format!(", {} rows to {} keys", short(rows), short(objects)),
        };
    vec![
        comparison(
            "ctab-incrby",
            "Incrementing one counter",
            vec![
                ours("CTAB.INCRBY", "CTAB.INCRBY tab:note <id> <i> 1"),
                theirs(
                    "HINCRBY",
                    ObjectKind::Hash,
                    "HINCRBY cnt:v1:note:<id> <field> 1",
                ),
                theirs(
                    "CINT.INCRBY",
                    ObjectKind::CountInt,
                    "CINT.INCRBY cnt:v1:note:<id> <i> 1",
                ),
            ],
            &[Some(1.0), None],
        ),
        comparison(
            "ctab-batchincr",
            "Incrementing five counters",
            vec![
                ours(
                    "CTAB.BATCHINCR of five",
                    "CTAB.BATCHINCR tab:note <id> 0 1 1 1 2 1 3 1 4 1",
                ),
                theirs(
                    "MULTI, five HINCRBY, EXEC",
                    ObjectKind::Hash,
                    "MULTI; HINCRBY cnt:v1:note:<id> read 1; HINCRBY cnt:v1:note:<same> like 1; \
                     HINCRBY cnt:v1:note:<same> fav 1; HINCRBY cnt:v1:note:<same> comment 1; \
                     HINCRBY cnt:v1:note:<same> repost 1; EXEC",
                ),
                theirs(
                    "CINT.BATCHINCR of five",
                    ObjectKind::CountInt,
                    "CINT.BATCHINCR cnt:v1:note:<id> 0 1 1 1 2 1 3 1 4 1",
                ),
            ],
            &[Some(3.0), None],
        ),
        Comparison {
            unit: "entities",
            units: 100,
            ..comparison(
                "ctab-mread",
                "Reading a page of 100",
                vec![
                    ours("CTAB.MREAD 5", "CTAB.MREAD 5 tab:note <id>*100"),
                    theirs(
                        "MGET of packed Strings",
                        ObjectKind::Packed,
                        "MGET cnt:v1:note:<id>*100",
                    ),
                    theirs(
                        "CINT.MREAD 5",
                        ObjectKind::CountInt,
                        "CINT.MREAD 5 cnt:v1:note:<id>*100",
                    ),
                ],
                &[Some(1.2), None],
            )
        },
    ]
}
