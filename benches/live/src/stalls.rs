//! The longest single command while a set or a table grows, one member or row at a time, and while it shrinks again.
//!
//! The server times every command itself (`latency-tracking`, SLOWLOG), so neither the network nor the client is in the
//! figure. What else happens on the core is. So everything is done again, in the same order: the very same command is as
//! slow again if its own work is slow, and not if it was interrupted. A command that does the same each time is timed
//! beside it, too.

use std::collections::HashMap;
use std::fmt::Write;

use crate::Result;
use crate::control::Control;
use crate::dataset::{Sender, set_key};
use crate::distribution::{Distribution, FIRST_SET, short};
use crate::options::Options;
use crate::report::{Limit, Section, Verdict};
use crate::rowset::TABLE;
use crate::server::{Server, Workdir};
use crate::setform::SetForm;

/// What `--only` calls it.
pub const NAME: &str = "stalls";
/// Its heading.
pub const TITLE: &str = "The longest single command";

/// The most milliseconds that one may take.
const LONGEST: f64 = 1.0;
/// The quantiles that the server is asked for. The last is the longest.
const QUANTILES: &str = "50 99.99 100";
/// Commands that take this many microseconds are slow, and looked for in the next run: one in many thousand is.
const SLOW: u32 = 100;
/// The slow commands as lines of microseconds and words: the log's own reply is nested.
const SLOW_LINES: &str = "local lines = {} \
    for i, entry in ipairs(redis.call('SLOWLOG', 'GET', -1)) do lines[i] = entry[3]..' '..table.concat(entry[4], ' ') end \
    return table.concat(lines, '\\n')";

/// Microseconds of a command that was called millions of times.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Latency {
    median: f64,
    four_nines: f64,
    longest: f64,
}

/// One time that everything was done.
struct Run {
    latency: Latency,
    /// The slow calls, by their words, in microseconds. No two calls of a run have the same words.
    slow: HashMap<String, u32>,
}

/// A command and how long it took each time that everything was done.
struct Timed {
    /// As the server calls it.
    command: &'static str,
    what: String,
    ours: bool,
    runs: Vec<Run>,
}

/// Grows and shrinks sets, and describes how long it took.
pub fn measure(options: &Options) -> Result<Section> {
    let members = options.scale.grown_members;
    let mut timed = Vec::new();
    for distribution in [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(2 * members),
    ] {
        timed.extend(grow(
            SetForm::Rbm,
            distribution,
            options.scale.growths,
            options,
        )?);
    }
    // For orientation once is enough.
    timed.extend(grow(SetForm::Set, Distribution::Snowflake, 1, options)?);
    for distribution in [Distribution::Successive, Distribution::Snowflake] {
        timed.extend(grow_table(distribution, options)?);
    }
    timed.push(same_again(options)?);
    Ok(section(&timed, members))
}

/// Grows one set and shrinks it, `times` times, in a server of its own.
fn grow(
    form: SetForm,
    distribution: Distribution,
    times: usize,
    options: &Options,
) -> Result<[Timed; 2]> {
    let names = match form {
        SetForm::Rbm => ["rbm.add", "rbm.rem"],
        _ => ["sadd", "srem"],
    };
    let mut timed = names.map(|command| Timed {
        command,
        what: format!("{}, {}", command.to_uppercase(), distribution.label()),
        ours: form == SetForm::Rbm,
        runs: Vec::new(),
    });
    let dir = Workdir::new()?;
    let server = Server::start(options, &dir, form.module(options))?;
    let key = set_key(FIRST_SET);
    run(&server, &mut timed, times, options, |command, i| {
        let member = distribution.nth(i).to_string();
        vec![command.into(), key.clone(), member]
    })?;
    Ok(timed)
}

/// Grows one table by a row at a time, and shrinks it, in a server of its own.
fn grow_table(distribution: Distribution, options: &Options) -> Result<[Timed; 2]> {
    let mut timed = ["ctab.incrby", "ctab.del"].map(|command| Timed {
        command,
        what: format!("{}, {}", command.to_uppercase(), distribution.label()),
        ours: true,
        runs: Vec::new(),
    });
    let dir = Workdir::new()?;
    let server = Server::start(options, &dir, Some(&options.module))?;
    let times = options.scale.growths;
    run(&server, &mut timed, times, options, |command, i| {
        let mut words = vec![command.into(), TABLE.into()];
        words.push(distribution.nth(i).to_string());
        if command == "ctab.incrby" {
            words.extend([(i % 5).to_string(), "1".into()]);
        }
        words
    })?;
    Ok(timed)
}

/// Sends each command for every index, all of it `times` times, and notes how long the server took.
fn run(
    server: &Server,
    timed: &mut [Timed],
    times: usize,
    options: &Options,
    words: impl Fn(&str, u64) -> Vec<String>,
) -> Result<()> {
    let mut control = tracking(server)?;
    for _ in 0..times {
        for timed in &mut *timed {
            let mut sender = Sender::open(server)?;
            for i in 0..options.scale.grown_members {
                sender.push(&words(timed.command, i))?;
            }
            sender.finish()?;
            timed.runs.push(finished(&mut control, timed.command)?);
        }
    }
    Ok(())
}

/// As many calls of a command whose work never changes: what they take beyond the median is the machine's doing.
fn same_again(options: &Options) -> Result<Timed> {
    let mut timed = Timed {
        command: "cint.set",
        what: "CINT.SET of one counter (nothing grows: the machine's share)".into(),
        ours: false,
        runs: Vec::new(),
    };
    let dir = Workdir::new()?;
    let server = Server::start(options, &dir, Some(&options.module))?;
    let times = options.scale.growths;
    run(
        &server,
        std::slice::from_mut(&mut timed),
        times,
        options,
        |command, i| {
            [command, "cnt:v1:note:1000000", "0", &i.to_string()]
                .map(String::from)
                .to_vec()
        },
    )?;
    Ok(timed)
}

/// Has the server time every command, and note the slow ones.
fn tracking(server: &Server) -> Result<Control> {
    let mut control = server.control()?;
    control.call("CONFIG SET latency-tracking yes slowlog-max-len 1000000")?;
    control.call(&format!("CONFIG SET slowlog-log-slower-than {SLOW}"))?;
    let words = [
        "CONFIG",
        "SET",
        "latency-tracking-info-percentiles",
        QUANTILES,
    ];
    control.call_words(&words)?;
    Ok(control)
}

/// What the server has timed since it was last asked.
fn finished(control: &mut Control, command: &str) -> Result<Run> {
    let lines = control.call_words(&["EVAL", SLOW_LINES, "0"])?;
    control.call("SLOWLOG RESET")?;
    Ok(Run {
        latency: latency(control, command)?,
        slow: slow(&lines, command).ok_or("the server's log of slow commands is not understood")?,
    })
}

/// The calls of `command` among lines such as `120 rbm.add rbm:like:note:1 7`.
fn slow(lines: &str, command: &str) -> Option<HashMap<String, u32>> {
    let calls = lines.lines().map(|line| line.split_once(' '));
    calls
        .filter(|call| call.is_none_or(|(_, words)| words.split(' ').next() == Some(command)))
        .map(|call| call.and_then(|(micros, words)| Some((words.into(), micros.parse().ok()?))))
        .collect()
}

fn latency(control: &mut Control, command: &str) -> Result<Latency> {
    let line = control.info(
        "latencystats",
        &format!("latency_percentiles_usec_{command}"),
    )?;
    control.call("CONFIG RESETSTAT")?;
    parse(&line).ok_or_else(|| format!("the server's latencies are not understood: {line}").into())
}

/// `p50=0.001,p99.99=12.031,p100=80.383`
fn parse(line: &str) -> Option<Latency> {
    let mut values = line
        .split(',')
        .map(|pair| pair.split_once('=')?.1.parse().ok());
    let mut next = || values.next().flatten();
    Some(Latency {
        median: next()?,
        four_nines: next()?,
        longest: next()?,
    })
}

impl Timed {
    /// Each run's figure, in microseconds.
    fn all(&self, of: impl Fn(&Latency) -> f64) -> String {
        let figure = |run: &Run| format!("{:.0}", of(&run.latency));
        let figures: Vec<String> = self.runs.iter().map(figure).collect();
        figures.join(", ")
    }

    /// The longest call that was slow in every run, by its quickest run, in microseconds. Of one run only, its longest.
    /// [`SLOW`], which is more than it took, where no call was.
    fn longest(&self) -> f64 {
        match &self.runs[..] {
            [only] => only.latency.longest,
            [first, others @ ..] => {
                let each_time = first.slow.iter().filter_map(|(words, &micros)| {
                    let mut again = others.iter().map(|run| run.slow.get(words).copied());
                    again.try_fold(micros, |least, micros| Some(least.min(micros?)))
                });
                f64::from(each_time.max().unwrap_or(SLOW))
            }
            [] => f64::INFINITY,
        }
    }

    /// [`Timed::longest`] as a cell of the table.
    fn longest_each_time(&self) -> String {
        match self.longest() {
            _ if self.runs.len() < 2 => String::new(),
            longest if longest <= f64::from(SLOW) => format!("under {SLOW}"),
            longest => format!("{longest:.0}"),
        }
    }
}

fn section(timed: &[Timed], members: u64) -> Section {
    let n = short(members);
    let mut body = format!(
        "A set grows to {n} members with one `ADD` each and shrinks to nothing with one `REM` each, in scattered order; \
         a table of five counters with one `CTAB.INCRBY` and one `CTAB.DEL` for each row. The \
         server times every command itself (`latency-tracking`; `INFO latencystats` with the percentiles 50, 99.99 and 100, \
         to a microsecond and two digits), so neither the network nor the client is part of it. Whatever interrupts the \
         server's core is: the last line is a command whose work never changes. What a call takes for reasons of its \
         own it takes in every run, as all runs send the same calls in the same order. So SLOWLOG notes each that takes \
         {SLOW} µs, and the last column is the call of which the quickest run was longest. The bar ({LONGEST} ms) is held \
         against that where there are several runs.\n\n\
         | µs, run by run | median | 99.99% | longest | the same call, each time |\n|---|---|---|---|---|\n"
    );
    for timed in timed {
        let _ = writeln!(
            body,
            "| {} | {} | {} | {} | {} |",
            timed.what,
            timed.all(|r| r.median),
            timed.all(|r| r.four_nines),
            timed.all(|r| r.longest),
            timed.longest_each_time()
        );
    }
    let verdict = |timed: &Timed| Verdict {
        limit: Limit::AtMost(LONGEST),
        unit: "ms",
        loses: false,
        ..Verdict::cost(
            format!("longest of {n} {}", timed.what),
            timed.longest() / 1_000.0,
            None,
        )
    };
    let mut verdicts: Vec<Verdict> = timed.iter().filter(|t| t.ours).map(verdict).collect();
    verdicts.extend(against_set(timed));
    Section {
        title: TITLE.into(),
        body,
        verdicts,
        losses: Vec::new(),
        charts: Vec::new(),
    }
}

/// Snowflakes in an RBM against the same in a Set, for where we lose.
fn against_set(timed: &[Timed]) -> Vec<Verdict> {
    let of = |command| timed.iter().find(|t| t.command == command);
    let pairs = [("rbm.add", "sadd"), ("rbm.rem", "srem")];
    let ratio = |(ours, theirs)| {
        let (ours, theirs) = (of(ours)?, of(theirs)?);
        let what = format!("longest {} : longest {}", ours.what, theirs.what);
        Some(Verdict::cost(what, ours.longest() / theirs.longest(), None))
    };
    pairs.into_iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_line_is_understood() {
        assert_eq!(
            parse("p50=0.001,p99.99=12.031,p100=80.383"),
            Some(Latency {
                median: 0.001,
                four_nines: 12.031,
                longest: 80.383
            })
        );
        assert_eq!(parse("p50=1"), None);
        assert_eq!(parse("p50=1,p99.99=x,p100=2"), None);
    }

    #[test]
    fn the_slow_log_is_understood() {
        let lines = "120 rbm.add s 7\n300 eval return 0\n150 rbm.add s 9";
        let expected = HashMap::from([("rbm.add s 7".into(), 120), ("rbm.add s 9".into(), 150)]);
        assert_eq!(slow(lines, "rbm.add"), Some(expected));
        assert_eq!(slow("", "rbm.add"), Some(HashMap::new()));
        assert_eq!(slow("x rbm.add s 7", "rbm.add"), None);
        assert_eq!(slow("120", "rbm.add"), None);
    }

    fn timed(runs: &[(f64, &[(&str, u32)])]) -> Timed {
        let run = |(longest, slow): &(f64, &[(&str, u32)])| Run {
            latency: Latency {
                median: 1.0,
                four_nines: 2.0,
                longest: *longest,
            },
            slow: slow.iter().map(|&(words, us)| (words.into(), us)).collect(),
        };
        Timed {
            command: "rbm.add",
            what: "RBM.ADD".into(),
            ours: true,
            runs: runs.iter().map(run).collect(),
        }
    }

    #[test]
    fn one_interrupted_call_is_not_the_commands_doing() {
        let two = timed(&[
            (9_000.0, &[("a", 9_000), ("b", 400), ("c", 150)]),
            (700.0, &[("b", 350), ("d", 700), ("c", 160)]),
        ]);
        assert_eq!(two.longest(), 350.0);
        assert_eq!(two.all(|r| r.longest), "9000, 700");
        let none = timed(&[(9_000.0, &[("a", 9_000)]), (700.0, &[("d", 700)])]);
        assert_eq!(none.longest(), 100.0);
        assert_eq!(none.longest_each_time(), "under 100");
    }

    #[test]
    fn one_run_alone_is_taken_at_its_word() {
        let one = timed(&[(9_000.0, &[("a", 9_000)])]);
        assert_eq!(one.longest(), 9_000.0);
        assert_eq!(one.longest_each_time(), "");
    }
}
