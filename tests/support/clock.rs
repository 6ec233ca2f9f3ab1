//! Wall clocks that a test sets.

use crate::env::TempDir;
use crate::shim::Shim;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The wall clock of processes that are started with [`environment`](Self::environment). Their monotonic clocks do not
/// change.
pub struct Clock {
    dir: TempDir,
}

impl Clock {
    /// A clock that shows the time of the machine.
    pub fn new() -> Clock {
        let clock = Clock {
            dir: TempDir::new(),
        };
        clock.set(0);
        clock
    }

    /// Sets the clock `seconds` ahead of the machine, or behind if negative. Running processes see the change at once.
    pub fn set(&self, seconds: i64) {
        let written = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.file())
            .and_then(|mut file| file.write_all(&(seconds * 1_000_000).to_ne_bytes()));
        written.expect("the test's directory is writable");
    }

    /// The environment variables of a process that uses the clock.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        static SHIM: OnceLock<Shim> = OnceLock::new();
        let shim = SHIM.get_or_init(|| Shim::build("clock", include_str!("clock.c")));
        shim.environment("COUNTINT_CLOCK", self.file())
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("offset")
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
