//! Measures CountInt in a live server, side by side with what a user would use instead.
//!
//! `scripts/bench` builds the module and this driver and runs it. The driver starts its own servers on one core, plays a
//! pipelined client on another, and writes a report in Markdown with charts. A figure below its bar is reported, never an
//! error; a server that answers an error, or does not start, is one.
//!
//! | file | job |
//! |---|---|
//! | `options.rs`, `scale.rs` | the command line; how much the two kinds of run measure |
//! | `cpu.rs` | pinning to a core; CPU time from `/proc` |
//! | `server.rs`, `control.rs` | a server in a temporary directory; single commands sent to it |
//! | `resp.rs`, `client.rs` | counting replies without decoding them; a pipelined connection |
//! | `distribution.rs`, `numbers.rs` | which ids there are; which are asked for |
//! | `template.rs`, `scripts.rs` | commands encoded once, with the ids patched in; the Lua scripts that they call |
//! | `dataset.rs`, `setform.rs`, `rowset.rs` | what is loaded first; the ways to keep a set; the rows of tables |
//! | `workload.rs`, `workload/` | the table of comparisons and their bars |
//! | `rounds.rs`, `throughput.rs` | interleaved rounds; epochs of fresh processes |
//! | `tables.rs`, `speed.rs` | the sections of the comparisons; their charts |
//! | `memory.rs`, `entities.rs`, `rows.rs` | weighing data; bytes per entity, and per row of a table |
//! | `members.rs`, `members_report.rs` | bytes per member: weighing; tables, bars and chart |
//! | `stalls.rs`, `persistence.rs`, `tablesizes.rs` | the longest single command; snapshots; whole tables |
//! | `library.rs` | sets beside `BTreeSet`, without a server |
//! | `countd/` | the service: log, consumer, API |
//! | `stats.rs`, `chart.rs`, `svg.rs` | medians and spread; drawings |
//! | `machine.rs`, `method.rs`, `report.rs` | where it ran; how; the page |

use std::path::Path;
use std::process::ExitCode;

mod chart;
mod client;
mod control;
mod countd;
mod cpu;
mod dataset;
mod distribution;
mod entities;
mod library;
mod machine;
mod members;
mod members_report;
mod memory;
mod method;
mod numbers;
mod options;
mod persistence;
mod report;
mod resp;
mod rounds;
mod rows;
mod rowset;
mod scale;
mod scripts;
mod server;
mod setform;
mod speed;
mod stalls;
mod stats;
mod svg;
mod tables;
mod tablesizes;
mod template;
mod throughput;
mod workload;

use options::{Options, Request};
use report::{Report, Section};

/// Any failure: there is nobody to handle it but the person at the terminal.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let request = match Options::parse(std::env::args().skip(1)) {
        Ok(request) => request,
        Err(why) => {
            eprintln!("bench: {why}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let outcome = match request {
        Request::Help => {
            println!("{}", options::USAGE);
            Ok(())
        }
        Request::Run(options) => run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What is measured beside the comparisons: a name, a heading, and how.
type Measurement = (&'static str, &'static str, fn(&Options) -> Result<Section>);
const OTHERS: [Measurement; 8] = [
    (entities::NAME, entities::TITLE, entities::measure),
    (rows::NAME, rows::TITLE, rows::measure),
    (members::NAME, members::TITLE, members::measure),
    (library::NAME, library::TITLE, library::measure),
    (stalls::NAME, stalls::TITLE, stalls::measure),
    (persistence::NAME, persistence::TITLE, persistence::measure),
    (tablesizes::NAME, tablesizes::TITLE, tablesizes::measure),
    (countd::NAME, countd::TITLE, countd::measure),
];

/// Takes every measurement that was asked for and writes the report.
fn run(options: &Options) -> Result<()> {
    let started = std::time::Instant::now();
    let machine = machine::Machine::describe(options)?;
    cpu::pin_client()?;
    let mut sections = speed::sections(options)?;
    for (name, title, measure) in OTHERS {
        if options.wants(name) {
            eprintln!("bench: {title}");
            sections.push(measure(options)?);
        }
    }
    let report = Report { machine, sections };
    write(&report, options)?;
    print!("{}", report.summary());
    eprintln!(
        "bench: {} written, {:.0} s",
        options.out.display(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Writes the page, and its charts beside it.
fn write(report: &Report, options: &Options) -> Result<()> {
    let folder = options.out.parent().unwrap_or(Path::new("."));
    let charts = folder.join("charts");
    std::fs::create_dir_all(&charts)?;
    for chart in report.charts() {
        std::fs::write(charts.join(format!("{}.svg", chart.name)), &chart.svg)?;
    }
    std::fs::write(&options.out, report.to_markdown(options))
        .map_err(|e| format!("cannot write {}: {e}", options.out.display()).into())
}
