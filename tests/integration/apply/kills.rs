//! The server is killed repeatedly and loses its last second, while readers rewind by a safe margin.

use super::log::{KEYS, Log, PARTITIONS, Source};
use super::reader::Reader;
use super::replays::sum;
use super::store::fields;
use crate::traffic::{Random, Stop};
use countint_tests::{Client, Server, env};
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const KILLS: u64 = 12;

/// How far a reader rewinds before a crash. With `appendfsync everysec` a server may lose about the last 1.5 seconds.
const MARGIN: Duration = Duration::from_secs(3);

/// A reader that records its positions over time.
struct Consumer<S> {
    reader: Reader<S>,
    history: Vec<(Instant, u64)>,
}

impl<S: Source> Consumer<S> {
    fn new(reader: Reader<S>) -> Consumer<S> {
        Consumer {
            reader,
            history: Vec::new(),
        }
    }

    /// Applies batches until it is stopped, the connection is lost, or the log ends.
    fn run(&mut self, port: u16, stop: &Stop) {
        let Ok(mut client) = Client::connect(port) else {
            return; // the server was killed before the connection
        };
        while !stop.is_set() {
            match self.reader.step(&mut client) {
                Ok(true) => self.history.push((Instant::now(), self.reader.next)),
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Rewinds to the position at that moment.
    fn rewind(&mut self, moment: Instant, start: u64) {
        let kept = self.history.partition_point(|(when, _)| *when < moment);
        self.history.truncate(kept);
        self.reader.next = self.history.last().map_or(start, |(_, next)| *next);
    }

    /// Applies batches up to `end`.
    fn finish(&mut self, client: &mut Client, end: u64) {
        while self.reader.next < end {
            let rest = (end - self.reader.next).min(100) as usize;
            let more = self.reader.step_of(client, rest);
            assert!(
                more.expect("the server is there"),
                "the log ends after {end}"
            );
        }
    }
}

#[test]
fn rewinding_by_a_margin_restores_lost_batches() {
    let mut server = Server::builder()
        .append_only(true)
        .config("appendfsync everysec")
        .config("auto-aof-rewrite-percentage 0")
        .start();
    let mut random = Random(3);
    let logs: Vec<Log> = (0..PARTITIONS)
        .map(|fence| Log::random(&mut random, fence, 0, 400_000))
        .collect();
    // Two readers of each log.
    let mut consumers: Vec<Consumer<&Log>> = logs
        .iter()
        .chain(&logs)
        .map(|log| Consumer::new(Reader::new(log, log.fence, 0, random.next())))
        .collect();
    for round in 0..KILLS {
        for consumer in &mut consumers {
            consumer.reader.crashes = 3;
        }
        let (file, begin) = (server.append_only_file(), Instant::now());
        let start = size(&file);
        let life = Duration::from_millis(50 + random.below(700)).mul_f64(env::slow());
        run_until_killed(&mut server, &mut consumers, life);
        if round % 2 == 0 {
            // As after a power failure: a part of what the server wrote since its start is missing.
            let kept = start + random.below(size(&file) - start + 1);
            let file = OpenOptions::new().write(true).open(file);
            file.and_then(|file| file.set_len(kept))
                .expect("the file can be truncated");
        }
        // On a busy machine the run may exceed the margin, so the truncated part may be older.
        let moment = begin.min(Instant::now() - MARGIN);
        for consumer in &mut consumers {
            consumer.rewind(moment, 0);
        }
        server.start_again();
    }
    let recovered: u64 = consumers.iter().map(|c| c.reader.recovered).sum();
    assert!(recovered > 0, "no kill lost a batch");
    check(&server, &logs, &mut consumers);
}

fn run_until_killed(server: &mut Server, consumers: &mut [Consumer<&Log>], life: Duration) {
    let (stop, port) = (Stop::default(), server.port());
    std::thread::scope(|scope| {
        for consumer in consumers {
            let stop = &stop;
            scope.spawn(move || consumer.run(port, stop));
        }
        let _stop = stop.on_drop();
        std::thread::sleep(life);
        server.kill();
    });
}

/// Lets all readers reach the furthest position of any, and compares the sums.
fn check(server: &Server, logs: &[Log], consumers: &mut [Consumer<&Log>]) {
    let mut client = server.client();
    let mut ends = Vec::new();
    for fence in 0..logs.len() {
        let its = consumers.iter().skip(fence).step_by(logs.len());
        let end = its.map(|c| c.reader.attempted).max().unwrap_or(0);
        assert!(end > 1000, "the readers reached offset {end}");
        for consumer in consumers.iter_mut().skip(fence).step_by(logs.len()) {
            consumer.reader.crashes = 3;
            consumer.finish(&mut client, end);
        }
        ends.push(end);
    }
    for key in 0..KEYS {
        let counts = &fields(&mut client, key)[PARTITIONS..];
        assert_eq!(counts, sum(logs, key, &ends), "key {key} of {ends:?}");
    }
    let replica = server.replica();
    assert_eq!(client.digest(), replica.client().digest());
}

fn size(file: &PathBuf) -> u64 {
    fs::metadata(file).expect("the file is there").len()
}
