//! Measures CountInt in a live server, side by side with what a user would use instead.
//!
//! `scripts/bench` builds the module and this driver and runs it. The driver starts its own redis-server on one core,
//! plays a pipelined client on another, and writes a report in Markdown. A figure below its bar is reported, never an
//! error; a server that answers an error, or does not start, is one.
//!
//! | file | job |
//! |---|---|
//! | `options.rs` | the command line, and how long the two kinds of run take |
//! | `cpu.rs` | pinning to a core; CPU time from `/proc` |
//! | `server.rs`, `control.rs` | a server in a temporary directory; single commands sent to it |
//! | `resp.rs`, `client.rs` | counting replies without decoding them; a pipelined connection |
//! | `template.rs`, `numbers.rs` | commands encoded once, with the ids patched in; which ids |
//! | `dataset.rs`, `workload.rs` | what is loaded first; the table of comparisons and their bars |
//! | `rounds.rs`, `stats.rs` | interleaved rounds; medians and spread |
//! | `throughput.rs`, `memory.rs`, `persistence.rs` | the three kinds of measurement, each to a section of the report |
//! | `machine.rs`, `report.rs` | where it ran; the page |

use std::process::ExitCode;

mod client;
mod control;
mod cpu;
mod dataset;
mod machine;
mod memory;
mod numbers;
mod options;
mod persistence;
mod report;
mod resp;
mod rounds;
mod server;
mod stats;
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

/// Takes every measurement that was asked for and writes the report.
fn run(options: &Options) -> Result<()> {
    let started = std::time::Instant::now();
    let machine = machine::Machine::describe(options)?;
    cpu::pin_client()?;
    let mut sections: Vec<Section> = Vec::new();
    for comparison in workload::COMPARISONS {
        if options.wants(comparison.name) {
            eprintln!("bench: {}", comparison.title);
            sections.push(throughput::measure(comparison, options)?);
        }
    }
    if options.wants(memory::NAME) {
        eprintln!("bench: {}", memory::TITLE);
        sections.push(memory::measure(options)?);
    }
    if options.wants(persistence::NAME) {
        eprintln!("bench: {}", persistence::TITLE);
        sections.push(persistence::measure(options)?);
    }
    let report = Report { machine, sections };
    if let Some(folder) = options.out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&options.out, report.to_markdown(options))
        .map_err(|e| format!("cannot write {}: {e}", options.out.display()))?;
    print!("{}", report.summary());
    eprintln!(
        "bench: {} written, {:.0} s",
        options.out.display(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
