//! Runs `scripts/run` without its build step, with the module and countd under test.

use super::stub;
use crate::support::pause;
use countint_tests::env::{self, TempDir, deadline, free_port};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// Longer than the time between two commands, so that batched counts are never visible immediately, and a page that lacks "a moment
/// later" fails.
const LINGER_MS: &str = "2000";

/// A running `scripts/run`. Dropping it stops the script and removes its data.
pub struct ScriptRun {
    child: Option<Child>,
    port: u16,
    http_port: u16,
    /// More arguments of the script.
    arguments: &'static [&'static str],
    dir: TempDir,
}

impl ScriptRun {
    /// Starts the script without data, and waits for its welcome message.
    pub fn start() -> ScriptRun {
        ScriptRun::with(&[], |_| {})
    }

    /// The same with more arguments. `prepare` puts what they need into the target directory of the build.
    pub fn with(arguments: &'static [&'static str], prepare: impl FnOnce(&Path)) -> ScriptRun {
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
        prepare(&dir.path().join("target"));
        let mut script_run = ScriptRun {
            child: None,
            port: free_port(),
            http_port: free_port(),
            arguments,
            dir,
        };
        script_run.launch();
        script_run
    }

    /// The directory of the data, the stubs and the output.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The port of Redis.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of countd.
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// What the script has printed to stdout.
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.dir.path().join("stdout")).unwrap_or_default()
    }

    /// Stops the script with Ctrl-C, and starts it again.
    pub fn restart(&mut self) {
        let status = self.interrupt();
        assert!(
            status.is_some_and(|status| status.success()),
            "{status:?}:\n{}",
            self.stderr()
        );
        self.launch();
    }

    /// Starts the script again, and waits for its welcome message.
    pub fn launch(&mut self) {
        self.spawn();
        // With Kafka it starts three virtual machines, one after the other.
        let limit = Instant::now() + deadline(180);
        while !self.has_ended() && !self.has_printed_welcome() {
            assert!(Instant::now() < limit, "scripts/run has not started both");
            pause();
        }
        assert!(!self.has_ended(), "scripts/run ended:\n{}", self.stderr());
    }

    /// Whether the welcome message has been printed.
    pub fn has_printed_welcome(&self) -> bool {
        self.stdout().contains("Ctrl-C stops both")
    }

    /// Starts the script, and returns the id of its process group.
    pub fn spawn(&mut self) -> u32 {
        let dir = self.dir.path();
        let file = |name| File::create(dir.join(name)).expect("the test's directory is writable");
        let mut path = vec![dir.join("bin")];
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        let mut command = Command::new("env");
        // A test that runs in the background of a shell ignores SIGINT, and child processes inherit this.
        command
            .arg("--default-signal=INT")
            .arg(env::workspace().join("scripts/run"))
            .args(["--port", &self.port.to_string()])
            .args(["--http-port", &self.http_port.to_string()])
            .arg("--dir")
            .arg(dir.join("data"))
            .args(self.arguments)
            .env("PATH", std::env::join_paths(path).expect("directories"))
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .env("COUNTINT_SERVER", dir.join("bin/server"))
            .env("COUNTD_CONSUMER__LINGER_MS", LINGER_MS)
            .env_remove("COUNTD_CONFIG")
            // With SUDO_USER, scripts/run would run itself as that user, with another environment.
            .env_remove("SUDO_USER")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"));
        let child = command.spawn().expect("scripts/run starts");
        let group = child.id();
        self.child = Some(child);
        group
    }

    /// Whether the script has ended.
    pub fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut().expect("it was started");
        let status = child.try_wait().expect("a child can be waited for");
        status.is_some()
    }

    /// Ctrl-C: sends SIGINT to the process group. Waits until scripts/run ends; after 60 s kills it and returns `None`.
    pub fn interrupt(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        // If it fails, the wait below times out.
        let _ = Command::new("sh")
            .args(["-c", &format!("kill -INT -{}", child.id())])
            .status();
        let limit = Instant::now() + deadline(60);
        while Instant::now() < limit {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(status);
            }
            pause();
        }
        // The kernel then sends SIGTERM to the server and countd.
        let _ = child.kill();
        let _ = child.wait();
        None
    }

    /// What the script has printed to stderr.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }
}

impl Drop for ScriptRun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- scripts/run:\n{}---", self.stderr());
        }
        // Before the directory is removed: a server that cannot save refuses to exit.
        self.interrupt();
    }
}
