//! The commands of docs/countd/operations.md that create Redis users.

use crate::support::{printed, run_as_user, set_schema};
use countint_tests::env::{self, TempDir};
use countint_tests::{Server, page};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const USERS: [&str; 5] = [
    "countd-serve",
    "countd-consume",
    "countd-relay",
    "countd-sink",
    "countd",
];

/// A program in `dir` that runs `command` with its own arguments appended.
fn wrap(dir: &Path, name: &str, command: &str) {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\nexec {command} \"$@\"\n")).expect("a script is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is executable");
}

#[test]
fn documented_commands_create_the_users() {
    let server = Server::start();
    set_schema(&server, "");
    let blocks = page::read("docs/countd/operations.md");
    let block = blocks.iter().find(|block| block.mark == "sh");
    let commands = block.expect("a block of commands").text();
    let password = "s/PASSWORD/.../";
    assert!(commands.contains(password), "{commands}");
    let dir = TempDir::new();
    let path = std::env::var("PATH").unwrap_or_default();
    wrap(dir.path(), "countd", env!("CARGO_BIN_EXE_countd"));
    // With the original PATH, because `env::cli` may be a name, and this is a program with the same name.
    let cli = env::cli();
    let cli = format!("env PATH='{path}' '{}' -p {}", cli.display(), server.port());
    wrap(dir.path(), "redis-cli", &cli);
    let output = Command::new("bash")
        .args(["-euc", &commands.replace(password, "s/PASSWORD/secret/")])
        .current_dir(dir.path())
        .env("PATH", format!("{}:{path}", dir.path().display()))
        .env(
            "COUNTD_REDIS__URL",
            format!("redis://127.0.0.1:{}/", server.port()),
        )
        .output()
        .expect("bash runs");
    assert_eq!(printed(&output), "OK\n".repeat(USERS.len()));
    let mut client = server.client();
    for user in USERS {
        client.ok(&format!("AUTH {user} secret"));
    }
    let checked = printed(&run_as_user(&server, "countd", "", &["check"]));
    assert!(checked.contains("permissions: ok"), "{checked}");
}
