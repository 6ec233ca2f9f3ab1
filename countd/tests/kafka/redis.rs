//! Redis loses its last writes: counters, facts and positions go back together, and the topic is read again from there.

use super::{PARTITIONS, Setup, act_until_accepted, read};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::wait_until_published;
use crate::support::{on_note, with};
use serde_json::json;
use std::thread;
use std::time::Duration;

const NOTES: u64 = 30;
/// The author of all notes, whose counters are derived from the likes.
const AUTHOR: u64 = 900_001;

/// A server whose data is that of its last snapshot after a kill.
fn without_append_only_file<B>(setup: &mut Setup<B>) {
    setup.store.server.client().ok("CONFIG SET appendonly no");
    setup.store.server.configure("appendonly no");
}

/// Produces 20 reads of each note.
fn produce<B>(setup: &Setup<B>, round: u64) {
    let records: Vec<_> = (0..20 * NOTES)
        .map(|i| read(i % NOTES, round * 1000 + i))
        .collect();
    setup.topic.produce(&records);
}

/// Likes all notes as a user.
fn like<B>(setup: &Setup<B>, uid: u64) {
    for note in 0..NOTES {
        let action = with(on_note(note, uid), json!({ "author": AUTHOR }));
        act_until_accepted(&setup.api(), "like", &action);
    }
}

/// Asserts that each note has this number of likes.
#[track_caller]
fn assert_likes<B>(setup: &Setup<B>, likes: u64) {
    for note in 0..NOTES {
        assert_eq!(setup.api().counts(note)["like"], likes, "note {note}");
    }
}

/// Asserts that each note has this number of reads, and that counters and facts agree when all copies are in the topic.
#[track_caller]
fn assert_consistent<B>(setup: &Setup<B>, reads: u64) {
    for note in 0..NOTES {
        assert_eq!(setup.api().counts(note)["read"], reads, "note {note}");
    }
    wait_until_published(&setup.store, PARTITIONS);
    assert_invariants(&setup.store.server, &setup.config);
}

/// Likes all notes again as a user whose likes Redis has lost. `likes` is the number of likes of each note afterwards.
#[track_caller]
fn like_again<B>(setup: &Setup<B>, uid: u64, likes: u64) {
    assert_likes(setup, likes - 1);
    like(setup, uid);
    setup.assert_exact();
    assert_likes(setup, likes);
    assert_invariants(&setup.store.server, &setup.config);
}

#[test]
fn records_count_once_when_redis_loses_its_last_writes() {
    redis_loses_writes(Setup::start());
}

/// The process goes on. Facts are only in Redis: the likes after the snapshot are lost, and can be repeated.
pub(super) fn redis_loses_writes<B>(mut setup: Setup<B>) {
    without_append_only_file(&mut setup);
    for round in 0..4 {
        let (kept, lost) = (2 * round, 2 * round + 1);
        produce(&setup, 3 * round);
        like(&setup, kept);
        setup.drain();
        setup.store.server.client().ok("SAVE");
        // Counted, and lost.
        produce(&setup, 3 * round + 1);
        like(&setup, lost);
        if round % 2 == 0 {
            setup.drain();
        }
        setup.store.server.kill();
        produce(&setup, 3 * round + 2);
        setup.store.server.start_again();
        // The process has gone on, with what it had read.
        setup.assert_exact();
        like_again(&setup, lost, 2 * round + 2);
    }
    assert_consistent(&setup, 4 * 3 * 20);
}

#[test]
fn records_count_once_when_redis_and_countd_lose_their_last_writes() {
    redis_and_countd_lose_writes(Setup::start());
}

/// The process is killed, too, and another one reads from the positions of the snapshot.
pub(super) fn redis_and_countd_lose_writes<B>(mut setup: Setup<B>) {
    without_append_only_file(&mut setup);
    for round in 0..2 {
        let (kept, lost) = (2 * round, 2 * round + 1);
        produce(&setup, 2 * round);
        like(&setup, kept);
        setup.drain();
        setup.store.server.client().ok("SAVE");
        produce(&setup, 2 * round + 1);
        like(&setup, lost);
        setup.drain();
        setup.store.server.kill();
        setup.countd.kill();
        setup.store.server.start_again();
        setup.countd.launch();
        setup.assert_exact();
        like_again(&setup, lost, 2 * round + 2);
    }
    assert_consistent(&setup, 2 * 2 * 20);
}

#[test]
fn records_and_facts_count_once_when_redis_is_killed() {
    redis_is_killed(Setup::start());
}

/// With an append-only file, nothing is lost. Likes and their copies go on.
pub(super) fn redis_is_killed<B>(mut setup: Setup<B>) {
    for round in 0..4 {
        produce(&setup, round);
        like(&setup, round);
        thread::sleep(Duration::from_millis(40 * round));
        setup.store.server.kill();
        setup.store.server.start_again();
    }
    setup.assert_exact();
    assert_likes(&setup, 4);
    assert_consistent(&setup, 4 * 20);
}
