//! The crowd goes on through `kill -9`: what the server comes back with is whole marks.

use super::append_only_file;
use super::book::Book;
use super::crowd::{Crowd, Lost};
use crate::traffic::Random;
use countint_tests::{Server, env};
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::time::Duration;

const KILLS: u64 = 20;

fn server(sync: &str) -> Server {
    Server::builder()
        .append_only(true)
        .config(&format!("appendfsync {sync}"))
        // The file is cut below, so it may not be another all of a sudden.
        .config("auto-aof-rewrite-percentage 0")
        .start()
}

fn random_moment(random: &mut Random) -> Duration {
    Duration::from_millis(20 + random.below(600)).mul_f64(env::slow())
}

/// Starts the server again and compares everything.
///
/// A server that finds its file to end within a command drops that command, but keeps what stands before it of the same
/// transaction (a server that finds it to end between two commands drops the transaction). It does not run that part
/// now; at the start after this one it would, as a part of the transaction that has been appended behind. So such a
/// file is rewritten before anything else is written. Even a write that `kill -9` interrupts can end that way.
fn come_back(server: &mut Server, book: &mut Book, crowd: &mut Crowd, lost: Lost) -> usize {
    let logged = server.log().len();
    server.start_again();
    if server.log()[logged..].contains("short read while loading the AOF") {
        server.rewrite_aof();
    }
    book.read(&mut server.client());
    crowd.settle(book.take_changes(), lost)
}

#[test]
fn nothing_acknowledged_is_lost_when_every_write_is_synced() {
    let (mut server, mut random) = (server("always"), Random(20));
    let (mut crowd, mut book) = (Crowd::new(20), Book::default());
    for round in 0..KILLS {
        if round % 4 == 3 {
            server.client().ok("BGREWRITEAOF");
        }
        crowd.run_until_killed(&mut server, random_moment(&mut random));
        come_back(&mut server, &mut book, &mut crowd, Lost::Nothing);
    }
    assert!(book.entries() > 1000, "{} changes", book.entries());
    let replica = server.replica();
    assert_eq!(server.client().digest(), replica.client().digest());
}

/// A killed server has written nearly all to its file, so that the file is cut as well, at any byte that was written
/// since the last start: more is never missing after a machine's failure.
#[test]
fn the_three_agree_when_the_last_second_is_missing() {
    let (mut server, mut random) = (server("everysec"), Random(40));
    let (mut crowd, mut book) = (Crowd::new(40), Book::default());
    let mut missing = 0;
    for round in 0..KILLS {
        let file = append_only_file(&server);
        let start = size(&file);
        crowd.run_until_killed(&mut server, random_moment(&mut random));
        if round % 2 == 1 {
            let kept = start + random.below(size(&file) - start + 1);
            let file = OpenOptions::new().write(true).open(file);
            file.and_then(|file| file.set_len(kept))
                .expect("the file can be cut");
        }
        missing += come_back(&mut server, &mut book, &mut crowd, Lost::TheLast);
    }
    assert!(missing > 0, "no cut has cut anything off");
    assert!(book.entries() > 1000, "{} changes", book.entries());
    let replica = server.replica();
    assert_eq!(server.client().digest(), replica.client().digest());
}

fn size(file: &PathBuf) -> u64 {
    fs::metadata(file).expect("the file is there").len()
}
