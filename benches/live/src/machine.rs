//! Where and with what the figures were taken.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::options::Options;
use crate::{Result, server};

/// A load average above this means that something else was running.
const QUIET_LOAD: f64 = 0.5;

/// The facts that a reader needs to compare with another machine.
pub struct Machine {
    facts: Vec<(&'static str, String)>,
    load: f64,
}

impl Machine {
    /// Reads them now, before the measurements load the machine.
    pub fn describe(options: &Options) -> Result<Machine> {
        let cores = std::thread::available_parallelism()?.get();
        let mut facts = vec![
            ("date", said("date", &["-u", "+%Y-%m-%d"])),
            (
                "CPU",
                format!(
                    "{}, {cores} cores",
                    after_colon("/proc/cpuinfo", "model name")
                ),
            ),
            ("memory", memory()),
            (
                "system",
                format!(
                    "{}, Linux {}",
                    distribution(),
                    first_line("/proc/sys/kernel/osrelease")
                ),
            ),
            (
                "huge pages",
                first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
            ),
            ("server", server::version(&options.server)?),
            (
                "module",
                format!(
                    "countint {}, commit {}",
                    env!("CARGO_PKG_VERSION"),
                    commit()
                ),
            ),
            ("compiler", said("rustc", &["--version"])),
        ];
        for (name, module) in [
            ("redis-roaring", &options.roaring),
            ("RedisBloom", &options.bloom),
        ] {
            let version = match module {
                Some(module) => server::module_version(options, module)?,
                None => "not given, so not measured".into(),
            };
            facts.push((name, version));
        }
        let load = first_line("/proc/loadavg")
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0.0);
        Ok(Machine { facts, load })
    }

    /// Says so when the machine was not quiet.
    pub fn warning(&self) -> Option<String> {
        (self.load > QUIET_LOAD).then(|| {
            format!(
                "The load average was {:.1} when this run began: other work shared the cores.",
                self.load
            )
        })
    }

    /// A section of the page.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from("## Machine and versions\n\n| | |\n|---|---|\n");
        for (name, value) in &self.facts {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        text.push('\n');
        text
    }
}

fn memory() -> String {
    let total = after_colon("/proc/meminfo", "MemTotal");
    let kib: f64 = total.trim_end_matches(" kB").parse().unwrap_or(0.0);
    format!("{:.0} GiB", kib / 1024.0 / 1024.0)
}

fn distribution() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("unknown").trim_matches('"').to_string()
}

fn commit() -> String {
    let id = said("git", &["rev-parse", "--short", "HEAD"]);
    let changed = !said("git", &["status", "--porcelain", "--", "src", "core"]).is_empty();
    if changed {
        format!("{id} with changes")
    } else {
        id
    }
}

/// What a command prints, or "unknown" when it cannot run.
fn said(program: &str, args: &[&str]) -> String {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_string()
        }
        _ => "unknown".to_string(),
    }
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_string()
}

/// The value of the first line `name : value` of a file in `/proc`.
fn after_colon(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let found = pairs.find(|(key, _)| key.trim() == name);
    found.map_or("unknown".to_string(), |(_, value)| value.trim().to_string())
}
