//! The command line, and how long each kind of run takes.

use std::path::PathBuf;
use std::time::Duration;

use crate::{memory, persistence, workload};

/// What `--help` prints.
pub const USAGE: &str = "\
usage: scripts/bench [--quick] [--only NAME] [--out FILE]

  --quick      a short run (under three minutes): figures to look at, not to quote
  --only NAME  only this measurement; may be given more than once:
               control, incrby, batchincr, dump, mread, contains, contains-half, add, mark,
               apply, memory,
               persistence
  --out FILE   where the report goes; default docs/benchmarks.md, or
               target/benchmarks-partial.md with --quick or --only

COUNTINT_MODULE names another module file, COUNTINT_SERVER another server than the one on the PATH.";

/// What the command line asks for.
pub enum Request {
    /// Print the usage.
    Help,
    /// Measure.
    Run(Options),
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
    /// The server's executable, with leading words if need be.
    pub server: Vec<String>,
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
                "--only" => only.push(known_name(args.next().ok_or("--only needs a name")?)?),
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
        Ok(Request::Run(Options {
            quick,
            only,
            out: out.unwrap_or_else(|| PathBuf::from(page)),
            module: module_path(),
            server: server_words(),
        }))
    }

    /// Whether the measurement called `name` was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|n| n == name)
    }

    /// How this run would be repeated.
    pub fn command_line(&self) -> String {
        let mut line = String::from("scripts/bench");
        if self.quick {
            line.push_str(" --quick");
        }
        for name in &self.only {
            line.push_str(&format!(" --only {name}"));
        }
        line
    }

    /// Interleaved rounds for each side of a comparison.
    pub fn rounds(&self) -> usize {
        if self.quick { 5 } else { 21 }
    }

    /// How long one round lasts.
    pub fn round_time(&self) -> Duration {
        Duration::from_millis(if self.quick { 150 } else { 400 })
    }

    /// How often each data set is saved and loaded.
    pub fn repeats(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }
}

fn known_name(name: String) -> Result<String, String> {
    let known = workload::COMPARISONS.iter().any(|c| c.name == name)
        || name == memory::NAME
        || name == persistence::NAME;
    if known {
        Ok(name)
    } else {
        Err(format!("no measurement is called {name}"))
    }
}

fn module_path() -> PathBuf {
    let path = std::env::var_os("COUNTINT_MODULE");
    PathBuf::from(path.unwrap_or_else(|| "target/release/libcountint.so".into()))
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
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Request, String> {
        Options::parse(args.iter().map(|s| s.to_string()))
    }

    fn run(args: &[&str]) -> Options {
        match parse(args) {
            Ok(Request::Run(options)) => options,
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
        let options = run(&["--only", "dump", "--only", "memory"]);
        assert!(options.wants("dump") && options.wants("memory") && !options.wants("incrby"));
        assert!(run(&[]).wants("incrby"));
    }

    #[test]
    fn the_usage_names_every_comparison() {
        for comparison in workload::COMPARISONS {
            assert!(USAGE.contains(comparison.name), "{}", comparison.name);
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for args in [
            &["--only"][..],
            &["--only", "nothing"],
            &["--out"],
            &["--fast"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
