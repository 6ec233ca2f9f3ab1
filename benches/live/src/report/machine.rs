//! The section on the machine and the versions of the programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::driver::idle;
use crate::driver::programs::Programs;
use crate::driver::server;
use crate::error::Result;
use crate::report::table::Table;

/// The load average above which the page has a warning.
const IDLE_LOAD: f64 = 0.5;

/// The environment of a run.
pub struct Machine {
    facts: Vec<(&'static str, String)>,
    load: f64,
}

impl Machine {
    /// Reads the environment, before the measurements load the machine.
    pub fn describe(programs: &Programs) -> Result<Machine> {
        let cores = std::thread::available_parallelism()?.get();
        let mut facts = vec![
            ("date", output_of("date", &["-u", "+%Y-%m-%d"])),
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
            ("idle cores", idle::describe()),
            ("server", server::version(&programs.server)?),
            (
                "module",
                format!(
                    "countint {}, commit {}",
                    env!("CARGO_PKG_VERSION"),
                    commit()
                ),
            ),
            ("compiler", output_of("rustc", &["--version"])),
        ];
        for (name, module) in [
            ("redis-roaring", &programs.roaring),
            ("RedisBloom", &programs.bloom),
        ] {
            let version = match module {
                Some(module) => server::module_version(programs, module)?,
                None => "not given, so not measured".into(),
            };
            facts.push((name, version));
        }
        if let Some(jars) = &programs.kafka {
            let java = output_of("java", &["--version"]);
            let java = java.lines().next().unwrap_or("unknown").to_owned();
            facts.extend([("Kafka", kafka_version(jars)), ("Java", java)]);
        }
        let load = first_line("/proc/loadavg")
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0.0);
        Ok(Machine { facts, load })
    }

    /// The warning, if the machine was not idle.
    pub fn warning(&self) -> Option<String> {
        (self.load > IDLE_LOAD).then(|| {
            format!(
                "The load average was {:.1} when this run began: the cores were shared with other work.",
                self.load
            )
        })
    }

    /// A line on the run, for sections on a page of another run.
    pub fn line(&self, command: &str) -> String {
        let fact = |wanted| {
            let found = self.facts.iter().find(|(name, _)| *name == wanted);
            found.map_or("unknown", |(_, value)| value.as_str())
        };
        let warning = self
            .warning()
            .map_or(String::new(), |text| format!(" {text}"));
        let server = fact("server");
        let server = server.split(" sha=").next().unwrap_or(server);
        format!(
            "Measured on {} with `{command}` ({}; idle cores {}; {server}; {}).{warning}",
            fact("date"),
            fact("CPU"),
            fact("idle cores"),
            fact("module")
        )
    }

    /// The section.
    pub fn to_markdown(&self) -> String {
        let mut table = Table::new(&["", ""]);
        for (name, value) in &self.facts {
            table.row(&[name, value.as_str()]);
        }
        format!("## Machine and versions\n\n{}", table.finish())
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
    let id = output_of("git", &["rev-parse", "--short", "HEAD"]);
    let changed = !output_of(
        "git",
        &["status", "--porcelain", "--", "src", "core", "countd/src"],
    )
    .is_empty();
    if changed {
        format!("{id} with changes")
    } else {
        id
    }
}

/// The version of Kafka, from the name of a jar.
fn kafka_version(jars: &Path) -> String {
    let files = fs::read_dir(jars).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let version = |name: String| {
        let version = name.strip_prefix("kafka-clients-")?.strip_suffix(".jar")?;
        Some(version.to_owned())
    };
    { names }.find_map(version).unwrap_or("unknown".to_owned())
}

/// The output of a command, or "unknown" if it fails.
fn output_of(program: &str, args: &[&str]) -> String {
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
