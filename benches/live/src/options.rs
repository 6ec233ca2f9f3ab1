//! The command line and the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::driver::programs::Programs;
use crate::sections;
use crate::workload::scale::Scale;

/// The page that a full run writes.
const PAGE: &str = "docs/benchmarks.md";
/// The page that any other run writes.
pub const PARTIAL_PAGE: &str = "target/benchmarks-partial.md";

/// Measures CountInt and the Redis types, scripts and modules that it replaces in live servers, and writes a report.
#[derive(Parser)]
#[command(name = "scripts/bench", disable_version_flag = true)]
struct Arguments {
    /// A short run (under three minutes), not for publication
    #[arg(long)]
    quick: bool,

    /// Measure only this; may be given more than once.
    ///
    /// Many keys: control, incrby, batchincr, dump, mread, apply.
    /// Few keys: hot-incrby, hot-batchincr.
    /// Rows of a table: ctab-incrby, ctab-batchincr, ctab-mread, ctab-page.
    /// Sets: contains, add, mark, mmark; or a single comparison such as contains-snowflake-one
    /// (snowflake, sparse or dense; one, many or ints), contains-successive.
    /// Memory: entities, rows, members.
    /// Others: library (without a server), stalls, persistence, table-sizes, countd, countd-hot,
    /// countd-split, countd-prefilter, countd-cluster, countd-ack, countd-bytes,
    /// countd-reconcile, countd-replay, countd-relay, countd-kafka, countd-sizing, countd-sizing-cluster.
    /// With --quick, countd-cluster, countd-kafka and countd-sizing-cluster are measured only if named.
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    only: Vec<String>,

    /// Replaces the sections of --only in the report of an earlier run, and keeps the others; only for those on countd
    #[arg(long, requires = "only", conflicts_with = "quick")]
    update: bool,

    /// The file of the report [default: docs/benchmarks.md, or target/benchmarks-partial.md with --quick, or with --only and not --update]
    ///
    /// Charts are written to charts/ and figures to a .json file in the same directory.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// The server under test, with leading arguments if needed
    #[arg(
        long,
        value_name = "COMMAND",
        env = "COUNTINT_SERVER",
        default_value = "redis-server"
    )]
    server: String,

    /// The module under test
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTINT_MODULE",
        default_value = "target/release/libcountint.so"
    )]
    module: PathBuf,

    /// The plain module of benches/floor
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTINT_BENCH_FLOOR",
        default_value = "target/release/libcountint_floor.so"
    )]
    floor: PathBuf,

    /// The executable of countd
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTINT_BENCH_COUNTD",
        default_value = "target/release/countd"
    )]
    countd: PathBuf,
    /// The executable of the example bare_axum of countd
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTINT_BENCH_BARE",
        default_value = "target/release/examples/bare_axum"
    )]
    bare: PathBuf,

    /// The executable of the example hot_cost of countd
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTINT_BENCH_HOT_COST",
        default_value = "target/release/examples/hot_cost"
    )]
    hot_cost: PathBuf,

    /// The jars of Kafka: the directory that scripts/kafka prints
    #[arg(long, value_name = "DIRECTORY", env = "COUNTINT_KAFKA")]
    kafka: Option<PathBuf>,

    /// redis-roaring, to measure it too
    #[arg(long, value_name = "FILE", env = "COUNTINT_BENCH_ROARING")]
    roaring: Option<PathBuf>,

    /// RedisBloom, to measure its cuckoo filter too
    #[arg(long, value_name = "FILE", env = "COUNTINT_BENCH_BLOOM")]
    bloom: Option<PathBuf>,
}

/// The settings of a run.
pub struct Options {
    /// Whether it is a short run.
    pub quick: bool,
    /// Whether sections of an earlier report are replaced.
    pub update: bool,
    /// The file of the report.
    pub out: PathBuf,
    /// The programs to run.
    pub programs: Programs,
    /// The sizes and durations.
    pub scale: Scale,
    /// The names of the selected sections; empty for all.
    only: Vec<String>,
}

impl Options {
    /// Parses the arguments (the program's name first) and the environment.
    pub fn parse(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Options, clap::Error> {
        let arguments = Arguments::try_parse_from(arguments)?;
        let partial = arguments.quick || (!arguments.only.is_empty() && !arguments.update);
        let page = if partial { PARTIAL_PAGE } else { PAGE };
        let server = arguments.server.split_whitespace().map(String::from);
        let options = Options {
            quick: arguments.quick,
            update: arguments.update,
            out: arguments.out.unwrap_or_else(|| page.into()),
            programs: Programs {
                server: server.collect(),
                module: arguments.module,
                floor: arguments.floor,
                countd: arguments.countd,
                bare: arguments.bare,
                hot_cost: arguments.hot_cost,
                kafka: arguments.kafka,
                roaring: arguments.roaring,
                bloom: arguments.bloom,
            },
            scale: if arguments.quick {
                Scale::quick()
            } else {
                Scale::full()
            },
            only: arguments.only,
        };
        let known = |name: &&String| sections::is_known(name, &options.programs, &options.scale);
        let invalid = |message| Err(Arguments::command().error(ErrorKind::InvalidValue, message));
        if let Some(name) = options.only.iter().find(|name| !known(name)) {
            return invalid(format!("--only does not know the measurement '{name}'"));
        }
        let other = |name: &&String| !sections::can_be_replaced(name);
        match options.only.iter().find(other) {
            Some(name) if options.update => invalid(format!(
                "--update replaces sections on countd only, not '{name}'"
            )),
            _ => Ok(options),
        }
    }

    /// Whether the section or group `name` is selected.
    pub fn wants(&self, name: &str) -> bool {
        match self.only.is_empty() {
            true => !(self.quick && sections::takes_long(name)),
            false => self.only.iter().any(|n| n == name),
        }
    }

    /// The command line that repeats this run.
    pub fn command_line(&self) -> String {
        let mut line = String::new();
        for (name, file) in [
            ("COUNTINT_BENCH_ROARING", &self.programs.roaring),
            ("COUNTINT_BENCH_BLOOM", &self.programs.bloom),
        ] {
            if let Some(file) = file.as_deref().and_then(Path::file_name) {
                line.push_str(&format!("{name}={} ", file.to_string_lossy()));
            }
        }
        line.push_str("scripts/bench");
        if self.quick {
            line.push_str(" --quick");
        }
        if self.update {
            line.push_str(" --update");
        }
        for name in &self.only {
            line.push_str(&format!(" --only {name}"));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::comparisons;

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::parse([&["bench"], arguments].concat())
    }

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn only_a_full_run_writes_the_published_page() {
        let out = |arguments: &[&str]| parse(arguments).unwrap().out;
        assert_eq!(out(&[]), PathBuf::from(PAGE));
        assert_eq!(out(&["--quick"]), PathBuf::from(PARTIAL_PAGE));
        assert_eq!(out(&["--only", "dump"]), PathBuf::from(PARTIAL_PAGE));
        assert_eq!(out(&["--quick", "--out", "x.md"]), PathBuf::from("x.md"));
    }

    #[test]
    fn only_selects() {
        let options = parse(&["--only", "dump", "--only", "members"]).unwrap();
        assert!(options.wants("dump") && options.wants("members") && !options.wants("incrby"));
        assert!(parse(&[]).unwrap().wants("incrby"));
        let wants_kafka = |arguments: &[&str]| parse(arguments).unwrap().wants("countd-kafka");
        assert!(wants_kafka(&[]) && wants_kafka(&["--quick", "--only", "countd-kafka"]));
        assert!(!wants_kafka(&["--quick"]));
    }

    #[test]
    fn a_name_or_a_group_selects_comparisons() {
        let stages = |arguments: &[&str]| {
            let options = parse(arguments).unwrap();
            comparisons::stages(&options.programs, &options.scale, |c| {
                options.wants(&c.name) || options.wants(c.group)
            })
        };
        assert_eq!(
            stages(&["--only", "contains-snowflake-one", "--only", "mark"]).len(),
            2
        );
        assert_eq!(stages(&["--only", "contains"]).len(), 10);
    }

    #[test]
    fn the_help_names_every_group() {
        let help = Arguments::command().render_long_help().to_string();
        for comparison in comparisons::all(&Programs::for_test(), &Scale::full()) {
            assert!(help.contains(comparison.group), "{}", comparison.group);
        }
    }

    #[test]
    fn the_command_line_repeats_the_run() {
        let options = parse(&["--roaring", "/x/r.so", "--bloom", "b.so", "--quick"]).unwrap();
        assert_eq!(
            options.command_line(),
            "COUNTINT_BENCH_ROARING=r.so COUNTINT_BENCH_BLOOM=b.so scripts/bench --quick"
        );
    }

    #[test]
    fn the_server_may_have_leading_arguments() {
        let options = parse(&["--server", "valgrind -q redis-server"]).unwrap();
        assert_eq!(options.programs.server, ["valgrind", "-q", "redis-server"]);
    }

    #[test]
    fn mistakes_are_refused() {
        for arguments in [
            &["--only"][..],
            &["--only", "nothing"],
            &["--only", "one"],
            &["--update"],
            &["--update", "--only", "members"],
            &["--update", "--quick", "--only", "countd"],
            &["--out"],
            &["--fast"],
        ] {
            assert!(parse(arguments).is_err(), "{arguments:?}");
        }
    }
}
