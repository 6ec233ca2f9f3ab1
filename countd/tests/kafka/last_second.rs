//! Redis with `appendfsync everysec` loses its last second: its process is killed, and its append-only file ends where it was last synced, as
//! after a failure of the machine. The committed offsets of the group are deleted or set to other values meanwhile. Needs real brokers: the
//! mock cluster cannot delete a group.

use super::offsets::{self, GROUP};
use super::{PARTITIONS, Setup, act_until_accepted, assert_equals_records, read};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{Brokers, SentReads, Topic, wait_until_published};
use crate::support::stores::TestStore;
use crate::support::workload::{Random, StopOnDrop};
use crate::support::{Api, on_note, with};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};
use std::fs::{self, OpenOptions};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const NOTES: u64 = 30;
/// The author of all notes, whose counters are derived from the likes.
const AUTHOR: u64 = 900_001;

/// What happens to the committed offsets.
type Change = fn(&Setup<&Brokers>);

/// What happens to the committed offsets while countd is down.
const OFFSETS: [(&str, Change); 3] = [
    ("deleted", |setup| setup.brokers.delete_group(GROUP)),
    ("earliest", |setup| offsets::commit(setup, |_, _| 0)),
    ("latest", |setup| offsets::commit(setup, |_, end| end)),
];

/// Redis and countd are killed under load, and the offsets change. Afterwards Redis is killed and countd goes on.
pub(super) fn the_last_second_is_lost(mut setup: Setup<&Brokers>) {
    let server = &mut setup.store.server;
    server.client().ok("CONFIG SET appendfsync everysec");
    server.configure("appendfsync everysec");
    let (topic, api, stop) = (setup.brokers.topic(), setup.api(), AtomicBool::new(false));
    let mut random = Random(14);
    let (reads, likes) = thread::scope(|scope| {
        let acting = scope.spawn(|| act(&topic, &api, &stop));
        let running = StopOnDrop(&stop);
        for (name, change_offsets) in OFFSETS {
            eprintln!("offsets: {name}");
            let before = kill_and_cut(&mut setup.store, &mut random, || setup.countd.kill());
            change_offsets(&setup);
            setup.store.server.start_again();
            assert!(counted(&setup.store) <= before, "nothing is lost");
            setup.countd.launch();
        }
        let before = kill_and_cut(&mut setup.store, &mut random, || setup.countd.suspend());
        setup.store.server.start_again();
        assert!(counted(&setup.store) <= before, "nothing is lost");
        setup.countd.resume();
        drop(running);
        acting.join().expect("it ends")
    });
    // Facts are not in the topic: clients retry those that Redis has lost.
    for like in 0..likes {
        act_until_accepted(&api, "like", &nth_like(like));
    }
    let records = setup.drain();
    assert!(reads.acknowledged_by_api() > 50 && likes > 50);
    reads.assert_in_topic(&records);
    assert_equals_records(&api, &records);
    for note in 0..NOTES {
        let likes = (0..likes).filter(|like| like % NOTES == note).count();
        assert_eq!(api.counts(note)["like"], likes, "note {note}");
    }
    wait_until_published(&setup.store, PARTITIONS);
    assert_invariants(&setup.store.server, &setup.config);
}

/// Produces reads, also through the API, and likes notes until it is stopped. Returns the reads and the number of likes.
fn act(topic: &Topic, api: &Api, stop: &AtomicBool) -> (SentReads, u64) {
    let (mut reads, mut likes) = (SentReads::default(), 0);
    while !stop.load(Relaxed) {
        let records: Vec<_> = (0..2 * NOTES).map(|i| read(i % NOTES, i)).collect();
        reads.produce(topic, &records);
        reads.act(api, likes % NOTES);
        // It fails while Redis or countd are down.
        let _ = api.try_post("/action/like", &nth_like(likes).to_string());
        likes += 1;
        thread::sleep(Duration::from_millis(10));
    }
    (reads, likes)
}

/// Each is of another user.
fn nth_like(number: u64) -> Json {
    with(on_note(number % NOTES, number), json!({ "author": AUTHOR }))
}

/// Lets Redis count for a second after a sync, kills it and then calls `kill_countd`, and cuts off that second. Returns how far it had counted
/// before.
fn kill_and_cut(store: &mut TestStore, random: &mut Random, kill_countd: impl FnOnce()) -> u64 {
    wait_until_counted_beyond(store, counted(store) + 100);
    let file = store.server.append_only_file();
    let length = || fs::metadata(&file).expect("a file").len();
    let synced = length();
    let before = counted(store);
    thread::sleep(Duration::from_secs(1));
    wait_until_counted_beyond(store, before + 100);
    assert_eq!(store.server.append_only_file(), file, "a rewrite");
    store.server.kill();
    kill_countd();
    let end = length();
    // In the midst of a command. The server may not have written more, if a sync took long.
    let left = (synced - random.below(64)).min(end);
    eprintln!("{} of {end} bytes are lost", end - left);
    let file = { OpenOptions::new() }.write(true).open(&file);
    file.and_then(|file| file.set_len(left)).expect("cut");
    before
}

fn wait_until_counted_beyond(store: &TestStore, position: u64) {
    wait_until("more is counted", || counted(store) > position);
}

/// The sum of the positions of all partitions in the topic.
fn counted(store: &TestStore) -> u64 {
    let mut client = store.server.client();
    let position = |partition: u16| {
        let field = format!("topic:{partition}");
        match client.call(&["HGET", &store.positions(partition), &field]) {
            countint_tests::Value::Nil => 0,
            found => reply::text(found).parse().expect("a number"),
        }
    };
    (0..PARTITIONS).map(position).sum()
}
