//! Shell scripts that scripts/run finds in place of the programs that it runs.

use countint_tests::{console, env};
use std::fs;
use std::path::{Path, PathBuf};

/// What every stub begins with. `tell` notes that the program was reached; `hold` also keeps it from running until a
/// signal ends it. `note_pid` notes a server.
const PRELUDE: &str = r#"
tell() { : >"$dir/reached"; }
hold() { tell && exec /bin/sleep 120; }
note_pid() { echo $$ >>"$dir/pids"; }
"#;

/// The programs that have a stub in every test.
pub const ALWAYS: [&str; 3] = ["cargo", "server", "countd"];

/// Puts a stub in the place of a program: `commands`, and then the program itself.
///
/// `server` is the server that scripts/run starts, and `redis-server` the one that its checks start.
pub fn write(dir: &Path, program: &str, commands: &str) {
    let (note, real) = match program {
        // What it would build is there.
        "cargo" => (
            "",
            format!("[ \"$1\" = build ] || exec '{}' \"$@\"", env!("CARGO")),
        ),
        "server" => (
            "note_pid",
            format!("exec {} \"$@\"", env::server_command().join(" ")),
        ),
        // With arguments it is a short command.
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

/// Makes scripts/run find a program as before [`write`].
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
