//! The example programs run, and leave nothing behind.

use std::process::Command;

use countint_tests::{Server, env};

fn run(example: &str) {
    let server = Server::start();
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--package",
            "countint",
            "--example",
            example,
        ])
        .current_dir(env::workspace())
        .env("REDIS_URL", format!("redis://127.0.0.1:{}", server.port()))
        .output()
        .expect("cargo runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{example}: {printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!printed.trim().is_empty(), "{example} says what it does");
    server.client().expect("DBSIZE", "(integer) 0");
}

#[test]
fn like_button() {
    run("like_button");
}

#[test]
fn feed_page() {
    run("feed_page");
}

#[test]
fn import_hashes() {
    run("import_hashes");
}

#[test]
fn import_bitfield() {
    run("import_bitfield");
}
