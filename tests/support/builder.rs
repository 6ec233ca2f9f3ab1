//! What a server is started with.

use crate::clock::Clock;
use crate::env;
use crate::server::Server;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) enum ModuleFile {
    None,
    Release,
    Faults,
}

/// What a server is started with.
pub struct Builder {
    pub(crate) module: ModuleFile,
    module_args: String,
    include: Option<PathBuf>,
    config: Vec<String>,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// What every server is started with, unless it has a configuration file of its own.
const OWN: [&str; 5] = [
    "bind 127.0.0.1",
    "save \"\"",
    "enable-debug-command yes",
    "enable-module-command local",
    "repl-diskless-sync-delay 0",
];

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            module: ModuleFile::Release,
            module_args: String::new(),
            include: None,
            config: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Adds a line to the configuration of a server that exists already, for its next start.
    pub(crate) fn push(&mut self, line: &str) {
        self.config.push(line.to_owned());
    }

    /// Starts without the module.
    pub fn no_module(mut self) -> Self {
        self.module = ModuleFile::None;
        self
    }

    /// Loads the build with the feature `fault-injection`.
    pub fn faults(mut self) -> Self {
        self.module = ModuleFile::Faults;
        self
    }

    /// Arguments of `loadmodule`, such as `default-len 7`.
    pub fn module_args(mut self, args: &str) -> Self {
        self.module_args = args.to_owned();
        self
    }

    /// Adds a line to the configuration; later lines win.
    pub fn config(mut self, line: &str) -> Self {
        self.config.push(line.to_owned());
        self
    }

    /// Keeps an append-only file, synced at each write; `preamble` is `aof-use-rdb-preamble`.
    pub fn append_only(self, preamble: bool) -> Self {
        self.config("appendonly yes")
            .config("appendfsync always")
            .config(if preamble {
                "aof-use-rdb-preamble yes"
            } else {
                "aof-use-rdb-preamble no"
            })
    }

    /// Starts from this configuration file, of which only the port, the directory and the log are overridden. It may load
    /// the module itself.
    pub fn include(mut self, file: &Path) -> Self {
        self.include = Some(file.to_owned());
        self.no_module()
    }

    /// Gives the server a wall clock that the test sets.
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.environment = clock.environment();
        self
    }

    /// Starts as a replica of `master` and waits until it is in sync.
    pub fn replica_of(self, master: &Server) -> Self {
        self.config(&format!("replicaof 127.0.0.1 {}", master.port()))
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    /// When it does not start: the message ends with its log.
    pub fn start(self) -> Server {
        let replica = self.config.iter().any(|line| line.starts_with("replicaof"));
        let server = self
            .try_start()
            .unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
        if replica {
            server.wait_for_link();
        }
        server
    }

    /// Starts the server, or says why it did not start (its log).
    ///
    /// # Errors
    /// The log of a server that ended before it answered.
    pub fn try_start(self) -> Result<Server, String> {
        Server::launch_new(self)
    }

    /// Writes `test.conf` into `dir`.
    pub(crate) fn write_config(&self, dir: &Path, port: u16) {
        let mut lines: Vec<String> = match &self.include {
            Some(file) => vec![format!("include {}", file.display())],
            None => OWN.map(str::to_owned).to_vec(),
        };
        lines.extend(["daemonize no", "logfile \"\""].map(str::to_owned));
        if env::slow() > 1.0 {
            // A link between two servers under valgrind may be silent for long.
            lines.push("repl-timeout 3600".to_owned());
        }
        lines.push(format!("port {port}"));
        lines.push(format!("dir {}", dir.display()));
        let module = match self.module {
            ModuleFile::None => None,
            ModuleFile::Release => Some(env::module()),
            ModuleFile::Faults => Some(env::module_with_faults()),
        };
        if let Some(file) = module {
            lines.push(format!(
                "loadmodule {} {}",
                file.display(),
                self.module_args
            ));
        }
        lines.extend(self.config.iter().cloned());
        fs::write(dir.join("test.conf"), lines.join("\n") + "\n")
            .expect("the test's directory is writable");
    }
}
