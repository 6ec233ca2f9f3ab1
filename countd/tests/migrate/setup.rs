//! Runs `countd storage migrate` as a process, and inspects what it has done.

use crate::support::run;
use countint_tests::env::TempDir;
use countint_tests::{Client, Server, reply, wait_until};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A configuration whose new data has tables. The tests begin with data that has objects.
pub const CONFIG: &str = "[limits]\nuser = { per_second = 100000, burst = 1000000 }\n[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n";
pub const PARTITIONS: u16 = 16;

/// A running migration.
pub struct Migrating {
    process: Child,
    errors: BufReader<ChildStderr>,
    lines: Vec<String>,
    _dir: TempDir,
}

impl Migrating {
    /// Starts `countd storage migrate`.
    pub fn start(server: &Server, target: &str, options: &[&str]) -> Migrating {
        let dir = TempDir::new();
        let config = dir.path().join("countd.toml");
        fs::write(&config, CONFIG).expect("the test's directory is writable");
        let mut process = Command::new(env!("CARGO_BIN_EXE_countd"))
            .arg("--config")
            .arg(config)
            .args(["storage", "migrate", target, "--grace", "1"])
            .args(options)
            .env(
                "COUNTD_REDIS__URL",
                format!("redis://127.0.0.1:{}/", server.port()),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("countd starts");
        let errors = BufReader::new(process.stderr.take().expect("a pipe"));
        Migrating {
            process,
            errors,
            lines: Vec::new(),
            _dir: dir,
        }
    }

    /// Waits until it begins a step for the given time, counted from 1. Returns whether it did before it ended.
    pub fn wait_for_step(&mut self, step: &str, times: usize) -> bool {
        let mut seen = 0;
        let mut last = String::new();
        loop {
            let mut line = String::new();
            let read = self.errors.read_line(&mut line).expect("stderr is text");
            if read == 0 {
                return false;
            }
            let name = line.split(": ").collect::<Vec<_>>();
            let name = name[..name.len() - 1].join(": ");
            // A long step has several lines.
            if name == step && last != name {
                seen += 1;
            }
            last = name;
            self.lines.push(line);
            if seen == times {
                return true;
            }
        }
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        // It may have ended.
        let _ = self.process.kill();
        self.process
            .wait()
            .expect("a killed process can be waited for");
    }

    /// Waits until it ends. Returns whether it succeeded, its output and its errors.
    pub fn end(mut self) -> (bool, String, String) {
        // Without a reader it would block.
        self.wait_for_step("the end", 1);
        let output = self.process.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text, self.lines.concat())
    }
}

/// Moves all counters of a target. Returns the output.
#[track_caller]
pub fn migrate(server: &Server, target: &str) -> String {
    let (succeeded, output, errors) = Migrating::start(server, target, &[]).end();
    assert!(succeeded, "{errors}");
    output
}

/// Waits until all processes follow an epoch of the layout.
pub fn wait_for_epoch(client: &mut Client, epoch: i64) {
    wait_until("all processes follow the layout", || {
        let members = reply::array(client.ok("ZRANGE countd:processes 0 -1"));
        let follows = |member| reply::text(member).split('/').nth(1) == Some(&epoch.to_string());
        !members.is_empty() && members.into_iter().all(follows)
    });
}

/// The keys of objects whose counters should be rows.
pub fn objects_of_numbers(client: &mut Client) -> Vec<String> {
    let keys = reply::array(client.ok("KEYS *cnt:*"));
    let keys = keys.into_iter().map(reply::text);
    let is_number = |key: &str| {
        let key = key.split(":{").next().unwrap_or(key);
        let id = key.rsplit(':').next().unwrap_or_default();
        (key.starts_with("cnt:") || key.starts_with("ucnt:")) && id.parse::<u64>().is_ok()
    };
    keys.filter(|key| is_number(key)).collect()
}

/// Asserts that nothing is left to move, and that `countd check` says so.
#[track_caller]
pub fn assert_migrated(servers: &[&Server]) {
    for server in servers {
        assert_eq!(objects_of_numbers(&mut server.client()), [""; 0]);
    }
    let output = run(servers[0], CONFIG, &["check"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!text.contains("note: counters"), "{text}");
    assert!(!text.contains("was left"), "{text}");
}
