//! Bytes of an object of five counters, with its key, in each form.

use std::fmt::Write;

use crate::Result;
use crate::chart::{self, Bar, Group};
use crate::dataset::{DataSet, Form};
use crate::distribution::short;
use crate::memory::Scales;
use crate::options::Options;
use crate::report::{Limit, Section, Verdict};
use crate::server::{Server, Workdir};

/// What `--only` calls it.
pub const NAME: &str = "entities";
/// Its heading.
pub const TITLE: &str = "Bytes per entity";

/// From the largest to the smallest.
const FORMS: [Form; 5] = [
    Form::Keys,
    Form::Hash,
    Form::TerseHash,
    Form::CountInt,
    Form::Packed,
];
/// Objects that each server has held before it is weighed empty.
const WARM_UP: u64 = 20_000;

/// The most bytes over a String, and the most of a Hash's bytes, that a CountInt may take.
const OVER_STRING: f64 = 16.0;
const OF_HASH: f64 = 0.9;

/// Loads each form into a server of its own and describes what it took.
pub fn measure(options: &Options) -> Result<Section> {
    let objects = options.scale.objects;
    let mut bytes = Vec::new();
    for form in FORMS {
        let dir = Workdir::new()?;
        let data = DataSet::Objects(form, objects);
        let server = Server::start(options, &dir, data.module(options))?;
        DataSet::Objects(form, WARM_UP).load(&server)?;
        let scales = Scales::balance(&server)?;
        data.load(&server)?;
        bytes.push(scales.weigh()? / objects as f64);
    }
    Ok(section(&bytes, objects))
}

fn section(bytes: &[f64], objects: u64) -> Section {
    let mut body = format!(
        "`used_memory` after loading {n} objects (`cnt:v1:note:1234567`), less what it was before, over {n}: the object, \
         its key or keys, and its share of the keyspace table. Every form has a server of its own, which held {WARM_UP} \
         of them and was emptied before. Counts are log-uniform below 2^20. The keys, and a Hash's fields, are called \
         read, like, fav, comment, repost; a Hash grows with its names and its counts, a CountInt does not.\n\n\
         | form | bytes |\n|---|---|\n",
        n = short(objects)
    );
    for (form, bytes) in FORMS.iter().zip(bytes) {
        let _ = writeln!(body, "| {} | {bytes:.2} |", form.label());
    }
    let bars = FORMS.iter().zip(bytes).map(|(form, &value)| Bar {
        label: form.label().into(),
        value,
        range: None,
        ours: *form == Form::CountInt,
    });
    let group = Group {
        title: format!(
            "{} objects of five counters, with their keys",
            short(objects)
        ),
        bars: bars.collect(),
    };
    let chart = chart::bars("bytes-per-entity", TITLE, "bytes", &[group], |v| {
        format!("{v:.1}")
    });
    Section {
        title: TITLE.into(),
        body,
        verdicts: verdicts(bytes),
        losses: Vec::new(),
        charts: vec![chart],
    }
}

fn verdicts(bytes: &[f64]) -> Vec<Verdict> {
    let &[keys, hash, terse, cint, string] = bytes else {
        return Vec::new();
    };
    let ratio = |to: &str, other: f64, bar| {
        Verdict::cost(
            format!("bytes per entity, CountInt : {to}"),
            cint / other,
            bar,
        )
    };
    vec![
        Verdict {
            // To a hundredth: beyond is what the server's own housekeeping takes.
            value: ((cint - string) * 100.0).round() / 100.0,
            limit: Limit::AtMost(OVER_STRING),
            unit: "bytes",
            loses: cint > string,
            ..Verdict::cost(
                "bytes per entity, CountInt over a packed String".into(),
                0.0,
                None,
            )
        },
        ratio("Hash of five", hash, Some(OF_HASH)),
        ratio("Hash of five, one-letter names", terse, None),
        ratio("five keys", keys, None),
    ]
}
