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
use crate::server::{Server, Workdir};
use crate::stats::Spread;
use crate::{Result, cpu};

/// What `--only` calls it.
pub const NAME: &str = "persistence";
/// Its heading.
pub const TITLE: &str = "Snapshots";

/// Ours first.
const KINDS: [Form; 2] = [Form::CountInt, Form::Hash];
/// The most of the Hashes' time that saving and loading may take.
const SAVE_BAR: f64 = 1.0;
const LOAD_BAR: f64 = 1.25;

/// Elapsed and CPU seconds of one save or load.
struct Timing {
    wall: f64,
    cpu: f64,
}

/// A kind's data set on disk and what was measured with it.
struct Subject {
    data: DataSet,
    dir: Workdir,
    saves: Vec<Timing>,
    loads: Vec<Timing>,
}

/// Saves and loads each kind in turn, several times.
pub fn measure(options: &Options) -> Result<Section> {
    let mut subjects = Vec::new();
    let mut servers = Vec::new();
    for kind in KINDS {
        let dir = Workdir::new()?;
        let data = DataSet::Objects(kind, options.scale.objects);
        servers.push(data.start(options, &dir)?);
        subjects.push(Subject {
            data,
            dir,
            saves: Vec::new(),
            loads: Vec::new(),
        });
    }
    for i in interleaved(options.scale.saves) {
        subjects[i].saves.push(save(&servers[i])?);
    }
    drop(servers);
    for i in interleaved(options.scale.saves) {
        let timing = load(options, &subjects[i])?;
        subjects[i].loads.push(timing);
    }
    section(&subjects, options)
}

/// 0 1, 1 0, 0 1 ... `repeats` times.
fn interleaved(repeats: usize) -> impl Iterator<Item = usize> {
    (0..repeats).flat_map(|repeat| if repeat % 2 == 0 { [0, 1] } else { [1, 0] })
}

/// Has a snapshot written and watches the child that does it.
fn save(server: &Server) -> Result<Timing> {
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

/// Starts a server on a snapshot.
fn load(options: &Options, subject: &Subject) -> Result<Timing> {
    let server = Server::start(options, &subject.dir, subject.data.module(options))?;
    let cpu = server.cpu_ns()? as f64 / 1e9;
    let loaded: u64 = server.control()?.call("DBSIZE")?.parse()?;
    let saved = options.scale.objects;
    if loaded != saved {
        return Err(format!("{loaded} objects were loaded, not {saved}").into());
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
         Two servers, one for each kind, of which only one works at a time; snapshots are interleaved, and so are restarts. \
         CPU seconds are the child's for BGSAVE, and the whole start's for loading.\n\n\
         | | BGSAVE, s | quartiles | CPU, s | load, s | quartiles | CPU, s | file, MB |\n|---|---|---|---|---|---|---|---|\n",
        short(options.scale.objects)
    );
    for subject in subjects {
        let size = std::fs::metadata(subject.dir.file("dump.rdb"))?.len() as f64 / 1e6;
        let _ = writeln!(
            body,
            "| {} | {} | {} | {size:.1} |",
            subject.data.label(),
            cells(&subject.saves),
            cells(&subject.loads)
        );
    }
    let [ours, theirs] = subjects else {
        return Err("two kinds are compared".into());
    };
    let verdicts = vec![
        verdict(
            "BGSAVE, CountInt : Hash",
            &ours.saves,
            &theirs.saves,
            SAVE_BAR,
        ),
        verdict(
            "load, CountInt : Hash",
            &ours.loads,
            &theirs.loads,
            LOAD_BAR,
        ),
    ];
    Ok(Section {
        title: TITLE.into(),
        body,
        verdicts,
        losses: Vec::new(),
        charts: Vec::new(),
    })
}

fn verdict(what: &str, ours: &[Timing], theirs: &[Timing], bar: f64) -> Verdict {
    let ratio = |of| spread(ours, of).median() / spread(theirs, of).median();
    let mut verdict = Verdict::cost(what.into(), ratio(|t| t.wall), Some(bar));
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
        assert_eq!(interleaved(3).collect::<Vec<_>>(), [0, 1, 1, 0, 0, 1]);
    }
}
