//! Libraries that replace functions of the C library in a server.

use crate::env::TempDir;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A library for `LD_PRELOAD`, which is deleted with this value.
pub(crate) struct Shim {
    _dir: TempDir,
    library: PathBuf,
}

impl Shim {
    /// Builds a library from its source with the C compiler.
    pub fn build(name: &str, source: &str) -> Shim {
        let dir = TempDir::new();
        let file = dir.path().join(format!("{name}.c"));
        let library = dir.path().join(format!("{name}.so"));
        fs::write(&file, source).expect("the test's directory is writable");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &file])
            // Before glibc 2.34, dlsym is in a library of its own.
            .arg("-ldl")
            .output()
            .unwrap_or_else(|why| panic!("{}: {why}", compiler.display()));
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(
            built.status.success(),
            "{name}.c does not compile: {errors}"
        );
        Shim { _dir: dir, library }
    }

    /// The environment variables of a process that uses it, and another one.
    pub fn environment(&self, name: &str, value: PathBuf) -> Vec<(OsString, OsString)> {
        let library = self.library.as_os_str().to_owned();
        vec![("LD_PRELOAD".into(), library), (name.into(), value.into())]
    }
}
