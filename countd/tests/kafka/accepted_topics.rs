//! `countd log accept-topic`: another topic becomes that of the data.

use super::topics::{CREATED_AGAIN, accept, refused};
use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, start};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{Brokers, TOPIC, wait_until_counted};
use crate::support::on_note;
use countint_tests::wait_until;

/// Asserts the number of reads of each note that [`Setup::produce`] reads.
#[track_caller]
fn assert_reads<B>(setup: &Setup<B>, reads: u64) {
    let api = setup.api();
    for note in 0..40 {
        assert_eq!(api.counts(note)["read"], reads, "note {note}");
    }
}

/// The topic is created again with more partitions. What was counted stays, and the records of the new one count from its first or from its
/// end on.
pub(super) fn a_re_created_topic_is_accepted(mut setup: Setup<&Brokers>) {
    setup.produce(1);
    setup.assert_exact();
    setup.api().act("like", on_note(7, 1));
    let from_latest = ["--from", "latest"];
    for (round, partitions, options) in [
        (2, 2 * TOPIC_PARTITIONS, &[][..]),
        (3, TOPIC_PARTITIONS, &from_latest[..]),
    ] {
        setup.countd.kill();
        setup.brokers.delete_topic();
        setup.brokers.create_topic(partitions);
        setup.topic = setup.brokers.topic();
        setup.produce(round);
        let error = refused(&setup.store.server, &setup.config);
        assert!(error.contains(CREATED_AGAIN), "{error}");
        let (succeeded, errors) = accept(&setup.store, &setup.config, options);
        assert!(succeeded, "{errors}");
        setup.countd.launch();
        wait_until_counted(&setup.store, &setup.topic, PARTITIONS);
        assert_reads(&setup, 20);
    }
    setup.produce(4);
    setup.drain();
    assert_reads(&setup, 30);
    assert_eq!(setup.api().counts(7)["like"], 1);
    assert_invariants(&setup.store.server, &setup.config);
}

/// A topic with uncounted records is given up only if that is asked for.
#[test]
fn a_topic_with_uncounted_records_is_given_up_only_if_told_so() {
    const OTHER: &str = "another";
    let mut setup = Setup::start();
    setup.brokers.create_topic(OTHER, 2 * TOPIC_PARTITIONS);
    setup.produce(1);
    setup.assert_exact();
    setup.countd.kill();
    setup.produce(2);
    let config = setup.config.replace(TOPIC, OTHER);
    let (succeeded, errors) = accept(&setup.store, &config, &[]);
    assert!(!succeeded, "{errors}");
    let expected = format!(" records of the topic {TOPIC} are not counted");
    assert!(errors.contains(&expected), "{errors}");
    // Nothing has changed.
    setup.countd.launch();
    setup.assert_exact();
    assert_reads(&setup, 20);
    setup.countd.kill();
    setup.produce(3);
    let (succeeded, errors) = accept(&setup.store, &config, &["--lose-uncounted"]);
    assert!(succeeded, "{errors}");
    setup.countd = start(&setup.store, &config, "all");
    let api = setup.api();
    for note in 0..40 {
        api.act("read", on_note(note, 1));
    }
    wait_until("the reads are counted", || {
        (0..40).all(|note| api.counts(note)["read"] == 21)
    });
    assert_invariants(&setup.store.server, &config);
}
