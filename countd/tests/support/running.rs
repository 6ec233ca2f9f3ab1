//! A subcommand of countd that prints its steps, as a process that can be killed.

use super::process::{Watchdog, environment, send_signal};
use countint_tests::Server;
use countint_tests::env::TempDir;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A running subcommand.
pub struct Running {
    process: Child,
    errors: BufReader<ChildStderr>,
    lines: Vec<String>,
    _watchdog: Watchdog,
    _dir: TempDir,
}

impl Running {
    /// Starts a subcommand with these arguments.
    pub fn start(server: &Server, config: &str, arguments: &[&str]) -> Running {
        let dir = TempDir::new();
        let file = dir.path().join("countd.toml");
        fs::write(&file, config).expect("the test's directory is writable");
        let mut process = Command::new(env!("CARGO_BIN_EXE_countd"))
            .arg("--config")
            .arg(file)
            .args(arguments)
            .envs(environment(
                format!("redis://127.0.0.1:{}/", server.port()),
                config,
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("countd starts");
        let errors = BufReader::new(process.stderr.take().expect("a pipe"));
        Running {
            _watchdog: Watchdog::new(process.id()),
            process,
            errors,
            lines: Vec::new(),
            _dir: dir,
        }
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
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
            // `STEP: 7 of 9 keys`, or only the step if it waits.
            let name = match line.rsplit_once(": ") {
                Some((name, rest)) if rest.starts_with(|c: char| c.is_ascii_digit()) => name,
                _ => line.trim_end(),
            };
            let name = name.to_owned();
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

    /// Sends SIGSTOP.
    pub fn suspend(&self) {
        send_signal(self.id(), "STOP");
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        send_signal(self.id(), "CONT");
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
