//! Runs `scripts/run` without its build: the module and countd under test take the place of what it would build.

use super::stub;
use crate::support::pause;
use countint_tests::env::{self, TempDir, deadline, free_port};
use countint_tests::wait_until;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// Longer than the time from one command to the next, so that counts of the consumer are never visible at once, and a page
/// without `a moment later` fails.
const LINGER_MS: &str = "2000";

/// A running `scripts/run`. Dropping it stops the script and removes its data.
pub struct Stand {
    script: Option<Child>,
    port: u16,
    http_port: u16,
    dir: TempDir,
}

impl Stand {
    /// Starts it, without data, and waits for its welcome.
    pub fn start() -> Stand {
        let dir = TempDir::new();
        let release = dir.path().join("target/release");
        let bin = dir.path().join("bin");
        for directory in [&release, &bin] {
            fs::create_dir_all(directory).expect("the test's directory is writable");
        }
        symlink(env::module(), release.join("libcountint.so"))
            .expect("the test's directory is writable");
        for program in stub::ALWAYS {
            stub::reset(dir.path(), program);
        }
        let mut stand = Stand {
            script: None,
            port: free_port(),
            http_port: free_port(),
            dir,
        };
        stand.launch();
        stand
    }

    /// The directory of all its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where countd listens.
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// What it has printed.
    pub fn welcome(&self) -> String {
        fs::read_to_string(self.dir.path().join("stdout")).unwrap_or_default()
    }

    /// Stops it with Ctrl-C, and starts it again.
    pub fn restart(&mut self) {
        let status = self.interrupt();
        assert!(
            status.is_some_and(|status| status.success()),
            "{status:?}:\n{}",
            self.errors()
        );
        self.launch();
    }

    /// Starts it, and waits for its welcome.
    pub fn launch(&mut self) {
        self.spawn();
        wait_until("scripts/run has started both", || {
            self.is_ended() || self.is_welcome()
        });
        assert!(!self.is_ended(), "scripts/run ended:\n{}", self.errors());
    }

    /// Whether its welcome is printed.
    pub fn is_welcome(&self) -> bool {
        self.welcome().contains("Ctrl-C stops both")
    }

    /// Starts it, and returns the id of its process group.
    pub fn spawn(&mut self) -> u32 {
        let dir = self.dir.path();
        let file = |name| File::create(dir.join(name)).expect("the test's directory is writable");
        let mut path = vec![dir.join("bin")];
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        let mut command = Command::new("env");
        // A test in the background of a shell would pass on its ignored SIGINT.
        command
            .arg("--default-signal=INT")
            .arg(env::workspace().join("scripts/run"))
            .args(["--port", &self.port.to_string()])
            .args(["--http-port", &self.http_port.to_string()])
            .arg("--dir")
            .arg(dir.join("data"))
            .env("PATH", std::env::join_paths(path).expect("directories"))
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .env("COUNTINT_SERVER", dir.join("bin/server"))
            .env("COUNTD_CONSUMER__LINGER_MS", LINGER_MS)
            .env_remove("COUNTD_CONFIG")
            // With it, scripts/run would run itself as that user, with another environment.
            .env_remove("SUDO_USER")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"));
        let script = command.spawn().expect("scripts/run starts");
        let group = script.id();
        self.script = Some(script);
        group
    }

    /// Whether it has ended.
    pub fn is_ended(&mut self) -> bool {
        let script = self.script.as_mut().expect("it was started");
        let status = script.try_wait().expect("a child can be waited for");
        status.is_some()
    }

    /// Ctrl-C: sends SIGINT to the process group. Waits until scripts/run ends; after 30 s kills it and returns `None`.
    pub fn interrupt(&mut self) -> Option<ExitStatus> {
        let mut script = self.script.take()?;
        // If it fails, the wait below times out.
        let _ = Command::new("sh")
            .args(["-c", &format!("kill -INT -{}", script.id())])
            .status();
        let limit = Instant::now() + deadline(30);
        while Instant::now() < limit {
            if let Ok(Some(status)) = script.try_wait() {
                return Some(status);
            }
            pause();
        }
        // The kernel then sends SIGTERM to the server and countd.
        let _ = script.kill();
        let _ = script.wait();
        None
    }

    /// What it has printed to stderr.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- scripts/run:\n{}---", self.errors());
        }
        // Before the directory is removed: a server that cannot save refuses to exit.
        self.interrupt();
    }
}
