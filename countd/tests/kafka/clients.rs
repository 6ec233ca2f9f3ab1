//! The client programs of `examples/clients/kafka`, as `docs/countd/kafka-clients.md` shows them.

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS};
use crate::support::kafka::{Brokers, wait_until_counted, wait_until_published};
use crate::support::stores::module;
use crate::support::{dead_reasons, on_note, printed, run};
use countint_tests::env::workspace;
use countint_tests::{Client, Value, reply};
use std::process::Command;

/// Runs a program. Returns its output.
#[track_caller]
fn program(setup: &Setup<Brokers>, arguments: &[&str], more: &[(&str, &str)]) -> String {
    let output = Command::new(workspace().join("examples/clients/kafka/run"))
        .args(arguments)
        .env("KAFKA_BROKERS", setup.brokers.addresses())
        .env(
            "REDIS_URL",
            format!("redis://127.0.0.1:{}", setup.store.server.port()),
        )
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
