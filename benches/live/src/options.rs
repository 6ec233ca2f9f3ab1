//! The command line and the environment.

use std::path::{Path, PathBuf};

use crate::scale::Scale;
use crate::{countd, entities, library, members, persistence, rows, stalls, tablesizes, workload};

/// What `--help` prints.
pub const USAGE: &str = "\
usage: scripts/bench [--quick] [--only NAME] [--out FILE]

  --quick      a short run (under three minutes): figures to look at, not to quote
  --only NAME  only this measurement; may be given more than once:
               control, incrby, batchincr, dump, mread, apply (many keys);
               hot-incrby, hot-batchincr (few keys);
               ctab-incrby, ctab-batchincr, ctab-mread (rows of a table);
               contains, add (sets; or one of them, as contains-snowflake-one: snowflake, sparse or dense;
               one key, many, or ints, an intset raised; contains-successive), mark;
               entities, rows, members (memory); library (without a server); stalls; persistence; table-sizes;
               countd
  --out FILE   where the report goes; default docs/benchmarks.md, or
               target/benchmarks-partial.md with --quick or --only. Charts go to charts/ beside it

COUNTINT_MODULE names another module file, COUNTINT_SERVER another server than the one on the PATH.
COUNTINT_BENCH_ROARING and COUNTINT_BENCH_BLOOM name the files of redis-roaring and RedisBloom, to measure them too.";

/// What the command line asks for.
pub enum Request {
    /// Print the usage.
    Help,
    /// Measure.
    Run(Box<Options>),
}

/// The settings of one run.
pub struct Options {
    /// A short run.
    pub quick: bool,
    /// Names of the measurements wanted; empty for all.
    pub only: Vec<String>,
    /// Where the report goes.
    pub out: PathBuf,
    /// The module under test.
    pub module: PathBuf,
    /// The module that does the least.
    pub floor: PathBuf,
    /// The service's executable.
    pub countd: PathBuf,
    /// The server's executable, with leading words if need be.
    pub server: Vec<String>,
    /// The file of redis-roaring, if it is to be measured.
    pub roaring: Option<PathBuf>,
    /// The file of RedisBloom, if it is to be measured.
    pub bloom: Option<PathBuf>,
    /// How much is measured.
    pub scale: Scale,
}

impl Options {
    /// Reads the arguments (without the program's name) and the environment.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Request, String> {
        let mut args = args;
        let mut quick = false;
        let mut only = Vec::new();
        let mut out = None;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => quick = true,
                "--only" => only.push(args.next().ok_or("--only needs a name")?),
                "--out" => out = Some(PathBuf::from(args.next().ok_or("--out needs a file")?)),
                "--help" | "-h" => return Ok(Request::Help),
                other => return Err(format!("unknown argument {other}")),
            }
        }
        let partial = quick || !only.is_empty();
        let page = if partial {
            "target/benchmarks-partial.md"
        } else {
            "docs/benchmarks.md"
        };
        let options = Options {
            quick,
            only,
            out: out.unwrap_or_else(|| PathBuf::from(page)),
            module: file_from("COUNTINT_MODULE")
                .unwrap_or_else(|| "target/release/libcountint.so".into()),
            floor: file_from("COUNTINT_BENCH_FLOOR")
                .unwrap_or_else(|| "target/release/libcountint_floor.so".into()),
            countd: file_from("COUNTINT_BENCH_COUNTD")
                .unwrap_or_else(|| "target/release/countd".into()),
            server: server_words(),
            roaring: file_from("COUNTINT_BENCH_ROARING"),
            bloom: file_from("COUNTINT_BENCH_BLOOM"),
            scale: if quick { Scale::quick() } else { Scale::full() },
        };
        match options.only.iter().find(|name| !options.knows(name)) {
            Some(name) => Err(format!("no measurement is called {name}")),
            None => Ok(Request::Run(Box::new(options))),
        }
    }

    /// Whether the measurement called `name` was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|n| n == name)
    }

    fn knows(&self, name: &str) -> bool {
        [
            entities::NAME,
            rows::NAME,
            members::NAME,
            library::NAME,
            stalls::NAME,
            persistence::NAME,
            tablesizes::NAME,
            countd::NAME,
        ]
        .contains(&name)
            || workload::comparisons(self)
                .iter()
                .any(|c| c.name == name || c.group == name)
    }

    /// How this run would be repeated.
    pub fn command_line(&self) -> String {
        let mut line = String::new();
        for (name, file) in [
            ("COUNTINT_BENCH_ROARING", &self.roaring),
            ("COUNTINT_BENCH_BLOOM", &self.bloom),
        ] {
            if let Some(file) = file.as_deref().and_then(Path::file_name) {
                line.push_str(&format!("{name}={} ", file.to_string_lossy()));
            }
        }
        line.push_str("scripts/bench");
        if self.quick {
            line.push_str(" --quick");
        }
        for name in &self.only {
            line.push_str(&format!(" --only {name}"));
        }
        line
    }
}

/// The file that a variable of the environment names.
fn file_from(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn server_words() -> Vec<String> {
    let words = std::env::var("COUNTINT_SERVER").unwrap_or_default();
    let words: Vec<String> = words.split_whitespace().map(String::from).collect();
    if words.is_empty() {
        vec!["redis-server".into()]
    } else {
        words
    }
}

#[cfg(test)]
impl Options {
    /// A full run with every peer.
    pub fn for_test() -> Options {
        Options {
            quick: false,
            only: Vec::new(),
            out: "x.md".into(),
            module: "libcountint.so".into(),
            floor: "libcountint_floor.so".into(),
            countd: "countd".into(),
            server: vec!["redis-server".into()],
            roaring: Some("libredis-roaring.so".into()),
            bloom: Some("redisbloom.so".into()),
            scale: Scale::full(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Request, String> {
        Options::parse(args.iter().map(|s| s.to_string()))
    }

    fn run(args: &[&str]) -> Options {
        match parse(args) {
            Ok(Request::Run(options)) => *options,
            _ => panic!("{args:?} should be a run"),
        }
    }

    #[test]
    fn a_full_run_writes_the_page_and_a_partial_one_does_not() {
        assert_eq!(run(&[]).out, PathBuf::from("docs/benchmarks.md"));
        assert_eq!(
            run(&["--quick"]).out,
            PathBuf::from("target/benchmarks-partial.md")
        );
        assert_eq!(
            run(&["--only", "dump"]).out,
            PathBuf::from("target/benchmarks-partial.md")
        );
        assert_eq!(
            run(&["--quick", "--out", "x.md"]).out,
            PathBuf::from("x.md")
        );
    }

    #[test]
    fn only_selects() {
        let options = run(&["--only", "dump", "--only", "members"]);
        assert!(options.wants("dump") && options.wants("members") && !options.wants("incrby"));
        assert!(run(&[]).wants("incrby"));
    }

    #[test]
    fn the_usage_names_every_group() {
        for comparison in workload::comparisons(&Options::for_test()) {
            assert!(USAGE.contains(comparison.group), "{}", comparison.group);
        }
    }

    #[test]
    fn a_measurement_goes_by_its_name_or_its_group() {
        let one = run(&["--only", "contains-snowflake-one", "--only", "mark"]);
        assert_eq!(workload::stages(&one).len(), 2);
        let group = run(&["--only", "contains"]);
        assert_eq!(workload::stages(&group).len(), 10);
    }

    #[test]
    fn the_command_line_names_peers_by_their_files() {
        assert_eq!(
            Options::for_test().command_line(),
            "COUNTINT_BENCH_ROARING=libredis-roaring.so COUNTINT_BENCH_BLOOM=redisbloom.so scripts/bench"
        );
    }

    #[test]
    fn mistakes_are_refused() {
        for args in [
            &["--only"][..],
            &["--only", "nothing"],
            &["--only", "one"],
            &["--out"],
            &["--fast"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
