//! Comparisons of rows of a table with one key per entity.

use crate::workload::comparison::{Comparison, Side, first_to_others};
use crate::workload::comparisons::objects::{
    CINT_BATCHINCR, CINT_INCRBY, CINT_MREAD, HINCRBY, MGET, MULTI_HINCRBY,
};
use crate::workload::dataset::{DataSet, ObjectKind};
use crate::workload::id_source::IdSource;
use crate::workload::ids::short;
use crate::workload::scale::Scale;
use crate::workload::table::{Rows, Tables};

/// The comparisons, in the order in which they run.
pub fn comparisons(scale: &Scale) -> Vec<Comparison> {
    let (rows, objects) = (scale.rows, scale.objects);
    let ours = |label: &str, commands: &str| {
        Side::new(label, DataSet::Rows(Rows::Plain, rows), commands).with_ids(IdSource::Rows(rows))
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
            ids: IdSource::Objects(objects),
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
                theirs("HINCRBY", ObjectKind::Hash, HINCRBY),
                theirs("CINT.INCRBY", ObjectKind::CountInt, CINT_INCRBY),
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
                theirs("MULTI, five HINCRBY, EXEC", ObjectKind::Hash, MULTI_HINCRBY),
                theirs(
                    "CINT.BATCHINCR of five",
                    ObjectKind::CountInt,
                    CINT_BATCHINCR,
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
                    theirs("MGET of packed Strings", ObjectKind::Packed, MGET),
                    theirs("CINT.MREAD 5", ObjectKind::CountInt, CINT_MREAD),
                ],
                &[Some(1.2), None],
            )
        },
        page(objects),
    ]
}

/// Reading a page of 100 rows of 1,024 tables, as many rows as objects.
fn page(objects: u64) -> Comparison {
    let tables = Tables::ascending(objects);
    let ours = |label: &str, commands: &str| {
        Side::new(label, DataSet::Tables(tables), commands).with_ids(IdSource::Tables(tables))
    };
    let countint = DataSet::Objects(ObjectKind::CountInt, objects);
    Comparison {
        name: "ctab-page".into(),
        group: "ctab-page",
        stage: "rows".into(),
        title: format!(
            "Reading a page of 100: of {} rows in 1,024 tables, or of as many keys",
            short(objects)
        ),
        unit: "entities",
        units: 100,
        ids: IdSource::Objects(objects),
        sides: vec![
            ours("CTAB.PAGE 5", "CTAB.PAGE 5 100 tab:note:<set>,<same>*100"),
            ours(
                "CTAB.MREAD 5 for each row",
                "100x CTAB.MREAD 5 tab:note:<set> <same>",
            ),
            Side::new("CINT.MREAD 5", countint, CINT_MREAD),
        ],
        ratios: first_to_others(&[Some(1.15), Some(0.95)]),
        qualifier: String::from(", 1,024 tables"),
    }
}
