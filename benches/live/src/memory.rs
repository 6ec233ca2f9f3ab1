//! What an object costs with its key: the server's `used_memory` before and after loading a million of them.

use std::fmt::Write;
use std::thread::sleep;
use std::time::Duration;

use crate::Result;
use crate::control::Control;
use crate::dataset::{self, DataSet};
use crate::numbers::OBJECTS;
use crate::options::Options;
use crate::report::{Bar, Section, Verdict};
use crate::server::{Server, Workdir};

/// What `--only` calls it.
pub const NAME: &str = "memory";
/// Its heading.
pub const TITLE: &str = "Memory";

/// Each is loaded into a database of its own, in this order.
const KINDS: [DataSet; 8] = [
    DataSet::CountInts,
    DataSet::Strings,
    DataSet::Hashes,
    DataSet::TerseHashes,
    DataSet::RbmDense,
    DataSet::SetDense,
    DataSet::RbmHalf,
    DataSet::SetHalf,
];

/// The most bytes over a String, and the most of a Hash's bytes, that a CountInt may take.
const OVER_STRING: f64 = 16.0;
const OF_HASH: f64 = 0.9;

/// Loads every kind and describes what each took.
pub fn measure(options: &Options) -> Result<Section> {
    let dir = Workdir::new()?;
    let server = Server::start(options, &dir)?;
    let mut control = server.control()?;
    let mut bytes = [0.0; KINDS.len()];
    for (db, kind) in KINDS.into_iter().enumerate() {
        let before = settled_memory(&mut control)?;
        dataset::load(&server, &[(kind, db)])?;
        bytes[db] = (settled_memory(&mut control)? - before) / OBJECTS as f64;
    }
    Ok(Section {
        title: TITLE,
        body: body(&bytes),
        verdicts: verdicts(&bytes),
    })
}

/// `used_memory`, once connections are closed and no table is being moved any more.
fn settled_memory(control: &mut Control) -> Result<f64> {
    let mut last = f64::MAX;
    for _ in 0..50 {
        sleep(Duration::from_millis(300));
        let now: f64 = control.info("memory", "used_memory")?.parse()?;
        if (now - last).abs() < 4096.0 {
            return Ok(now);
        }
        last = now;
    }
    Err("used_memory does not settle".into())
}

fn body(bytes: &[f64]) -> String {
    let mut body = format!(
        "`used_memory` after loading a million, less what it was before, over a million: an object with its key \
         (`cnt:v1:note:1234567`) and its share of the keyspace table; or a member of one set.\n\n\
         Counts are log-uniform below 2^20. A Hash grows with its names and its counts, a CountInt does not.\n\n\
         | {} | bytes |\n|---|---|\n",
        "a million of"
    );
    for (kind, bytes) in KINDS.iter().zip(bytes) {
        let _ = writeln!(body, "| {} | {} |", kind.label(), precise(*bytes));
    }
    body
}

/// Objects take tens of bytes, members of an RBM a fraction of one.
fn precise(bytes: f64) -> String {
    if bytes < 1.0 {
        format!("{bytes:.3}")
    } else {
        format!("{bytes:.1}")
    }
}

fn verdicts(bytes: &[f64]) -> Vec<Verdict> {
    let [cint, string, hash, terse, rbm, set, rbm_half, set_half] = bytes else {
        return Vec::new();
    };
    vec![
        Verdict {
            what: "memory, CountInt over a String of 25 bytes".into(),
            // Cells have whole bytes; what a few connections take adds less than a hundredth.
            value: ((cint - string) * 100.0).round() / 100.0,
            bar: Bar::AtMost(OVER_STRING),
            by_cpu: None,
            unit: "bytes",
            loses: cint > string,
        },
        Verdict::cost(
            "memory, CountInt : Hash of five".into(),
            cint / hash,
            Some(OF_HASH),
        ),
        Verdict::cost(
            "memory, CountInt : Hash of five, one-letter names".into(),
            cint / terse,
            None,
        ),
        Verdict::cost("memory, RBM : Set, successive ids".into(), rbm / set, None),
        Verdict::cost(
            "memory, RBM : Set, half of 2M ids".into(),
            rbm_half / set_half,
            None,
        ),
    ]
}
