//! Runs the example of docs/countd/import.md.

use crate::support::{Countd, wait_until_drained};
use countint_tests::Server;
use countint_tests::env::{self, TempDir};
use countint_tests::page::{self, Block};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/countd/import.md";

/// A program in `dir` that runs `command` with its own arguments appended.
fn wrap(dir: &Path, name: &str, command: &str) {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\nexec {command} \"$@\"\n")).expect("a script is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is executable");
}

/// The commands of a block and the output of each.
fn commands(block: &Block) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for (_, line) in block.numbered() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((_, printed))) => {
                printed.push_str(line);
                printed.push('\n');
            }
            (None, None) => panic!("{PAGE}:{}: no command", block.line),
        }
    }
    commands
}

#[test]
fn the_example_of_the_page_prints_what_it_says() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let dir = TempDir::new();
    let path = std::env::var("PATH").unwrap_or_default();
    wrap(dir.path(), "countd", env!("CARGO_BIN_EXE_countd"));
    let cli = env::cli();
    // With the original PATH, because `env::cli` may be a name, and this is a program with the same name.
    let cli = format!("env PATH='{path}' '{}' -p {}", cli.display(), server.port());
    wrap(dir.path(), "redis-cli", &cli);
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let run = |command: &str| {
        let output = Command::new("bash")
            .args(["-euc", command])
            .current_dir(dir.path())
            .env("PATH", format!("{}:{path}", dir.path().display()))
            .env("COUNTD_REDIS__URL", &url)
            .env("SOURCE", &url)
            .output()
            .expect("bash runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut done = 0;
    for block in page::read(PAGE) {
        match block.mark.as_str() {
            "sh" => assert_eq!(run(&block.text()), ""),
            "console" => {
                for (command, printed) in commands(&block) {
                    assert_eq!(run(&command), printed, "{command}");
                    done += 1;
                }
            }
            mark => panic!("{PAGE}:{}: an unknown mark: {mark:?}", block.line),
        }
    }
    assert!(done >= 9, "{done}");
    wait_until_drained(&server, 1024);
    let api = countd.api();
    let counts = |eid| {
        let counts = api.counts(eid);
        ["like", "read", "comment"].map(|metric| counts[metric].as_u64().expect("a count"))
    };
    assert_eq!(counts(1), [2, 120, 3]);
    assert_eq!(counts(2), [1, 45, 0]);
    assert_eq!(counts(3), [3, 70, 2]);
    assert_eq!(api.user(7)["likesReceived"], 3);
}
