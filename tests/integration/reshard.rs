//! Slots move to another node, by hand and by `redis-cli --cluster reshard`, while clients write: every acknowledged call
//! counts once.

use crate::router::{Router, slot};
use crate::traffic::{Random, Stop};
use countint_tests::{Cluster, Value, args, reply, snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// A key in a tag's slot; `c` holds counters, the others are sets.
fn key(tag: &str, name: &str) -> String {
    format!("{{{tag}}}{name}")
}

/// Forty tags in the first `moving` slots, then ten in slots that do not move.
fn tags(moving: u16) -> Vec<String> {
    let moves = |tag: &String| slot(tag.as_bytes()) < moving;
    let all = || (0..).map(|i| format!("t{i}"));
    let staying = all().filter(|tag| !moves(tag)).take(10);
    all().filter(moves).take(40).chain(staying).collect()
}

/// The acknowledged calls of a tag.
#[derive(Default)]
struct Acknowledged {
    counts: [i64; 3],
    members: BTreeSet<u64>,
}

/// One client, and its acknowledged calls by tag.
struct Writer<'a> {
    tags: &'a [String],
    router: Router,
    random: Random,
    number: u64,
    acknowledged: BTreeMap<&'a str, Acknowledged>,
}

impl<'a> Writer<'a> {
    fn new(cluster: &Cluster, tags: &'a [String], number: u64) -> Writer<'a> {
        let acknowledged = tags
            .iter()
            .map(|tag| (tag.as_str(), Acknowledged::default()));
        Writer {
            tags,
            router: Router::new(cluster.nodes[number as usize % 3].port()),
            random: Random(number),
            number,
            acknowledged: acknowledged.collect(),
        }
    }

    /// Makes one call and records its acknowledgement.
    fn step(&mut self) {
        let tag = &self.tags[self.random.below(self.tags.len() as u64) as usize];
        let slot = slot(tag.as_bytes());
        let (c, r, s) = (key(tag, "c"), key(tag, "r"), key(tag, "s"));
        let acknowledged = self
            .acknowledged
            .get_mut(tag.as_str())
            .expect("a acknowledged for each tag");
        let router = &mut self.router;
        let mut call = |call: &[Vec<u8>]| router.call(slot, call);
        match self.random.below(8) {
            0..=2 => {
                let delta = 1 + self.random.below(9) as i64;
                reply::int(call(&args!["CINT.INCRBY", c, 0, delta]));
                acknowledged.counts[0] += delta;
            }
            3 => {
                let reply = call(&args!["CINT.BATCHINCR", c, 1, 5, 2, 7, 1, -2]);
                assert_eq!(reply::array(reply).len(), 3);
                acknowledged.counts[1] += 3;
                acknowledged.counts[2] += 7;
            }
            4 | 5 => {
                let member = self.random.next() << 3 | self.number;
                let added = reply::int(call(&args!["RBM.ADD", r, member]));
                assert_eq!(
                    added == 1,
                    acknowledged.members.insert(member),
                    "a call ran twice"
                );
            }
            6 => {
                if let Some(member) = acknowledged.members.pop_first() {
                    let removed = reply::int(call(&args!["RBM.REM", r, member]));
                    assert_eq!(removed, 1, "a call ran twice, or an earlier one was lost");
                }
            }
            _ => {
                let stored = reply::int(call(&args!["RBM.OP", "OR", s, r, s]));
                let read = reply::bytes(call(&args!["CINT.MREAD", 3, c, c]));
                assert!(stored >= acknowledged.members.len() as i64);
                assert_eq!(read.len(), 30);
            }
        }
    }
}

/// Asserts that the data is the sum of all acknowledged calls.
fn check(cluster: &Cluster, writers: &[Writer], tags: &[String]) {
    let mut router = Router::new(cluster.nodes[0].port());
    for tag in tags {
        let (mut counts, mut members) = ([0; 3], BTreeSet::<u64>::new());
        for writer in writers {
            let acknowledged = &writer.acknowledged[tag.as_str()];
            (0..3).for_each(|i| counts[i] += acknowledged.counts[i]);
            members.extend(&acknowledged.members);
        }
        let slot = slot(tag.as_bytes());
        let call = args!["CINT.MGET", key(tag, "c"), 0, 1, 2];
        let got = reply::array(router.call(slot, &call));
        let number = |count| {
            if count == Value::Nil {
                0
            } else {
                reply::int(count)
            }
        };
        let got: Vec<i64> = got.into_iter().map(number).collect();
        assert_eq!(got, counts, "the counters of {tag}");
        let got = snapshot::scan(
            router.owner(slot),
            key(tag, "r").as_bytes(),
            false,
            usize::MAX,
        );
        assert!(got.iter().eq(&members), "the members of {tag}");
    }
}

/// Moves the first `count` slots of a node.
fn reshard(cluster: &Cluster, from: usize, to: usize, count: u16) {
    let (from, to) = (cluster.id(from), cluster.id(to));
    let count = count.to_string();
    let mut words = vec![
        "reshard",
        "{node}",
        "--cluster-yes",
        "--cluster-slots",
        &count,
    ];
    words.extend(["--cluster-from", &from, "--cluster-to", &to]);
    cluster.manage(&words);
    cluster.wait_until_stable();
}

#[test]
fn resharding_under_traffic_counts_each_call_once() {
    const MOVING: u16 = 100;
    let cluster = Cluster::start();
    let tags = tags(MOVING);
    let stop = Stop::default();
    let writers: Vec<Writer> = std::thread::scope(|scope| {
        let spawn = |number| {
            let mut writer = Writer::new(&cluster, &tags, number);
            let stop = &stop;
            scope.spawn(move || {
                while !stop.is_set() {
                    writer.step();
                }
                writer
            })
        };
        let threads: Vec<_> = (0..3).map(spawn).collect();
        {
            let _stop = stop.on_drop();
            reshard(&cluster, 0, 1, MOVING);
            reshard(&cluster, 1, 2, MOVING);
        }
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.expect("a writer ends well")).collect()
    });
    check(&cluster, &writers, &tags);
    for Router { moved, .. } in writers.iter().map(|writer| &writer.router) {
        // Each writer saw at least two owners of each of the forty slots.
        assert!(*moved >= 40, "moved {moved}");
    }
    cluster.manage(&["check", "{node}"]);
}

/// A slot in the states MIGRATING and IMPORTING, step by step.
#[test]
fn migrating_slot_serves_each_key_on_its_node() {
    let cluster = Cluster::start();
    let tag = &tags(5000)[0];
    let [c, r, a, b, d, new] = ["c", "r", "a", "b", "d", "new"].map(|name| key(tag, name));
    let n = slot(tag.as_bytes());
    let (mut source, mut target) = (cluster.nodes[0].client(), cluster.nodes[1].client());
    let target_port = cluster.nodes[1].port();
    for line in [
        format!("CINT.SET {c} LEN 3 0 7"),
        format!("RBM.ADD {r} 5"),
        format!("RBM.ADD {a} 1 2"),
        format!("RBM.ADD {b} 2 3"),
    ] {
        source.ok(&line);
    }
    target.ok(&format!("CLUSTER SETSLOT {n} IMPORTING {}", cluster.id(0)));
    source.ok(&format!("CLUSTER SETSLOT {n} MIGRATING {}", cluster.id(1)));
    let migrate = format!("MIGRATE 127.0.0.1 {target_port} \"\" 0 30000 KEYS");
    source.ok(&format!("{migrate} {c} {a}"));

    let ask = format!("(error) ASK {n} 127.0.0.1:{target_port}");
    let moved = format!("(error) MOVED {n} 127.0.0.1:{}", cluster.nodes[0].port());
    for line in [
        format!("CINT.INCRBY {c} 0 1"),
        format!("CINT.INCRBY {new} 0 1 LEN 1"),
        format!("RBM.ADD {new} 1"),
    ] {
        source.expect(&line, &ask);
        target.expect(&line, &moved);
    }
    source.expect(&format!("RBM.ADD {r} 6"), "(integer) 1");
    for line in [
        format!("RBM.OP OR {d} {a} {b}"),
        format!("RBM.OPCARD OR {a} {b}"),
        format!("CINT.MREAD 1 {c} {r}"),
        format!("CINT.MDUMP {c} {r}"),
        format!("CTAB.PAGE 1 2 {c} 1 {r} 1"),
    ] {
        assert!(source.run(&line).starts_with("(error) TRYAGAIN "), "{line}");
        target.ok("ASKING");
        assert!(target.run(&line).starts_with("(error) TRYAGAIN "), "{line}");
    }
    let mut router = Router::new(cluster.nodes[2].port());
    let incr = router.call(n, &args!["CINT.INCRBY", c, 0, 3]);
    assert_eq!(incr, Value::Int(10));
    let created = router.call(n, &args!["CINT.INCRBY", new, 0, 1, "LEN", 1]);
    assert_eq!(created, Value::Int(1));
    assert_eq!((router.moved, router.asked), (1, 2));

    source.ok(&format!("{migrate} {r} {b}"));
    for node in [1, 0, 2] {
        let line = format!("CLUSTER SETSLOT {n} NODE {}", cluster.id(1));
        cluster.nodes[node].client().ok(&line);
    }
    target.expect(&format!("RBM.OP OR {d} {a} {b}"), "(integer) 3");
    target.expect(
        &format!("CINT.MREAD 1 {c} {new}"),
        "\"\\x00\\x00\\x00\\x00\\n\\x00\\x00\\x00\\x00\\x01\"",
    );
    target.expect(&format!("RBM.CARD {r}"), "(integer) 2");
    source.expect("DBSIZE", "(integer) 0");
}
