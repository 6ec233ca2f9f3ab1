//! Measures CountInt in a live server and compares it with the Redis types, scripts and modules that it replaces.
//!
//! `scripts/bench` builds the module and this program and runs it. It starts its own servers on one core, acts as a pipelined
//! client on another, and writes a report in Markdown with charts and figures. A value beyond its regression threshold is
//! reported and does not fail the run; a server that does not start or replies with an error does, after the other sections were
//! measured and written to the page of partial runs.
//!
//! The layers, each of which uses only those before it:
//!
//! | layer | task |
//! |---|---|
//! | `error` | the error type |
//! | `driver` | server processes, RESP and HTTP clients, CPU pinning and accounting |
//! | `workload` | which commands on which data |
//! | `measure` | throughput, memory, latency, snapshots, countd |
//! | `report` | tables, charts, thresholds, figures, the page |
//! | `sections` | connects each measurement with its section of the page |
//! | `options` | the command line |

use std::path::Path;
use std::process::ExitCode;

mod driver;
mod error;
mod measure;
mod options;
mod report;
mod sections;
mod workload;

use driver::cpu;
use driver::idle::AwakeCores;
use error::Result;
use options::Options;
use report::machine::Machine;
use report::method;
use report::page::Report;
use report::update::Earlier;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os()) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Takes the selected measurements and writes the report.
fn run(options: &Options) -> Result<()> {
    let started = std::time::Instant::now();
    let (programs, scale) = (&options.programs, &options.scale);
    sections::check(programs, |name| options.wants(name))?;
    let _awake = AwakeCores::new();
    let machine = Machine::describe(programs)?;
    // A report that cannot be updated is found before the measurements, not after them.
    let earlier = match options.update {
        true => Some(Earlier::read(&options.out)?),
        false => None,
    };
    cpu::pin_client()?;
    let (sections, failed) = sections::measure(programs, scale, |name| options.wants(name))?;
    let report = Report {
        quick: options.quick,
        warning: machine.warning(),
        method: method::section(programs, scale, &options.command_line()),
        machine: machine.to_markdown(),
        sections,
    };
    // The page that others read has all sections or is not written. Sections that failed are not replaced.
    let out = match failed {
        1.. if !options.update => Path::new(options::PARTIAL_PAGE),
        _ => &options.out,
    };
    match earlier {
        Some(earlier) => {
            let run = machine.line(&options.command_line());
            write_report(out, &earlier.updated(&report, &run)?)?;
        }
        None => write(&report, out)?,
    }
    print!("{}", report.terminal_summary());
    eprintln!(
        "bench: {} written, {:.0} s",
        out.display(),
        started.elapsed().as_secs_f64()
    );
    if failed > 0 {
        let missing = match options.update {
            true => "are as before in",
            false => "are not in",
        };
        return Err(format!("{failed} sections failed and {missing} {}", out.display()).into());
    }
    Ok(())
}

/// Writes the page, its charts and its figures.
fn write(report: &Report, out: &Path) -> Result<()> {
    let charts = out.parent().unwrap_or(Path::new(".")).join("charts");
    std::fs::create_dir_all(&charts)?;
    for chart in report.charts() {
        write_file(&charts.join(format!("{}.svg", chart.name)), &chart.svg)?;
    }
    write_report(out, &(report.to_markdown(), report.figures().to_json()?))
}

/// Writes the page and its figures.
fn write_report(out: &Path, (page, figures): &(String, String)) -> Result<()> {
    write_file(&out.with_extension("json"), figures)?;
    write_file(out, page)
}

fn write_file(path: &Path, content: &str) -> Result<()> {
    std::fs::write(path, content)
        .map_err(|e| format!("cannot write {}: {e}", path.display()).into())
}
