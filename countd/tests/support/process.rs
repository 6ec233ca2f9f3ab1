//! Runs countd as a process.

use super::api::Api;
use super::pause::pause;
use countint_tests::env::{TempDir, deadline, free_port};
use countint_tests::{Clock, Server, wait_until};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

/// A running countd. Dropping it kills the process and removes its directory.
pub struct Countd {
    process: Option<Child>,
    command: &'static str,
    port: u16,
    environment: Vec<(OsString, OsString)>,
    dir: TempDir,
}

/// The addresses of the commands. A process uses one of them.
const LISTEN: [&str; 4] = [
    "COUNTD_HTTP__LISTEN",
    "COUNTD_CONSUMER__LISTEN",
    "COUNTD_RELAY__LISTEN",
    "COUNTD_SINK__LISTEN",
];

/// The settings of a process. The addresses of Redis and of the listener are added.
pub struct Settings<'a> {
    /// `all`, `serve`, `consume`, `relay` or `sink`.
    pub command: &'static str,
    /// The configuration file.
    pub config: &'a str,
}

impl Countd {
    /// Starts `countd all` and sets the schema `v1`.
    pub fn start(server: &Server, config: &str) -> Countd {
        set_schema(server, config);
        let command = "all";
        Countd::with(server, &Settings { command, config })
    }

    /// Starts countd, and waits until it listens.
    pub fn with(server: &Server, settings: &Settings<'_>) -> Countd {
        Countd::with_environment(server, settings, Vec::new())
    }

    /// [`with`](Countd::with), with a wall clock that the test sets.
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

    /// [`with`](Countd::with), with more environment variables. They override those of the test, such as the URL of Redis.
    pub fn with_environment(
        server: &Server,
        settings: &Settings<'_>,
        more: Vec<(OsString, OsString)>,
    ) -> Countd {
        let mut environment = environment(url(server), settings.config);
        environment.extend(more);
        let mut countd = Countd {
            process: None,
            command: settings.command,
            port: free_port(),
            environment,
            dir: TempDir::new(),
        };
        write_config(&countd.dir, settings.config);
        // Another process can take the port before countd binds it.
        while !countd.try_launch() {
            countd.port = free_port();
        }
        countd
    }

    /// Starts countd again after a kill or stop. Clients know its port, so it waits while another process holds it.
    pub fn launch(&mut self) {
        wait_until("the port of countd is free", || self.try_launch());
    }

    /// Starts countd, and waits until it listens. Returns false if another process holds its port.
    fn try_launch(&mut self) -> bool {
        let (file, before) = (self.log_file(), self.log().len());
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&file)
            .expect("the test's directory is writable");
        let process = Command::new(env!("CARGO_BIN_EXE_countd"))
            .arg("--config")
            .arg(self.dir.path().join("countd.toml"))
            .arg(self.command)
            .envs(LISTEN.map(|setting| (setting, format!("127.0.0.1:{}", self.port))))
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let process = self.process.insert(process.expect("countd starts"));
        let limit = Instant::now() + deadline(120);
        loop {
            let ended = process.try_wait().expect("a child can be waited for");
            // Another process could accept connections on the port: only the log tells that this one does.
            let log = fs::read_to_string(&file).unwrap_or_default();
            let log = log.get(before..).unwrap_or_default();
            if let Some(status) = ended {
                self.process = None;
                assert!(log.contains("Address already in use"), "{status}:\n{log}");
                return false;
            }
            if log.contains("\"serving\"") && TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            assert!(Instant::now() < limit, "countd does not listen:\n{log}");
            pause();
        }
    }

    /// Kills countd with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // The process may already have ended.
            let _ = process.kill();
            process.wait().expect("a killed process can be waited for");
        }
    }

    /// Sends SIGTERM and waits until it ends.
    pub fn stop(&mut self) {
        self.terminate();
        self.wait_for_end();
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends SIGSTOP: the process stays a member of the group, and does nothing.
    pub fn suspend(&self) {
        self.signal("STOP");
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Replaces the configuration file. The process runs on.
    pub fn configure(&self, text: &str) {
        write_config(&self.dir, text);
    }

    /// Sends a signal by name.
    pub fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("it runs");
        send_signal(process.id(), signal);
    }

    /// Waits until countd ends. Fails unless its exit status is 0.
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

    /// The memory of the process in bytes: `VmRSS` is the current resident set, `VmHWM` its peak.
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

    /// The log output of countd.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("countd.log")
    }

    /// The process ID.
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    /// The port on which countd listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A client of its API.
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

/// The address of Redis, and timeouts that a slow machine does not reach, unless the configuration has timeouts.
pub fn environment(redis: String, config: &str) -> Vec<(OsString, OsString)> {
    let timeouts = [
        ("COUNTD_REDIS__RESPONSE_TIMEOUT_MS", "response_timeout_ms ="),
        ("COUNTD_HTTP__TIMEOUT_MS", "\ntimeout_ms ="),
    ];
    let missing = timeouts.iter().filter(|(_, key)| !config.contains(key));
    let milliseconds = deadline(60).as_millis().to_string();
    let mut environment: Vec<_> = missing
        .map(|(name, _)| ((*name).into(), milliseconds.clone().into()))
        .collect();
    environment.push(("COUNTD_REDIS__URL".into(), redis.into()));
    environment
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

/// Runs a subcommand of countd to its end, and returns the output.
pub fn run(server: &Server, config: &str, arguments: &[&str]) -> Output {
    run_with_url(url(server), config, arguments)
}

/// The same with Redis at this port.
pub fn run_at(port: u16, config: &str, arguments: &[&str]) -> Output {
    run_with_url(format!("redis://127.0.0.1:{port}/"), config, arguments)
}

/// The same as a Redis user with the password `secret`.
pub fn run_as_user(server: &Server, user: &str, config: &str, arguments: &[&str]) -> Output {
    run_with_url(url_of_user(server, user), config, arguments)
}

/// The same with this URL of Redis.
pub fn run_with_url(url: String, config: &str, arguments: &[&str]) -> Output {
    let dir = TempDir::new();
    let process = Command::new(env!("CARGO_BIN_EXE_countd"))
        .arg("--config")
        .arg(write_config(&dir, config))
        .envs(environment(url, config))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("countd starts");
    let _watchdog = Watchdog::new(process.id());
    process.wait_with_output().expect("it ends")
}

/// Kills a process that has not ended after minutes, so that a test does not wait for it without end.
pub struct Watchdog {
    _is_needed: Sender<()>,
}

impl Watchdog {
    /// Of a process that has not been waited for.
    pub fn new(process_id: u32) -> Watchdog {
        let (is_needed, ended) = mpsc::channel();
        thread::spawn(move || {
            if ended.recv_timeout(deadline(600)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("process {process_id} does not end, and is killed");
                send_signal(process_id, "KILL");
            }
        });
        Watchdog {
            _is_needed: is_needed,
        }
    }
}

/// The standard output of a command. Fails if the command failed.
#[track_caller]
pub fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The reasons of the dead letters, from `countd dead list`.
pub fn dead_reasons(server: &Server, config: &str) -> Vec<String> {
    let dead_letters = printed(&run(server, config, &["dead", "list"]));
    let reason = |line: &str| {
        let dead_letter: serde_json::Value = serde_json::from_str(line).expect("JSON");
        dead_letter["reason"].as_str().expect("a reason").to_owned()
    };
    dead_letters.lines().map(reason).collect()
}

/// Sets the schema of the default configuration.
pub fn set_schema(server: &Server, config: &str) {
    let args = "schema set v1 read like fav comment repost";
    let args: Vec<&str> = args.split(' ').collect();
    printed(&run(server, config, &args));
}

/// Sends a signal by name (`STOP`, `CONT` ...) to a process.
pub(super) fn send_signal(pid: u32, signal: &str) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {pid}")])
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "SIG{signal} is sent"
    );
}
