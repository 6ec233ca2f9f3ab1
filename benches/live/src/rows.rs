//! Bytes of a row of a table, by what the rows hold.

use std::fmt::Write;

use crate::Result;
use crate::chart::{self, Bar, Group};
use crate::dataset::{DataSet, Form};
use crate::distribution::short;
use crate::memory::Scales;
use crate::options::Options;
use crate::report::{Limit, Section, Verdict};
use crate::rowset::Rows;
use crate::server::{Server, Workdir};

/// What `--only` calls it.
pub const NAME: &str = "rows";
/// Its heading.
pub const TITLE: &str = "Bytes per row";

/// The kinds that are weighed, and the most bytes that a row may take.
const KINDS: [(Rows, f64); 3] = [
    (Rows::Posts, 11.0),
    (Rows::Random, 29.0),
    (Rows::Snowflakes, 19.0),
];
/// Rows that each server has held before it is weighed empty.
const WARM_UP: u64 = 20_000;

/// Loads each kind into a server of its own and describes what it took.
pub fn measure(options: &Options) -> Result<Section> {
    let rows = options.scale.rows;
    let weigh = |data: DataSet, warm_up: DataSet, entities: u64| -> Result<f64> {
        let dir = Workdir::new()?;
        let server = Server::start(options, &dir, data.module(options))?;
        warm_up.load(&server)?;
        let scales = Scales::balance(&server)?;
        data.load(&server)?;
        Ok(scales.weigh()? / entities as f64)
    };
    let mut bytes = Vec::new();
    for (kind, _) in KINDS {
        let warm_up = DataSet::Rows(kind, WARM_UP);
        bytes.push(weigh(DataSet::Rows(kind, rows), warm_up, rows)?);
    }
    let objects = options.scale.objects;
    let warm_up = DataSet::Objects(Form::CountInt, WARM_UP);
    let object = weigh(DataSet::Objects(Form::CountInt, objects), warm_up, objects)?;
    Ok(section(&bytes, object, rows))
}

fn section(bytes: &[f64], object: f64, rows: u64) -> Section {
    let mut body = format!(
        "`used_memory` after loading {n} rows of five counters into one table, row by row, less what it was before, over {n}. \
         Heavy tail: reads are log-normal with a median of 150 and one of a hundred beyond 70,000; likes are 7 %, comments \
         2 %, favourites 1 % and reposts 0.7 % of them, rounded down. Snowflakes come in random order.\n\n\
         | rows | bytes |\n|---|---|\n",
        n = short(rows),
    );
    for ((kind, _), bytes) in KINDS.iter().zip(bytes) {
        let _ = writeln!(body, "| {} | {bytes:.2} |", kind.label());
    }
    let _ = writeln!(body, "| a CountInt for each, with its key | {object:.2} |");
    let verdicts = KINDS
        .iter()
        .zip(bytes)
        .map(|((kind, bar), &value)| Verdict {
            value,
            limit: Limit::AtMost(*bar),
            unit: "bytes",
            loses: value > object,
            ..Verdict::cost(format!("bytes per row, {}", kind.label()), 0.0, None)
        });
    let bar = |label: &str, value, ours| Bar {
        label: label.into(),
        value,
        range: None,
        ours,
    };
    let mut bars: Vec<Bar> = KINDS
        .iter()
        .zip(bytes)
        .map(|((kind, _), &value)| bar(kind.label(), value, true))
        .collect();
    bars.push(bar("a CountInt for each, with its key", object, false));
    let group = Group {
        title: format!("{} rows of five counters", short(rows)),
        bars,
    };
    Section {
        title: TITLE.into(),
        body,
        verdicts: verdicts.collect(),
        losses: Vec::new(),
        charts: vec![chart::bars(
            "bytes-per-row",
            TITLE,
            "bytes",
            &[group],
            |v| format!("{v:.1}"),
        )],
    }
}
