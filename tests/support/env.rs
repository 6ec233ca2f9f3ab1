//! The environment: executables, module files, directories, ports and deadlines.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests live in a directory of the workspace")
}

fn file_from(variable: &str, default: &str, build: &str) -> PathBuf {
    let path = match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => workspace().join(default),
    };
    assert!(
        path.is_file(),
        "{} is missing: build it with `{build}` or set {variable}",
        path.display()
    );
    path
}

/// A command of the cargo that runs the tests, in the workspace.
///
/// It does not inherit the variables that cargo sets for a test, among them those of the package's build script: build scripts read some of
/// them, and would run again, here and in the next build without them, with everything that depends on their packages.
pub fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let of_a_package = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "OUT_DIR",
            "COUNTD_REVISION",
        ];
        if of_a_package
            .iter()
            .any(|start| name.to_string_lossy().starts_with(start))
        {
            command.env_remove(&name);
        }
    }
    command.arg(subcommand).current_dir(workspace());
    command
}

/// Builds an example of the workspace as the tests themselves are built, with the features of all members: nothing is built twice.
///
/// # Panics
/// When it does not build.
pub fn example(name: &str) -> PathBuf {
    let built = cargo("build")
        .args(["--quiet", "--locked", "--workspace", "--example", name])
        .args((!cfg!(debug_assertions)).then_some("--release"))
        .status();
    assert!(
        built.is_ok_and(|built| built.success()),
        "the example {name} builds"
    );
    // This test is in the directory `deps` beside it.
    let test = std::env::current_exe().expect("the test has a path");
    let directory = test
        .parent()
        .and_then(Path::parent)
        .expect("the test is in a directory of builds");
    directory.join("examples").join(name)
}

/// The module under test.
///
/// # Panics
/// When the file does not exist.
pub fn module() -> PathBuf {
    file_from(
        "COUNTINT_MODULE",
        "target/release/libcountint.so",
        "cargo build --release",
    )
}

/// The module built with the feature `fault-injection`.
///
/// # Panics
/// When the file does not exist.
pub fn module_with_faults() -> PathBuf {
    file_from(
        "COUNTINT_MODULE_FAULTS",
        "target/faults/libcountint.so",
        "cargo build --features fault-injection && install -D target/debug/libcountint.so target/faults/libcountint.so",
    )
}

/// The command that starts a server: the executable, after a wrapper such as valgrind if one is configured.
pub fn server_command() -> Vec<String> {
    let words = std::env::var("COUNTINT_SERVER").unwrap_or_else(|_| "redis-server".into());
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    assert!(!words.is_empty(), "COUNTINT_SERVER is empty");
    words
}

/// The command line client of the server.
pub fn cli() -> PathBuf {
    if let Some(path) = std::env::var_os("COUNTINT_CLI") {
        return PathBuf::from(path);
    }
    let server = server_command().pop().map(PathBuf::from);
    let directory = server.as_deref().and_then(Path::parent);
    ["redis-cli", "valkey-cli"]
        .iter()
        .filter_map(|name| Some(directory?.join(name)))
        .find(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from("redis-cli"))
}

/// Whether tests of generated text write it into their pages (`UPDATE_PAGES`), instead of only comparing it.
pub fn updates_pages() -> bool {
    std::env::var_os("UPDATE_PAGES").is_some()
}

/// The factor by which deadlines are extended, for instance under valgrind.
pub fn slow() -> f64 {
    match std::env::var("COUNTINT_SLOW") {
        Ok(factor) => factor.parse().expect("COUNTINT_SLOW is a number"),
        Err(_) => 1.0,
    }
}

/// `seconds`, multiplied by [`slow`].
pub fn deadline(seconds: u64) -> Duration {
    Duration::from_secs(seconds).mul_f64(slow())
}

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// A free port. Another process can take it before it is used, so starting a server is retried.
///
/// The port and the bus port of a cluster node (10,000 higher) are below the range of outgoing connections. Calls return
/// different ports.
pub fn free_port() -> u16 {
    const FIRST: u32 = 11_000;
    const COUNT: u32 = 10_000;
    for _ in 0..COUNT {
        let step = COUNTER.fetch_add(1, Ordering::Relaxed);
        // Each process starts at a different port, so that parallel runs rarely conflict.
        let start = std::process::id().wrapping_mul(7919);
        let port = (FIRST + start.wrapping_add(step) % COUNT) as u16;
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// A temporary directory, removed on drop (kept when the test failed and `COUNTINT_KEEP` is set).
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates an empty directory with a unique name.
    pub fn new() -> TempDir {
        let step = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("countint-test-{}-{step}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the directory for temporary files is writable");
        TempDir(path)
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("COUNTINT_KEEP").is_some() {
            eprintln!("kept: {}", self.0.display());
        } else {
            // A leftover temporary directory must not fail a test.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
