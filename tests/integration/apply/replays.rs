//! Readers crash and rewind to earlier offsets, on a model of the rules and on a server.

use super::log::{FIELDS, KEYS, LAST, Log, PARTITIONS};
use super::reader::Reader;
use super::store::{Batch, ConnectionLost, Model, Store, fields};
use crate::traffic::Random;
use countint_tests::{Client, Server};

/// Applies batches to the model and, if present, to a server. After each batch the key must hold the sum of its events
/// below its fences.
struct Checked<'a> {
    model: Model,
    server: Option<&'a mut Client>,
    logs: &'a [Log],
}

impl Store for Checked<'_> {
    fn apply(&mut self, batch: &Batch) -> Result<u64, ConnectionLost> {
        let next = self.model.apply(batch)?;
        if let Some(server) = &mut self.server {
            assert_eq!(server.apply(batch)?, next, "the reply to {batch:?}");
        }
        self.check(batch.key);
        Ok(next)
    }
}

impl Checked<'_> {
    fn check(&mut self, key: usize) {
        let values = self.model.fields(key);
        let fences: Vec<u64> = values[..PARTITIONS].to_vec();
        assert_eq!(
            values[PARTITIONS..],
            sum(self.logs, key, &fences),
            "key {key}"
        );
        if let Some(server) = &mut self.server {
            assert_eq!(fields(server, key), values, "key {key}");
        }
    }
}

/// The sum of a key's events below each log's offset.
pub fn sum(logs: &[Log], key: usize, below: &[u64]) -> Vec<u64> {
    let mut total = vec![0; FIELDS - PARTITIONS];
    for (log, below) in logs.iter().zip(below) {
        let sum = log.sum(key, *below);
        let sum = sum[PARTITIONS..].iter().map(|n| *n as u64);
        total.iter_mut().zip(sum).for_each(|(t, n)| *t += n);
    }
    total
}

/// Logs with random first offsets, one of which ends at the largest possible offset.
fn logs(random: &mut Random) -> Vec<Log> {
    let log = |fence| {
        let count = 1 + random.below(250);
        let first = match random.below(4) {
            0 => LAST + 1 - count,
            1 => random.below(LAST - count),
            _ => random.below(3),
        };
        Log::random(random, fence, first, count)
    };
    (0..PARTITIONS).map(log).collect()
}

/// Two readers of each log take turns at random until all have reached its end. Returns the number of partly applied
/// batches.
fn replay(seed: u64, server: Option<&mut Client>) -> u64 {
    let mut random = Random(seed);
    let logs = logs(&mut random);
    let mut readers: Vec<Reader<&Log>> = Vec::new();
    for log in logs.iter().chain(&logs) {
        let mut reader = Reader::new(log, log.fence, log.offsets().start, random.next());
        reader.crashes = random.below(12);
        readers.push(reader);
    }
    let mut store = Checked {
        model: Model::default(),
        server,
        logs: &logs,
    };
    let (mut partial, mut recovered) = (0, 0);
    while !readers.is_empty() {
        let at = random.below(readers.len() as u64) as usize;
        if !readers[at].step(&mut store).expect("the server is there") {
            let reader = readers.remove(at);
            partial += reader.partial;
            recovered += reader.recovered;
        }
    }
    for key in 0..KEYS {
        store.check(key);
        let all: Vec<u64> = logs.iter().map(|log| log.offsets().end).collect();
        let values = store.model.fields(key);
        assert_eq!(values[PARTITIONS..], sum(&logs, key, &all), "key {key}");
    }
    assert_eq!(
        recovered, 0,
        "a batch was applied twice although none was lost"
    );
    partial
}

#[test]
fn replays_count_once_in_the_model() {
    let partial: u64 = (0..300).map(|seed| replay(seed, None)).sum();
    assert!(
        partial > 1000,
        "{partial} batches were applied in part before"
    );
}

#[test]
fn replays_count_once_on_a_server() {
    let server = Server::start();
    let replica = Server::builder()
        .module_args("default-len 2")
        .replica_of(&server)
        .start();
    let mut client = server.client();
    let mut partial = 0;
    for seed in 1000..1030 {
        client.ok("FLUSHALL");
        partial += replay(seed, Some(&mut client));
        server.wait_for_replica(&replica);
        assert_eq!(client.digest(), replica.client().digest(), "seed {seed}");
    }
    assert!(
        partial > 100,
        "{partial} batches were applied in part before"
    );
    let reported = client.info_number("countint", "countint_partial_applies");
    assert_eq!(reported, partial);
}

/// All readers at once, each on its own connection.
#[test]
fn concurrent_readers_count_once() {
    let server = Server::start();
    let mut random = Random(8);
    let logs: Vec<Log> = (0..PARTITIONS)
        .map(|fence| Log::random(&mut random, fence, 0, 5000))
        .collect();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            for log in &logs {
                let mut client = server.client();
                scope.spawn(move || {
                    let mut reader = Reader::new(log, log.fence, 0, seed);
                    reader.crashes = 10;
                    while reader.step(&mut client).expect("the server is there") {}
                    assert_eq!(reader.recovered, 0);
                });
            }
        }
    });
    let mut client = server.client();
    for key in 0..KEYS {
        let counts = &fields(&mut client, key)[PARTITIONS..];
        assert_eq!(counts, sum(&logs, key, &[5000, 5000]), "key {key}");
    }
}
