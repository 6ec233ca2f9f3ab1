//! The client programs of `examples/clients/kafka`, as `docs/countd/kafka-clients.md` shows them.

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS};
use crate::support::kafka::{Brokers, wait_until_counted, wait_until_published};
use crate::support::stores::module;
use crate::support::{dead_reasons, on_note, printed, run};
use countint_tests::env::{deadline, workspace};
use countint_tests::{Client, Value, reply};
use std::collections::VecDeque;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The command that runs a program.
fn command(setup: &Setup<Brokers>, arguments: &[&str]) -> Command {
    let mut command = Command::new(workspace().join("examples/clients/kafka/run"));
    let redis = format!("redis://127.0.0.1:{}", setup.store.server.port());
    command
        .args(arguments)
        .env("KAFKA_BROKERS", setup.brokers.addresses())
        .env("REDIS_URL", redis);
    command
}

/// Runs a program. Returns its output.
#[track_caller]
fn program(setup: &Setup<Brokers>, arguments: &[&str], more: &[(&str, &str)]) -> String {
    let output = command(setup, arguments)
        .envs(more.iter().copied())
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn programs_in_java_and_python_feed_the_topic() {
    let setup = Setup::on(Brokers::start(1, TOPIC_PARTITIONS), module(), "");
    assert_eq!(program(&setup, &["python-producer"], &[]), "sent 102");
    let compressions = ["none", "gzip", "snappy", "lz4", "zstd"];
    for compression in compressions {
        let more = [("KAFKA_COMPRESSION", compression)];
        assert_eq!(program(&setup, &["java-producer"], &more), "sent 102");
    }
    setup.assert_exact();
    let api = setup.api();
    for note in 0..10 {
        assert_eq!(api.counts(note)["read"], 60, "note {note}");
    }
    // Each program has its comment, which counts once.
    assert_eq!(api.counts(3)["comment"], 2);
    let reasons = dead_reasons(&setup.store.server, &setup.config);
    assert!(reasons.is_empty(), "{reasons:#?}");
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn a_program_in_java_counts_the_topic_by_itself() {
    let setup = Setup::on(Brokers::start(1, TOPIC_PARTITIONS), module(), "");
    let api = setup.api();
    let hot = |arguments: &[&str]| {
        let all = [&["hot"], arguments].concat();
        printed(&run(&setup.store.server, &setup.config, &all));
    };
    for (round, group) in [(1, "one"), (2, "two"), (3, "three")] {
        // Copies of a split entity have the keys of its shards.
        match round {
            2 => hot(&["split", "note:3", "--shards", "4", "--grace", "0"]),
            3 => hot(&["merge", "note:3"]),
            _ => {}
        }
        setup.produce(1);
        for note in 0..40 {
            for uid in 0..3 {
                api.act("like", on_note(note, uid + 10 * round));
            }
            api.act("unlike", on_note(note, 10 * round));
        }
        wait_until_counted(&setup.store, &setup.topic, PARTITIONS);
        wait_until_published(&setup.store, PARTITIONS);
        // A group without committed offsets reads everything again: the fences refuse what was counted.
        let read = program(
            &setup,
            &["java-aggregator", "once"],
            &[("KAFKA_GROUP", group)],
        );
        assert!(read.starts_with("read "), "{read}");
        let mut client = setup.store.server.client();
        for note in 0..40 {
            let key = format!("agg:note:{note}");
            let keys = reply::array(client.call(&["KEYS", &format!("{key}~*")]));
            let shards: Vec<String> = keys.into_iter().map(reply::text).collect();
            assert!(round > 1 || shards.is_empty(), "{shards:?}");
            assert!(round == 1 || note != 3 || !shards.is_empty(), "{shards:?}");
            let mut counts = counts_of(&mut client, &key);
            for shard in &shards {
                let [reads, likes] = counts_of(&mut client, shard);
                assert!(round < 3 || [reads, likes] == [0, 0], "{shard}");
                counts = [counts[0] + reads, counts[1] + likes];
            }
            let expected = ["read", "like"].map(|metric| api.counts(note)[metric].as_i64());
            assert_eq!(counts.map(Some), expected, "note {note}");
        }
    }
}

/// A program that runs until it is killed.
struct Killed(Child);

impl Killed {
    fn start(setup: &Setup<Brokers>, arguments: &[&str]) -> Killed {
        let mut command = command(setup, arguments);
        Killed(command.spawn().expect("it runs"))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Members of a consumer group that join and are killed while there is something to read: partitions move in the midst of batches, and what
/// a killed member has written but not committed is read again.
#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn programs_in_java_that_share_the_topic_and_are_killed_count_once() {
    /// How long reads are produced in each step: longer than it takes to start a member.
    const STEP: Duration = Duration::from_secs(8);
    let setup = Setup::on(Brokers::start(1, TOPIC_PARTITIONS), module(), "");
    let start = || Killed::start(&setup, &["java-aggregator"]);
    let mut rounds = 0;
    let mut produce = || {
        let begun = Instant::now();
        while begun.elapsed() < STEP {
            setup.produce(rounds);
            rounds += 1;
        }
    };
    let mut members = VecDeque::from([start()]);
    for _ in 0..2 {
        // Partitions move to the new member.
        members.push_back(start());
        produce();
        // Then those of the killed one, 45 seconds after its last heartbeat.
        members.pop_front();
        produce();
    }
    let expected = vec![i64::try_from(10 * rounds).expect("a number"); 40];
    let mut client = setup.store.server.client();
    let mut counted = || -> Vec<i64> {
        let reads = (0..40).map(|note| reads_of(&mut client, note));
        reads.collect()
    };
    let limit = Instant::now() + deadline(180);
    while counted().iter().sum::<i64>() < expected.iter().sum() {
        assert!(Instant::now() < limit, "{:?}", counted());
        sleep(Duration::from_millis(500));
    }
    drop(members);
    assert_eq!(counted(), expected);
}

/// The reads of a note that the program has counted; 0 if it has no object.
fn reads_of(client: &mut Client, note: u64) -> i64 {
    match client.call(&["CINT.GET", &format!("agg:note:{note}"), "0"]) {
        Value::Int(reads) => reads,
        _ => 0,
    }
}

/// The reads and likes that the program has counted in an object.
fn counts_of(client: &mut Client, key: &str) -> [i64; 2] {
    let fields = reply::array(client.call(&["CINT.DUMP", key]));
    [0, 1].map(|field| match &fields[field] {
        Value::Int(count) => *count,
        other => panic!("{key}: {other:?}"),
    })
}

/// Each block after a comment that names a file consists of lines of that file, apart from their indentation.
#[test]
fn the_page_shows_the_programs() {
    let page = std::fs::read_to_string(workspace().join("docs/countd/kafka-clients.md"));
    let page = page.expect("the page");
    let flat = |text: &str| -> String {
        let lines = text.lines().map(|line| format!("\n{}", line.trim()));
        lines.collect::<String>() + "\n"
    };
    let quoted: Vec<&str> = page.split("<!-- examples/").skip(1).collect();
    assert_eq!(quoted.len(), 3);
    for part in quoted {
        let (file, rest) = part.split_once(" -->").expect("a comment");
        let (_, block) = rest.split_once("```").expect("a block");
        let (block, _) = block.split_once("```").expect("the end of the block");
        let (_, block) = block.split_once('\n').expect("the first line");
        let text = std::fs::read_to_string(workspace().join("examples").join(file));
        let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(flat(&text).contains(&flat(block)), "{file}:\n{block}");
    }
}
