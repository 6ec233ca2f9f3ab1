//! countd as a process.

use super::Api;
use countint_tests::env::{TempDir, free_port};
use countint_tests::{Clock, Server, wait_until};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A running countd; dropped, it is killed and its directory removed.
pub struct Countd {
    process: Option<Child>,
    command: &'static str,
    port: u16,
    redis: String,
    environment: Vec<(OsString, OsString)>,
    dir: TempDir,
}

/// What it is started with, beside where Redis is and what it listens on.
pub struct Settings<'a> {
    /// `all`, `serve` or `consume`.
    pub command: &'static str,
    /// More configuration.
    pub config: &'a str,
}

impl Countd {
    /// Serves and consumes, on a server that gets the schema `v1`.
    pub fn start(server: &Server, config: &str) -> Countd {
        set_schema(server, config);
        let command = "all";
        Countd::with(server, &Settings { command, config })
    }

    /// Starts it, and waits until it answers: actions and questions, or operators alone.
    pub fn with(server: &Server, settings: &Settings<'_>) -> Countd {
        Countd::with_environment(server, settings, Vec::new())
    }

    /// The same with a wall clock that the test sets.
    pub fn with_clock(server: &Server, settings: &Settings<'_>, clock: &Clock) -> Countd {
        Countd::with_environment(server, settings, clock.environment())
    }

    /// The same as a Redis user with the password `secret`.
    pub fn as_user(server: &Server, settings: &Settings<'_>, user: &str) -> Countd {
        let url = url_of_user(server, user);
        Countd::with_environment(
            server,
            settings,
            vec![("COUNTD_REDIS__URL".into(), url.into())],
        )
    }

    fn with_environment(
        server: &Server,
        settings: &Settings<'_>,
        environment: Vec<(OsString, OsString)>,
    ) -> Countd {
        let mut countd = Countd {
            process: None,
            command: settings.command,
            port: free_port(),
            redis: url(server),
            environment,
            dir: TempDir::new(),
        };
        write_config(&countd.dir, settings.config);
        countd.launch();
        countd
    }

    /// Starts it again after it was killed or stopped.
    pub fn launch(&mut self) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("countd.log"))
            .expect("the test's directory is writable");
        let process = Command::new(env!("CARGO_BIN_EXE_countd"))
            .arg("--config")
            .arg(self.dir.path().join("countd.toml"))
            .arg(self.command)
            .env("COUNTD_REDIS__URL", &self.redis)
            .env("COUNTD_HTTP__LISTEN", format!("127.0.0.1:{}", self.port))
            .env(
                "COUNTD_CONSUMER__LISTEN",
                format!("127.0.0.1:{}", self.port),
            )
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.process = Some(process.expect("countd starts"));
        let port = self.port;
        wait_until("countd listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may be gone already.
            let _ = process.kill();
            process.wait().expect("a killed process can be waited for");
        }
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) {
        self.terminate();
        self.wait_for_end();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        let process = self.process.as_ref().expect("it runs");
        let status = Command::new("sh")
            .args(["-c", &format!("kill -TERM {}", process.id())])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "it can be told to stop"
        );
    }

    /// Waits until it has ended, which must go well.
    pub fn wait_for_end(&mut self) {
        let mut process = self.process.take().expect("it runs");
        let mut ended = None;
        wait_until("countd stops", || {
            ended = process.try_wait().expect("a child can be waited for");
            ended.is_some()
        });
        assert!(
            ended.is_some_and(|status| status.success()),
            "{ended:?}:\n{}",
            self.log()
        );
    }

    /// A line of what the kernel says of its memory, in bytes: `VmRSS` what it has, `VmHWM` the most that it had.
    pub fn memory(&self, line: &str) -> usize {
        let process = self.process.as_ref().expect("it runs");
        let file = format!("/proc/{}/status", process.id());
        let status = fs::read_to_string(file).expect("it runs");
        let kilobytes = status.lines().find_map(|found| found.strip_prefix(line));
        let kilobytes = kilobytes.and_then(|found| found.split_whitespace().nth(1));
        1024 * kilobytes
            .expect("a line")
            .parse::<usize>()
            .expect("a number")
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("countd.log")).unwrap_or_default()
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends requests to it.
    pub fn api(&self) -> Api {
        Api::new(self.port)
    }
}

impl Drop for Countd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- countd {}, end of its log:\n{end}\n---", self.command);
        }
        self.kill();
    }
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}/", server.port())
}

fn url_of_user(server: &Server, user: &str) -> String {
    format!("redis://{user}:secret@127.0.0.1:{}/", server.port())
}

fn write_config(dir: &TempDir, text: &str) -> PathBuf {
    let file = dir.path().join("countd.toml");
    fs::write(&file, text).expect("the test's directory is writable");
    file
}

/// Runs a command of countd that ends by itself.
pub fn run(server: &Server, config: &str, arguments: &[&str]) -> Output {
    run_with_url(url(server), config, arguments)
}

/// The same as a Redis user with the password `secret`.
pub fn run_as_user(server: &Server, user: &str, config: &str, arguments: &[&str]) -> Output {
    run_with_url(url_of_user(server, user), config, arguments)
}

fn run_with_url(url: String, config: &str, arguments: &[&str]) -> Output {
    let dir = TempDir::new();
    Command::new(env!("CARGO_BIN_EXE_countd"))
        .arg("--config")
        .arg(write_config(&dir, config))
        .env("COUNTD_REDIS__URL", url)
        .args(arguments)
        .output()
        .expect("countd runs")
}

/// What a command printed; it must have gone well.
#[track_caller]
pub fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Why each of the dead letters died, as `dead list` tells.
pub fn dead_reasons(server: &Server, config: &str) -> Vec<String> {
    let letters = printed(&run(server, config, &["dead", "list"]));
    let reason = |line: &str| {
        let letter: serde_json::Value = serde_json::from_str(line).expect("JSON");
        letter["reason"].as_str().expect("a reason").to_owned()
    };
    letters.lines().map(reason).collect()
}

/// The schema of the default configuration.
pub fn set_schema(server: &Server, config: &str) {
    let words = "schema set v1 read like fav comment repost";
    let words: Vec<&str> = words.split(' ').collect();
    printed(&run(server, config, &words));
}
