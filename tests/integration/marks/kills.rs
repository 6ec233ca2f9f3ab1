//! Writers continue across `kill -9`: after a restart each mark is there completely or not at all.

use super::checker::Checker;
use super::writers::{AllowedLoss, Writers};
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
        // The test truncates the file, so the server must not rewrite it.
        .config("auto-aof-rewrite-percentage 0")
        .start()
}

fn random_moment(random: &mut Random) -> Duration {
    Duration::from_millis(20 + random.below(600)).mul_f64(env::slow())
}

/// Restarts the server and compares all data.
///
/// A server whose file ends within a command truncates that command, but keeps the earlier commands of the same
/// transaction in the file (if the file ends between two commands it truncates the whole transaction). It does not execute
/// that part now, but the next start would, together with what was appended after it. So such a file is rewritten before
/// other writes. A write interrupted by `kill -9` can also leave such a file.
fn restart_and_check(
    server: &mut Server,
    checker: &mut Checker,
    writers: &mut Writers,
    lost: AllowedLoss,
) -> usize {
    let logged = server.log().len();
    server.start_again();
    if server.log()[logged..].contains("short read while loading the AOF") {
        server.rewrite_aof();
    }
    checker.read(&mut server.client());
    writers.reconcile(checker.take_changes(), lost)
}

#[test]
fn acknowledged_marks_survive_kills_with_appendfsync_always() {
    let (mut server, mut random) = (server("always"), Random(20));
    let (mut writers, mut checker) = (Writers::new(20), Checker::default());
    for round in 0..KILLS {
        if round % 4 == 3 {
            server.client().ok("BGREWRITEAOF");
        }
        writers.run_until_killed(&mut server, random_moment(&mut random));
        restart_and_check(
            &mut server,
            &mut checker,
            &mut writers,
            AllowedLoss::Nothing,
        );
    }
    assert!(checker.entries() > 1000, "{} changes", checker.entries());
    let replica = server.replica();
    assert_eq!(server.client().digest(), replica.client().digest());
}

/// A killed server has written nearly everything to its file, so the file is also truncated at a random byte written since
/// the last start. A power failure cannot lose more.
#[test]
fn set_counter_and_stream_agree_after_a_truncated_file() {
    let (mut server, mut random) = (server("everysec"), Random(40));
    let (mut writers, mut checker) = (Writers::new(40), Checker::default());
    let mut missing = 0;
    for round in 0..KILLS {
        let file = server.append_only_file();
        let start = size(&file);
        writers.run_until_killed(&mut server, random_moment(&mut random));
        if round % 2 == 1 {
            let kept = start + random.below(size(&file) - start + 1);
            let file = OpenOptions::new().write(true).open(file);
            file.and_then(|file| file.set_len(kept))
                .expect("the file can be truncated");
        }
        missing += restart_and_check(
            &mut server,
            &mut checker,
            &mut writers,
            AllowedLoss::LastOfEachWriter,
        );
    }
    assert!(missing > 0, "no truncation lost a change");
    assert!(checker.entries() > 1000, "{} changes", checker.entries());
    let replica = server.replica();
    assert_eq!(server.client().digest(), replica.client().digest());
}

fn size(file: &PathBuf) -> u64 {
    fs::metadata(file).expect("the file is there").len()
}
