//! What is done to a table as a whole, by its size: what one command takes then, and how long it holds up all others.

use std::fmt::Write;
use std::time::Instant;

use crate::Result;
use crate::control::Control;
use crate::dataset::DataSet;
use crate::distribution::short;
use crate::options::Options;
use crate::persistence::{load, save};
use crate::report::Section;
use crate::rowset::{Rows, TABLE};
use crate::server::{Server, Workdir};
use crate::stats::Spread;

/// What `--only` calls it.
pub const NAME: &str = "table-sizes";
/// Its heading.
pub const TITLE: &str = "Whole tables";

/// Times that each is done.
const REPEATS: usize = 3;
/// A copy of the table, to be deleted.
const COPY: &str = "tab:copy";

/// Saves, loads, copies, moves, resizes and deletes tables of several sizes.
pub fn measure(options: &Options) -> Result<Section> {
    let mut body = format!(
        "One table of five counters, ids in sequence and counts as posts have them, filled a row at a time. Milliseconds, \
         medians of {REPEATS}: BGSAVE from the command to the end of the child, loading as the server's log times it, the others as \
         the client waits, and everyone else with it: the server does nothing besides. MIGRATE goes to another server on this \
         machine; RESIZE takes one of six counters away, which all rows have at 0.\n\n\
         | rows | memory, MB | BGSAVE | load | COPY | MIGRATE | CTAB.RESIZE | DEL | UNLINK |\n|---|---|---|---|---|---|---|---|---|\n"
    );
    let largest = options.scale.rows;
    for rows in [largest / 1_000, largest / 100, largest / 10, largest] {
        body.push_str(&line(rows, options)?);
    }
    Ok(Section {
        title: TITLE.into(),
        body,
        verdicts: Vec::new(),
        losses: Vec::new(),
        charts: Vec::new(),
    })
}

/// A line of the table.
fn line(rows: u64, options: &Options) -> Result<String> {
    let data = DataSet::Rows(Rows::Posts, rows);
    let dir = Workdir::new()?;
    let server = data.start(options, &dir)?;
    let mut control = server.control()?;
    let bytes: f64 = control.call(&format!("MEMORY USAGE {TABLE}"))?.parse()?;
    let bgsave = median(|| Ok(save(&server)?.wall * 1e3))?;
    let other_dir = Workdir::new()?;
    let other = Server::start(options, &other_dir, Some(&options.module))?;
    let migrate = format!(
        "MIGRATE 127.0.0.1 {} {TABLE} 0 60000 COPY REPLACE",
        other.port()
    );
    let migrate = median(|| milliseconds(&mut control, &migrate))?;
    let resize = median(|| {
        control.call(&format!("CTAB.RESIZE {TABLE} 6"))?;
        milliseconds(&mut control, &format!("CTAB.RESIZE {TABLE} 5"))
    })?;
    let copy = format!("COPY {TABLE} {COPY}");
    let mut copies = Vec::new();
    let mut gone = |command: &str, control: &mut Control| {
        median(|| {
            copies.push(milliseconds(control, &copy)?);
            milliseconds(control, &format!("{command} {COPY}"))
        })
    };
    let del = gone("DEL", &mut control)?;
    let unlink = gone("UNLINK", &mut control)?;
    let copied = Spread::of(copies).median();
    drop((server, other));
    let loaded = median(|| Ok(load(options, &dir, data)?.wall * 1e3))?;
    let mut line = format!("| {} | {:.2} |", short(rows), bytes / 1e6);
    for time in [bgsave, loaded, copied, migrate, resize, del, unlink] {
        let _ = write!(line, " {time:.1} |");
    }
    line.push('\n');
    Ok(line)
}

fn median(mut once: impl FnMut() -> Result<f64>) -> Result<f64> {
    let times: Result<Vec<f64>> = (0..REPEATS).map(|_| once()).collect();
    Ok(Spread::of(times?).median())
}

/// How long the reply takes.
fn milliseconds(control: &mut Control, command: &str) -> Result<f64> {
    let started = Instant::now();
    control.call(command)?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
