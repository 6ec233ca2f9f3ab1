//! An append-only file truncated within a mark, with the settings of `redis.conf`: the server refuses it, and after
//! `redis-check-aof --fix` the whole mark is missing, also after another restart.

use countint_tests::{Client, Server};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const MARK: &str = "RBM.MARK s 2 COUNT c 0 EVENT x SEQ f v";

/// The cardinality of the set, the length of the stream and the counter.
fn cardinality_length_count(client: &mut Client) -> [String; 3] {
    ["RBM.CARD s", "XLEN x", "CINT.GET c 0"].map(|line| client.run(line))
}

fn all(n: u64) -> [String; 3] {
    [(); 3].map(|()| format!("(integer) {n}"))
}

/// Repairs the file as the manual describes.
fn repair(directory: &Path) {
    let mut check = Command::new("redis-check-aof")
        .arg("--fix")
        .arg(directory.join("appendonlydir/appendonly.aof.manifest"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-check-aof comes with redis-cli");
    let mut stdin = check.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut stdin, b"y\n").expect("redis-check-aof asks for confirmation");
    let output = check.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Successfully truncated"), "{said}");
}

#[test]
fn truncated_mark_is_dropped_as_a_whole() {
    let mut server = Server::builder()
        .append_only(false)
        .config("appendfsync always")
        .config("aof-load-truncated no")
        .start();
    let mut client = server.client();
    client.ok("RBM.MARK s 1 COUNT c 0 EVENT x SEQ f v");
    let file = server.append_only_file();
    let one = fs::read(&file).expect("it can be read");
    client.ok(MARK);
    server.kill();
    let two = fs::read(&file).expect("it can be read");

    // Within MULTI, XADD, RBM.ADD, CINT.INCRBY and EXEC.
    let words = ["MULTI", "XADD", "RBM.ADD", "CINT.INCRBY", "EXEC"];
    for word in words {
        let at = find(&two[one.len()..], word.as_bytes()) + one.len() + 2;
        fs::write(&file, &two[..at]).expect("it can be written");
        let log = server
            .try_start_again()
            .expect_err("the server refuses the file");
        assert!(log.contains("Unexpected end of file"), "{word}: {log}");
        repair(server.dir());
        server.start_again();
        let mut client = server.client();
        assert_eq!(
            cardinality_length_count(&mut client),
            all(1),
            "cut in {word}"
        );
        client.ok(MARK);
        server.kill();
        server.start_again();
        assert_eq!(
            cardinality_length_count(&mut server.client()),
            all(2),
            "cut in {word}"
        );
        server.kill();
    }
}

/// The first position of `word` in `bytes`.
fn find(bytes: &[u8], word: &[u8]) -> usize {
    let mut windows = bytes.windows(word.len());
    windows
        .position(|window| window.eq_ignore_ascii_case(word))
        .unwrap_or_else(|| panic!("no {} in the file", String::from_utf8_lossy(word)))
}
