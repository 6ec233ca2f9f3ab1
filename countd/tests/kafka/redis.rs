//! Redis loses its last writes: counters, facts and positions go back together, and the topic is read again from there.

use super::{PARTITIONS, Setup, read};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::wait_until_published;
use crate::support::on_note;
use crate::support::stores::module;
use countint_tests::wait_until;
use std::thread;
use std::time::Duration;

/// A server whose data is that of its last snapshot after a kill.
fn without_append_only_file(setup: &mut Setup) {
    setup.store.server.client().ok("CONFIG SET appendonly no");
    setup.store.server.configure("appendonly no");
}

fn produce(setup: &Setup, round: u64) {
    let records: Vec<_> = (0..600).map(|i| read(i % 30, round * 1000 + i)).collect();
    setup.topic.produce(&records);
}

#[test]
fn records_count_once_when_redis_loses_its_last_writes() {
    let mut setup = Setup::with(module(), "");
    without_append_only_file(&mut setup);
    for round in 0..4 {
        produce(&setup, 3 * round);
        setup.drain();
        setup.store.server.client().ok("SAVE");
        // Counted, and lost.
        produce(&setup, 3 * round + 1);
        if round % 2 == 0 {
            setup.drain();
        }
        setup.store.server.kill();
        produce(&setup, 3 * round + 2);
        setup.store.server.start_again();
        // The process has gone on, with what it had read.
        setup.assert_exact();
    }
    assert_eq!(setup.api().counts(7)["read"], 4 * 3 * 20);
    assert_invariants(&setup.store.server, &setup.config);
}

/// The process is killed, too, and another one reads from the positions of the snapshot.
#[test]
fn records_count_once_when_redis_and_countd_lose_their_last_writes() {
    let mut setup = Setup::with(module(), "");
    without_append_only_file(&mut setup);
    for round in 0..2 {
        produce(&setup, 2 * round);
        setup.drain();
        setup.store.server.client().ok("SAVE");
        produce(&setup, 2 * round + 1);
        setup.drain();
        setup.store.server.kill();
        setup.countd.kill();
        setup.store.server.start_again();
        setup.countd.launch();
        setup.assert_exact();
    }
    assert_invariants(&setup.store.server, &setup.config);
}

/// With an append-only file, nothing is lost. Likes and their copies go on.
#[test]
fn records_and_facts_count_once_when_redis_is_killed() {
    let mut setup = Setup::with(module(), "");
    for round in 0..4 {
        produce(&setup, round);
        for note in 0..30 {
            // While countd has no connection to the server, likes are rejected.
            wait_until("the like is accepted", || {
                let (status, json) = setup.api().post("/action/like", &on_note(note, round));
                assert!(status == 200 || status == 503, "{status}: {json}");
                status == 200
            });
        }
        thread::sleep(Duration::from_millis(40 * round));
        setup.store.server.kill();
        setup.store.server.start_again();
    }
    setup.assert_exact();
    for note in 0..30 {
        assert_eq!(setup.api().counts(note)["like"], 4, "note {note}");
    }
    wait_until_published(&setup.store, PARTITIONS);
    assert_invariants(&setup.store.server, &setup.config);
}
