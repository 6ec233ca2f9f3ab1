//! Worst-case command latency while a set or a table grows and shrinks by one member or row at a time.
//!
//! The server times every command itself (`latency-tracking`, SLOWLOG), so the latency includes neither the network nor the
//! client, but it does include preemption. Therefore several runs send the same commands in the same order: a command that
//! is slow because of its own work is slow in every run, a preempted one is not. A command whose work is constant is timed
//! for reference.

use std::collections::HashMap;
use std::path::Path;

use crate::driver::connection::BulkWriter;
use crate::driver::control::Control;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::workload::dataset::set_key;
use crate::workload::ids::{Distribution, FIRST_SET};
use crate::workload::scale::Scale;
use crate::workload::set_kind::SetKind;
use crate::workload::table::TABLE;

/// The percentiles that the server reports. The last is the maximum.
const PERCENTILES: &str = "50 99.99 100";
/// The SLOWLOG threshold in microseconds. About one in several thousand commands exceeds it.
pub const SLOWLOG_THRESHOLD_US: u32 = 100;
/// Converts SLOWLOG's nested reply to lines of microseconds and words.
const SLOW_LINES: &str = "local lines = {} \
    for i, entry in ipairs(redis.call('SLOWLOG', 'GET', -1)) do lines[i] = entry[3]..' '..table.concat(entry[4], ' ') end \
    return table.concat(lines, '\\n')";

/// Latency percentiles of a command, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 99.99 %.
    pub p9999: f64,
    /// The maximum.
    pub max: f64,
}

/// One run.
pub struct Run {
    /// The latency of all calls.
    pub percentiles: Percentiles,
    /// The slow calls, in microseconds, by their words, which are unique in a run.
    slow: HashMap<String, u32>,
}

/// The latency of a command in each run.
pub struct CommandLatency {
    /// Its name in lower case, as the server reports it.
    pub command: &'static str,
    /// The ids of the members or rows. `None` for the command whose work is constant.
    pub distribution: Option<Distribution>,
    /// The runs.
    pub runs: Vec<Run>,
}

/// Grows and shrinks sets and tables.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<CommandLatency>> {
    let members = scale.latency_members;
    let mut all = Vec::new();
    for distribution in [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(2 * members),
    ] {
        all.extend(grow_set(SetKind::Rbm, distribution, programs, scale)?);
    }
    // One run of the Set is enough for reference.
    let once = Scale {
        latency_runs: 1,
        ..*scale
    };
    all.extend(grow_set(
        SetKind::Set,
        Distribution::Snowflake,
        programs,
        &once,
    )?);
    for distribution in [Distribution::Successive, Distribution::Snowflake] {
        all.extend(grow_table(distribution, programs, scale)?);
    }
    all.push(constant_work(programs, scale)?);
    Ok(all)
}

/// Grows one set and shrinks it.
fn grow_set(
    kind: SetKind,
    distribution: Distribution,
    programs: &Programs,
    scale: &Scale,
) -> Result<[CommandLatency; 2]> {
    let names = match kind {
        SetKind::Rbm => ["rbm.add", "rbm.rem"],
        _ => ["sadd", "srem"],
    };
    let mut timed = names.map(|command| CommandLatency::new(command, distribution));
    let key = set_key(FIRST_SET);
    run(
        kind.module(programs),
        &mut timed,
        programs,
        scale,
        |command, i| {
            let member = distribution.nth(i).to_string();
            vec![command.into(), key.clone(), member]
        },
    )?;
    Ok(timed)
}

/// Grows one table by a row at a time, and shrinks it.
fn grow_table(
    distribution: Distribution,
    programs: &Programs,
    scale: &Scale,
) -> Result<[CommandLatency; 2]> {
    let mut timed =
        ["ctab.incrby", "ctab.del"].map(|command| CommandLatency::new(command, distribution));
    let module = Some(programs.module.as_path());
    run(module, &mut timed, programs, scale, |command, i| {
        let mut words = vec![command.into(), TABLE.into()];
        words.push(distribution.nth(i).to_string());
        if command == "ctab.incrby" {
            words.extend([(i % 5).to_string(), "1".into()]);
        }
        words
    })?;
    Ok(timed)
}

/// Runs a command whose work is constant. Its tail latency is caused by the machine alone.
fn constant_work(programs: &Programs, scale: &Scale) -> Result<CommandLatency> {
    let mut timed = CommandLatency {
        command: "cint.set",
        distribution: None,
        runs: Vec::new(),
    };
    let module = Some(programs.module.as_path());
    let only = std::slice::from_mut(&mut timed);
    run(module, only, programs, scale, |command, i| {
        [command, "cnt:v1:note:1000000", "0", &i.to_string()]
            .map(String::from)
            .to_vec()
    })?;
    Ok(timed)
}

/// Starts a server and records the latencies of `scale.latency_runs` runs. A run sends each command for every index.
fn run(
    module: Option<&Path>,
    timed: &mut [CommandLatency],
    programs: &Programs,
    scale: &Scale,
    words: impl Fn(&str, u64) -> Vec<String>,
) -> Result<()> {
    let dir = Workdir::new()?;
    let server = Server::start(programs, &dir, module)?;
    let mut control = start_tracking(&server)?;
    for _ in 0..scale.latency_runs {
        for timed in &mut *timed {
            let mut writer = BulkWriter::open(server.port())?;
            for i in 0..scale.latency_members {
                writer.push(&words(timed.command, i))?;
            }
            writer.finish()?;
            timed.runs.push(take_run(&mut control, timed.command)?);
        }
    }
    Ok(())
}

/// Makes the server time all commands and log the slow ones.
fn start_tracking(server: &Server) -> Result<Control> {
    let mut control = server.control()?;
    control.call("CONFIG SET latency-tracking yes slowlog-max-len 1000000")?;
    control.call(&format!(
        "CONFIG SET slowlog-log-slower-than {SLOWLOG_THRESHOLD_US}"
    ))?;
    let words = [
        "CONFIG",
        "SET",
        "latency-tracking-info-percentiles",
        PERCENTILES,
    ];
    control.call_words(&words)?;
    Ok(control)
}

/// Reads the latencies of a command and resets the statistics.
fn take_run(control: &mut Control, command: &str) -> Result<Run> {
    let lines = control.call_words(&["EVAL", SLOW_LINES, "0"])?;
    control.call("SLOWLOG RESET")?;
    Ok(Run {
        percentiles: percentiles(control, command)?,
        slow: parse_slow(&lines, command).ok_or("cannot parse the server's SLOWLOG")?,
    })
}

/// The calls of `command` among lines such as `120 rbm.add rbm:like:note:1 7`.
fn parse_slow(lines: &str, command: &str) -> Option<HashMap<String, u32>> {
    let calls = lines.lines().map(|line| line.split_once(' '));
    calls
        .filter(|call| call.is_none_or(|(_, words)| words.split(' ').next() == Some(command)))
        .map(|call| call.and_then(|(micros, words)| Some((words.into(), micros.parse().ok()?))))
        .collect()
}

fn percentiles(control: &mut Control, command: &str) -> Result<Percentiles> {
    let line = control.info(
        "latencystats",
        &format!("latency_percentiles_usec_{command}"),
    )?;
    control.call("CONFIG RESETSTAT")?;
    parse_percentiles(&line)
        .ok_or_else(|| format!("cannot parse the server's latencies: {line}").into())
}

/// `p50=0.001,p99.99=12.031,p100=80.383`
fn parse_percentiles(line: &str) -> Option<Percentiles> {
    let mut values = line
        .split(',')
        .map(|pair| pair.split_once('=')?.1.parse().ok());
    let mut next = || values.next().flatten();
    Some(Percentiles {
        p50: next()?,
        p9999: next()?,
        max: next()?,
    })
}

impl CommandLatency {
    fn new(command: &'static str, distribution: Distribution) -> CommandLatency {
        CommandLatency {
            command,
            distribution: Some(distribution),
            runs: Vec::new(),
        }
    }

    /// The maximum over all calls of the minimum over the runs, in microseconds: the slowest call without the effects of
    /// preemption. With one run, its maximum; [`SLOWLOG_THRESHOLD_US`] if no call was slow in every run.
    pub fn reproducible_max(&self) -> f64 {
        match &self.runs[..] {
            [only] => only.percentiles.max,
            [first, others @ ..] => {
                let in_every_run = first.slow.iter().filter_map(|(words, &micros)| {
                    let mut again = others.iter().map(|run| run.slow.get(words).copied());
                    again.try_fold(micros, |min, micros| Some(min.min(micros?)))
                });
                f64::from(in_every_run.max().unwrap_or(SLOWLOG_THRESHOLD_US))
            }
            [] => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_parsed() {
        assert_eq!(
            parse_percentiles("p50=0.001,p99.99=12.031,p100=80.383"),
            Some(Percentiles {
                p50: 0.001,
                p9999: 12.031,
                max: 80.383
            })
        );
        assert_eq!(parse_percentiles("p50=1"), None);
        assert_eq!(parse_percentiles("p50=1,p99.99=x,p100=2"), None);
    }

    #[test]
    fn the_slow_log_is_parsed() {
        let lines = "120 rbm.add s 7\n300 eval return 0\n150 rbm.add s 9";
        let expected = HashMap::from([("rbm.add s 7".into(), 120), ("rbm.add s 9".into(), 150)]);
        assert_eq!(parse_slow(lines, "rbm.add"), Some(expected));
        assert_eq!(parse_slow("", "rbm.add"), Some(HashMap::new()));
        assert_eq!(parse_slow("x rbm.add s 7", "rbm.add"), None);
        assert_eq!(parse_slow("120", "rbm.add"), None);
    }

    fn latency(runs: &[(f64, &[(&str, u32)])]) -> CommandLatency {
        let run = |(max, slow): &(f64, &[(&str, u32)])| Run {
            percentiles: Percentiles {
                p50: 1.0,
                p9999: 2.0,
                max: *max,
            },
            slow: slow.iter().map(|&(words, us)| (words.into(), us)).collect(),
        };
        CommandLatency {
            runs: runs.iter().map(run).collect(),
            ..CommandLatency::new("rbm.add", Distribution::Sparse)
        }
    }

    #[test]
    fn a_call_that_is_slow_in_one_run_only_is_ignored() {
        let two = latency(&[
            (9_000.0, &[("a", 9_000), ("b", 400), ("c", 150)]),
            (700.0, &[("b", 350), ("d", 700), ("c", 160)]),
        ]);
        assert_eq!(two.reproducible_max(), 350.0);
        let none = latency(&[(9_000.0, &[("a", 9_000)]), (700.0, &[("d", 700)])]);
        assert_eq!(none.reproducible_max(), 100.0);
    }

    #[test]
    fn the_maximum_of_a_single_run_is_used_as_it_is() {
        let one = latency(&[(9_000.0, &[("a", 9_000)])]);
        assert_eq!(one.reproducible_max(), 9_000.0);
    }
}
