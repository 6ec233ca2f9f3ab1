//! A stream that MARK and UNMARK write with SEQ is a log: counts that a consumer derives from it equal the cardinalities
//! of the sets.

use super::log::{Event, KEYS, PARTITIONS, Source};
use super::reader::Reader;
use super::store::fields;
use crate::traffic::Random;
use countint_tests::{Client, Server, Value, args, reply};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const WRITERS: usize = 4;

/// The stream, read over a connection.
struct Stream<'a> {
    client: Client,
    writers: &'a AtomicUsize,
}

impl Source for Stream<'_> {
    fn read(&mut self, from: u64, count: usize) -> Vec<Event> {
        loop {
            // In this order, so that an empty page means the end only if the writers had finished before the read.
            let over = self.writers.load(SeqCst) == 0;
            let call = args!["XRANGE", "log", format!("0-{from}"), "+", "COUNT", count];
            let page = reply::array(self.client.call(&call));
            if over || !page.is_empty() {
                return page.into_iter().map(event).collect();
            }
        }
    }
}

fn event(entry: Value) -> Event {
    let entry = reply::array(entry);
    let id = reply::text(entry[0].clone());
    let offset = id.strip_prefix("0-").expect("a dense offset");
    let data: Vec<i64> = reply::array(entry[1].clone())
        .into_iter()
        .skip(1)
        .step_by(2)
        .map(reply::int)
        .collect();
    Event {
        offset: offset.parse().expect("a number"),
        key: data[0] as usize,
        idx: PARTITIONS,
        delta: data[1],
    }
}

fn write(client: &mut Client, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..1500 {
        let (post, member) = (random.below(KEYS as u64), random.below(20));
        let (command, op) = match random.below(5) {
            0 | 1 => ("RBM.UNMARK", "-1"),
            _ => ("RBM.MARK", "1"),
        };
        let mut call = args![command, format!("likes:{post}"), member].to_vec();
        call.extend(args!["EVENT", "log", "SEQ", "post", post, "op", op]);
        let reply = client.call(&call);
        assert!(matches!(reply, Value::Array(_)), "{reply:?}");
    }
}

#[test]
fn stream_written_by_marks_can_be_applied() {
    let server = Server::start();
    let replica = server.replica();
    let writers = AtomicUsize::new(WRITERS);
    std::thread::scope(|scope| {
        for seed in 0..WRITERS {
            let (mut client, writers) = (server.client(), &writers);
            scope.spawn(move || {
                write(&mut client, seed as u64);
                writers.fetch_sub(1, SeqCst);
            });
        }
        // The first entry's offset is 1.
        for seed in 0..2 {
            let (mut client, writers) = (server.client(), &writers);
            let source = Stream {
                client: server.client(),
                writers,
            };
            scope.spawn(move || {
                let mut reader = Reader::new(source, 0, 1, seed);
                reader.crashes = 15;
                while reader.step(&mut client).expect("the server is there") {}
                assert_eq!(reader.recovered, 0, "nothing was lost");
            });
        }
    });
    let mut client = server.client();
    let mut total = 0;
    for post in 0..KEYS {
        let card = reply::int(client.call(&args!["RBM.CARD", format!("likes:{post}")]));
        let counted = fields(&mut client, post);
        assert_eq!(counted[PARTITIONS], card as u64, "post {post}");
        total += card;
    }
    assert!(total > 0, "no likes were written");
    server.wait_for_replica(&replica);
    assert_eq!(client.digest(), replica.client().digest());
}
