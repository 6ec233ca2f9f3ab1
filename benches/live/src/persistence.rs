//! How long a snapshot takes, to write and to load.
//!
//! The server notices the end of its saving child only ten times a second and reports whole seconds, so the child itself
//! is watched. What is loaded is timed by the server's own log, to the millisecond.

use std::fmt::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::dataset::{DataSet, Form};
use crate::distribution::short;
use crate::options::Options;
use crate::report::{Section, Verdict};
use crate::rowset::{Rows, TABLE};
use crate::server::{Server, Workdir};
use crate::stats::Spread;
use crate::{Result, cpu};

/// What `--only` calls it.
pub const NAME: &str = "persistence";
/// Its heading.
pub const TITLE: &str = "Snapshots";

/// What is saved: so many objects in each of our forms, with the most of the Hashes' time that saving and loading may take,
/// and as Hashes.
fn kinds(objects: u64) -> [(DataSet, Option<[f64; 2]>); 3] {
    [
        (DataSet::Objects(Form::CountInt, objects), Some([1.0, 1.25])),
        (DataSet::Rows(Rows::Posts, objects), Some([0.25, 0.2])),
        (DataSet::Objects(Form::Hash, objects), None),
    ]
}

/// The most that a table's file may have of the bytes that the table takes in memory.
const FILE_BAR: f64 = 1.1;

/// Elapsed and CPU seconds of one save or load.
pub struct Timing {
    /// Seconds that passed.
    pub wall: f64,
    /// Seconds of a core.
    pub cpu: f64,
}

/// A data set on disk and what was measured with it.
struct Subject {
    data: DataSet,
    /// What it may take of the Hashes' time to be saved, and to be loaded. None: it is the Hashes.
    bars: Option<[f64; 2]>,
    dir: Workdir,
    /// Bytes in memory, where the data are one key.
    memory: Option<f64>,
    saves: Vec<Timing>,
    loads: Vec<Timing>,
}

impl Subject {
    fn file_size(&self) -> Result<f64> {
        Ok(std::fs::metadata(self.dir.file("dump.rdb"))?.len() as f64)
    }

    fn saves(&self) -> &[Timing] {
        &self.saves
    }

    fn loads(&self) -> &[Timing] {
        &self.loads
    }
}

/// Saves and loads each kind in turn, several times.
pub fn measure(options: &Options) -> Result<Section> {
    let mut subjects = Vec::new();
    let mut servers = Vec::new();
    for (data, bars) in kinds(options.scale.objects) {
        let dir = Workdir::new()?;
        let server = data.start(options, &dir)?;
        let memory = match data {
            DataSet::Rows(..) => Some(memory_of_table(&server)?),
            _ => None,
        };
        servers.push(server);
        subjects.push(Subject {
            data,
            bars,
            dir,
            memory,
            saves: Vec::new(),
            loads: Vec::new(),
        });
    }
    for i in interleaved(subjects.len(), options.scale.saves) {
        subjects[i].saves.push(save(&servers[i])?);
    }
    drop(servers);
    for i in interleaved(subjects.len(), options.scale.saves) {
        let timing = load(options, &subjects[i].dir, subjects[i].data)?;
        subjects[i].loads.push(timing);
    }
    section(&subjects, options)
}

fn memory_of_table(server: &Server) -> Result<f64> {
    let bytes = server.control()?.call(&format!("MEMORY USAGE {TABLE}"))?;
    Ok(bytes.parse()?)
}

/// 0 1 2, 2 1 0, 0 1 2 ... `repeats` times.
fn interleaved(subjects: usize, repeats: usize) -> impl Iterator<Item = usize> {
    (0..repeats).flat_map(move |repeat| {
        (0..subjects).map(move |i| match repeat % 2 {
            0 => i,
            _ => subjects - 1 - i,
        })
    })
}

/// Has a snapshot written and watches the child that does it.
pub fn save(server: &Server) -> Result<Timing> {
    let mut control = server.control()?;
    let started = Instant::now();
    control.call("BGSAVE")?;
    let line = server.logged("Background saving started by pid ")?;
    let child: u32 = line.rsplit(' ').next().unwrap_or_default().trim().parse()?;
    let mut used = 0;
    while !cpu::has_ended(child) {
        used = cpu::process_ns(child).unwrap_or(used);
        sleep(Duration::from_micros(500));
    }
    let wall = started.elapsed().as_secs_f64();
    while control.info("persistence", "rdb_bgsave_in_progress")? != "0" {
        sleep(Duration::from_millis(5));
    }
    match control
        .info("persistence", "rdb_last_bgsave_status")?
        .as_str()
    {
        "ok" => Ok(Timing {
            wall,
            cpu: used as f64 / 1e9,
        }),
        other => Err(format!("BGSAVE ended with status {other}").into()),
    }
}

/// Starts a server on the snapshot of a data set.
pub fn load(options: &Options, dir: &Workdir, data: DataSet) -> Result<Timing> {
    let server = Server::start(options, dir, data.module(options))?;
    let cpu = server.cpu_ns()? as f64 / 1e9;
    let loaded: u64 = server.control()?.call("DBSIZE")?.parse()?;
    let saved = data.keys();
    if loaded != saved {
        return Err(format!("{loaded} keys were loaded, not {saved}").into());
    }
    let line = server.logged("DB loaded from disk: ")?;
    let seconds = line
        .split_whitespace()
        .nth(4)
        .ok_or("the log has no loading time")?;
    Ok(Timing {
        wall: seconds.parse()?,
        cpu,
    })
}

fn section(subjects: &[Subject], options: &Options) -> Result<Section> {
    let mut body = format!(
        "BGSAVE from the command to the end of the child, and loading as the server's log times it, of {} objects. \
         A server for each kind, of which only one works at a time; snapshots are interleaved, and so are restarts. The rows \
         are one table, with counts as posts have them. \
         CPU seconds are the child's for BGSAVE, and the whole start's for loading.\n\n\
         | | BGSAVE, s | quartiles | CPU, s | load, s | quartiles | CPU, s | file, MB |\n|---|---|---|---|---|---|---|---|\n",
        short(options.scale.objects)
    );
    for subject in subjects {
        let size = subject.file_size()? / 1e6;
        let _ = writeln!(
            body,
            "| {} | {} | {} | {size:.1} |",
            subject.data.label(),
            cells(&subject.saves),
            cells(&subject.loads)
        );
    }
    Ok(Section {
        title: TITLE.into(),
        body,
        verdicts: verdicts(subjects)?,
        losses: Vec::new(),
        charts: Vec::new(),
    })
}

/// Each of ours against the Hashes, and a table's file against its memory.
fn verdicts(subjects: &[Subject]) -> Result<Vec<Verdict>> {
    let (theirs, ours) = subjects.split_last().ok_or("something was saved")?;
    let mut verdicts = Vec::new();
    for subject in ours {
        let label = subject.data.label();
        for (what, of, bar) in [
            ("BGSAVE", Subject::saves as fn(&Subject) -> &[Timing], 0),
            ("load", Subject::loads, 1),
        ] {
            let what = format!("{what}, {label} : {}", theirs.data.label());
            let bar = subject.bars.map(|bars| bars[bar]);
            verdicts.push(verdict(what, of(subject), of(theirs), bar));
        }
        if let Some(memory) = subject.memory {
            let what = format!("{label}, bytes of the file : bytes in memory");
            let ratio = subject.file_size()? / memory;
            verdicts.push(Verdict::cost(what, ratio, Some(FILE_BAR)));
        }
    }
    Ok(verdicts)
}

fn verdict(what: String, ours: &[Timing], theirs: &[Timing], bar: Option<f64>) -> Verdict {
    let ratio = |of| spread(ours, of).median() / spread(theirs, of).median();
    let mut verdict = Verdict::cost(what, ratio(|t| t.wall), bar);
    verdict.by_cpu = Some(ratio(|t| t.cpu));
    let paired = Spread::of(ours.iter().zip(theirs).map(|(a, b)| a.wall / b.wall));
    verdict.range = Some((paired.low(), paired.high()));
    verdict
}

fn spread(timings: &[Timing], of: fn(&Timing) -> f64) -> Spread {
    Spread::of(timings.iter().map(of))
}

fn cells(timings: &[Timing]) -> String {
    let wall = spread(timings, |t| t.wall);
    let cpu = spread(timings, |t| t.cpu);
    format!(
        "{:.3} | {:.3} .. {:.3} | {:.3}",
        wall.median(),
        wall.low(),
        wall.high(),
        cpu.median()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_alternates() {
        assert_eq!(interleaved(3, 2).collect::<Vec<_>>(), [0, 1, 2, 2, 1, 0]);
    }
}
