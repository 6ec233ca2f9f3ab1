//! The settings of a server.

use crate::clock::Clock;
use crate::disk::Disk;
use crate::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) enum ModuleFile {
    None,
    Release,
    Faults,
}

/// The settings of a server that is not started yet. [`start`](Builder::start) starts it.
pub struct Builder {
    pub(crate) module: ModuleFile,
    module_args: String,
    include: Option<PathBuf>,
    pub(crate) config: Vec<String>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Whether a write beyond the limit of the size of files fails, instead of ending the server.
    pub(crate) ignores_file_size_signal: bool,
}

/// The configuration of every server that has no configuration file of its own.
const DEFAULTS: [&str; 5] = [
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
            ignores_file_size_signal: false,
        }
    }

    /// Adds a line to the configuration.
    pub(crate) fn push(&mut self, line: &str) {
        self.config.push(line.to_owned());
    }

    /// Does not load the module.
    pub fn no_module(mut self) -> Self {
        self.module = ModuleFile::None;
        self
    }

    /// Loads the module built with the feature `fault-injection`.
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

    /// Enables the append-only file; `preamble` is `aof-use-rdb-preamble`.
    ///
    /// With `appendfsync no` the server writes to the file before each reply, as with `always`, so a killed process loses nothing.
    /// Only a machine that fails could lose writes. Tests do not depend on the speed of the disk.
    pub fn append_only(self, preamble: bool) -> Self {
        self.config("appendonly yes")
            .config("appendfsync no")
            .config(if preamble {
                "aof-use-rdb-preamble yes"
            } else {
                "aof-use-rdb-preamble no"
            })
    }

    /// Uses this configuration file, and overrides only the port, the directory and the log. The file can load the module.
    pub fn include(mut self, file: &Path) -> Self {
        self.include = Some(file.to_owned());
        self.no_module()
    }

    /// Uses a wall clock that the test sets.
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.environment = clock.environment();
        self
    }

    /// Uses a disk that loses what was not synced.
    pub fn disk(mut self, disk: &Disk) -> Self {
        self.environment = disk.environment();
        self
    }

    /// Lets writes beyond the limit of the size of files (`prlimit --fsize`) fail, as on a full disk, instead of ending the server.
    pub fn ignore_file_size_signal(mut self) -> Self {
        self.ignores_file_size_signal = true;
        self
    }

    /// Writes `test.conf` into `dir`.
    pub(crate) fn write_config(&self, dir: &Path, port: u16) {
        let mut lines: Vec<String> = match &self.include {
            Some(file) => vec![format!("include {}", file.display())],
            None => DEFAULTS.map(str::to_owned).to_vec(),
        };
        lines.extend(["daemonize no", "logfile \"\""].map(str::to_owned));
        if env::slow() > 1.0 {
            // Under valgrind, a replication link can be silent for a long time.
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
