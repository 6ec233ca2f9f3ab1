//! Wall clocks that a test sets.

use crate::env::TempDir;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
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
        let library = shim().as_os_str().to_owned();
        vec![
            ("LD_PRELOAD".into(), library),
            ("COUNTINT_CLOCK".into(), self.file().into()),
        ]
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

/// The library that replaces the clock functions, built with the C compiler.
fn shim() -> &'static Path {
    static SHIM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = SHIM.get_or_init(|| {
        let dir = TempDir::new();
        let (source, library) = (dir.path().join("clock.c"), dir.path().join("clock.so"));
        fs::write(&source, include_str!("clock.c")).expect("the test's directory is writable");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .output()
            .unwrap_or_else(|why| panic!("{}: {why}", compiler.display()));
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "clock.c does not compile: {errors}");
        (dir, library)
    });
    library
}
