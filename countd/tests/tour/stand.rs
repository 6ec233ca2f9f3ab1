//! `scripts/run` as a reader runs it, without its build: the module and countd under test take the place of what it
//! would build.

use crate::support::pause;
use countint_tests::env::{self, TempDir, deadline, free_port};
use countint_tests::{console, wait_until};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// Longer than a reader takes from one command to the next, so that a count that the consumer makes is never there at
/// once, and a page that leaves out `a moment later` fails.
const LINGER_MS: &str = "2000";

/// A running `scripts/run`; dropped, it is stopped and its data removed.
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
        let countd = env!("CARGO_BIN_EXE_countd").into();
        for (file, name) in [(env::module(), "libcountint.so"), (countd, "countd")] {
            symlink(file, release.join(name)).expect("the test's directory is writable");
        }
        let cargo = bin.join("cargo");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = build ] || exec '{}' \"$@\"\n",
            env!("CARGO")
        );
        fs::write(&cargo, script).expect("the test's directory is writable");
        console::executable(&cargo);
        let mut stand = Stand {
            script: None,
            port: free_port(),
            http_port: free_port(),
            dir,
        };
        stand.launch();
        stand
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

    fn launch(&mut self) {
        let dir = self.dir.path();
        let file = |name| File::create(dir.join(name)).expect("the test's directory is writable");
        let mut path = vec![dir.join("bin")];
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        let mut command = Command::new("env");
        // A test that runs in the background of a shell would hand on that it ignores the signal of Ctrl-C.
        command
            .arg("--default-signal=INT")
            .arg(env::workspace().join("scripts/run"))
            .args(["--port", &self.port.to_string()])
            .args(["--http-port", &self.http_port.to_string()])
            .arg("--dir")
            .arg(dir.join("data"))
            .env("PATH", std::env::join_paths(path).expect("directories"))
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .env("COUNTD_CONSUMER__LINGER_MS", LINGER_MS)
            .env_remove("COUNTD_CONFIG")
            // With it, scripts/run starts itself again as that user, in another environment.
            .env_remove("SUDO_USER")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"));
        let script = command.spawn().expect("scripts/run starts");
        self.script = Some(script);
        wait_until("scripts/run has started both", || {
            self.is_ended() || self.welcome().contains("Ctrl-C stops both")
        });
        assert!(!self.is_ended(), "scripts/run ended:\n{}", self.errors());
    }

    fn is_ended(&mut self) -> bool {
        let script = self.script.as_mut().expect("it was started");
        let status = script.try_wait().expect("a child can be waited for");
        status.is_some()
    }

    /// Ctrl-C: SIGINT to all processes of the terminal. Waits for the end of scripts/run, or gives up.
    fn interrupt(&mut self) -> Option<ExitStatus> {
        let mut script = self.script.take()?;
        // Should it fail, the waiting below is in vain.
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
        // The server and countd get a SIGTERM when scripts/run is gone.
        let _ = script.kill();
        let _ = script.wait();
        None
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- scripts/run:\n{}---", self.errors());
        }
        // A server whose directory is gone could not save, and would refuse to end.
        self.interrupt();
    }
}
