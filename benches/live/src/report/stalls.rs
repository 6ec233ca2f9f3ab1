//! The section on worst-case command latency.

use crate::measure::stalls::{CommandLatency, Percentiles, SLOWLOG_THRESHOLD_US};
use crate::report::check::{Check, Threshold};
use crate::report::section::Section;
use crate::report::table::Table;
use crate::workload::ids::short;

/// The name in `--only`.
pub const NAME: &str = "stalls";
/// The heading.
pub const TITLE: &str = "Worst-case command latency";

/// Maximum latency of a command in milliseconds.
const MAX_MS: f64 = 1.0;

/// Formats the latencies of commands that were sent `members` times a run.
pub fn section(all: &[CommandLatency], members: u64) -> Section {
    let n = short(members);
    let mut table = Table::new(&[
        "µs, run by run",
        "median",
        "99.99%",
        "maximum",
        "maximum of the same call in every run",
    ]);
    for latency in all {
        table.row(&[
            label(latency),
            per_run(latency, |p| p.p50),
            per_run(latency, |p| p.p9999),
            per_run(latency, |p| p.max),
            reproducible(latency),
        ]);
    }
    let check = |latency: &CommandLatency| {
        Check::absolute(
            format!("maximum of {n} {}", label(latency)),
            latency.reproducible_max() / 1_000.0,
            "ms",
            Threshold::AtMost(MAX_MS),
        )
    };
    let mut checks: Vec<Check> = all.iter().filter(|l| is_ours(l)).map(check).collect();
    checks.extend(set_checks(all));
    Section {
        title: TITLE.into(),
        body: format!(
            "A set grows to {n} members with one `ADD` each and shrinks to nothing with one `REM` each, in random order; a table \
             of five counters with one `CTAB.INCRBY` and one `CTAB.DEL` for each row. The server times every command itself \
             (`latency-tracking`; `INFO latencystats` with the percentiles 50, 99.99 and 100, to a microsecond and two digits), \
             so the latency includes neither the network nor the client. It does include preemption of the server's core: the \
             last row is a command whose work is constant. All runs send the same calls in the same order, and a call that is \
             slow because of its own work is slow in every run. So SLOWLOG records each call of at least {SLOWLOG_THRESHOLD_US} µs, and the last \
             column is the maximum over all calls of the minimum over the runs. The threshold ({MAX_MS} ms) applies to it.\n\n{}",
            table.finish()
        ),
        checks,
        ..Section::default()
    }
}

fn is_ours(latency: &CommandLatency) -> bool {
    latency.distribution.is_some() && !["sadd", "srem"].contains(&latency.command)
}

fn label(latency: &CommandLatency) -> String {
    let command = latency.command.to_uppercase();
    match latency.distribution {
        Some(distribution) => format!("{command}, {}", distribution.label()),
        None => format!("{command} of one counter (constant work)"),
    }
}

/// One value of each run, in microseconds.
fn per_run(latency: &CommandLatency, value: impl Fn(&Percentiles) -> f64) -> String {
    let values = latency.runs.iter().map(|run| value(&run.percentiles));
    let cells: Vec<String> = values.map(|v| format!("{v:.0}")).collect();
    cells.join(", ")
}

/// [`CommandLatency::reproducible_max`] as a cell; empty for a single run.
fn reproducible(latency: &CommandLatency) -> String {
    match latency.reproducible_max() {
        _ if latency.runs.len() < 2 => String::new(),
        max if max <= f64::from(SLOWLOG_THRESHOLD_US) => format!("under {SLOWLOG_THRESHOLD_US}"),
        max => format!("{max:.0}"),
    }
}

/// The ratios of an RBM of snowflakes to a Set of the same members.
fn set_checks(all: &[CommandLatency]) -> Vec<Check> {
    let find = |command| all.iter().find(|latency| latency.command == command);
    let ratio = |(ours, theirs)| {
        let (ours, theirs) = (find(ours)?, find(theirs)?);
        let what = format!("maximum of {} : maximum of {}", label(ours), label(theirs));
        let ratio = ours.reproducible_max() / theirs.reproducible_max();
        Some(Check::cost(what, ratio, None))
    };
    let pairs = [("rbm.add", "sadd"), ("rbm.rem", "srem")];
    pairs.into_iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ids::Distribution;

    #[test]
    fn thresholds_apply_to_our_growing_structures_only() {
        let latency = |command, distribution| CommandLatency {
            command,
            distribution,
            runs: Vec::new(),
        };
        let snowflake = Some(Distribution::Snowflake);
        let all = [
            latency("rbm.add", snowflake),
            latency("sadd", snowflake),
            latency("cint.set", None),
        ];
        let ours: Vec<bool> = all.iter().map(is_ours).collect();
        assert_eq!(ours, [true, false, false]);
        assert_eq!(label(&all[0]), "RBM.ADD, snowflake 64-bit ids");
    }
}
