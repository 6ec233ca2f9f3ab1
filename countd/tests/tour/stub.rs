//! Stubs: shell scripts that replace the programs that scripts/run calls.

use countint_tests::{console, env};
use std::fs;
use std::path::{Path, PathBuf};

/// The start of every stub. `tell` records that the program was reached; `hold` also blocks until a signal. `note_pid` records the
/// process id of a server.
const PRELUDE: &str = r#"
tell() { : >"$dir/reached"; }
hold() { tell && exec /bin/sleep 120; }
note_pid() { echo $$ >>"$dir/pids"; }
"#;

/// The programs that have a stub in every test.
pub const ALWAYS: [&str; 3] = ["cargo", "server", "countd"];

/// Replaces a program by a stub that runs `commands` and then the program itself.
///
/// `server` is the server that scripts/run starts; `redis-server` is the server that its checks start.
pub fn write(dir: &Path, program: &str, commands: &str) {
    let (note, real) = match program {
        // `cargo build` does nothing: the build results exist.
        "cargo" => (
            "",
            format!("[ \"$1\" = build ] || exec '{}' \"$@\"", env!("CARGO")),
        ),
        "server" => (
            "note_pid",
            format!("exec {} \"$@\"", env::server_command().join(" ")),
        ),
        // With arguments, countd runs a command and ends.
        "countd" => (
            "[ $# != 0 ] || note_pid",
            format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_countd")),
        ),
        // The directory of the stubs is the first on the PATH.
        _ => ("", format!("PATH=${{PATH#*:}} exec {program} \"$@\"")),
    };
    let script = format!(
        "#!/bin/sh\ndir='{}'\n{PRELUDE}{note}\n{commands}\n{real}\n",
        dir.display()
    );
    let path = path(dir, program);
    fs::write(&path, script).expect("the test's directory is writable");
    console::executable(&path);
}

/// Removes the commands that [`write`] added.
pub fn reset(dir: &Path, program: &str) {
    if ALWAYS.contains(&program) {
        write(dir, program, "");
    } else {
        fs::remove_file(path(dir, program)).expect("the stub is there");
    }
}

fn path(dir: &Path, program: &str) -> PathBuf {
    match program {
        "countd" => dir.join("target/release/countd"),
        _ => dir.join("bin").join(program),
    }
}
