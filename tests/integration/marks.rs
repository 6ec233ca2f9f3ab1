//! `RBM.MARK` and `RBM.UNMARK`: the fact, its count and its event are one step, whoever else writes and whenever the
//! server dies.

mod book;
mod crowd;
mod effects;
mod kills;
mod readers;
mod refusals;
mod torn;

use book::Book;
use countint_tests::Server;
use crowd::Crowd;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The file that the server appends to.
fn append_only_file(server: &Server) -> PathBuf {
    let files = fs::read_dir(server.dir().join("appendonlydir")).expect("there is a file");
    let mut files: Vec<PathBuf> = files
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// How long the crowd goes on, in seconds; `COUNTINT_MARK_SECONDS` overrides it.
fn duration() -> Duration {
    let seconds = match std::env::var("COUNTINT_MARK_SECONDS") {
        Ok(seconds) => seconds
            .parse()
            .expect("COUNTINT_MARK_SECONDS is a whole number"),
        Err(_) => 30,
    };
    Duration::from_secs(seconds)
}

#[test]
fn a_crowd_on_the_same_members() {
    let master = Server::start();
    let replica = Server::builder()
        .config("repl-timeout 3600")
        .replica_of(&master)
        .start();
    master
        .client()
        .ok("CONFIG SET client-output-buffer-limit \"replica 0 0 0\"");
    let mut crowd = Crowd::new(1);
    crowd.run(master.port(), duration());
    master.wait_for_replica(&replica);

    let mut book = Book::default();
    std::thread::scope(|scope| {
        // Both read all the entries; the replica's agree among themselves too.
        scope.spawn(|| Book::default().read(&mut replica.client()));
        book.read(&mut master.client());
    });
    let changes = book.take_changes();
    crowd.settle(changes, crowd::Lost::Nothing);
    assert_eq!(master.client().digest(), replica.client().digest());
    assert!(book.entries() > 1000, "{} changes", book.entries());
}
