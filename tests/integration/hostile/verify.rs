//! Reads loaded values with every read command, whose replies must agree. Then changes them.

use super::forged::{Forged, LoadPath};
use countint_tests::{Client, Value, args, reply};
use roaring::RoaringTreemap;

/// Keys, and the forged values that were loaded there.
type Loaded<'a> = [(Vec<u8>, &'a Forged)];

type Command = Vec<Vec<u8>>;

/// Elements of larger values are read one by one only if the caller asks for it, to save time.
const LISTED: usize = 2000;

/// Runs commands for each key (and its index) in one pipeline, and returns the replies by key.
fn run_for_each_key(
    client: &mut Client,
    loaded: &Loaded,
    commands: impl Fn(usize, &[u8]) -> Vec<Command>,
) -> Vec<Vec<Value>> {
    let by_key: Vec<Vec<Command>> = (loaded.iter().enumerate())
        .map(|(i, (key, _))| commands(i, key))
        .collect();
    let counts: Vec<usize> = by_key.iter().map(Vec::len).collect();
    let all: Vec<Command> = by_key.into_iter().flatten().collect();
    let mut replies = client.pipeline(&all).into_iter();
    counts
        .into_iter()
        .map(|count| replies.by_ref().take(count).collect())
        .collect()
}

/// The replies for one key, in order.
struct Replies<'a> {
    what: &'a str,
    rest: std::vec::IntoIter<Value>,
}

impl<'a> Replies<'a> {
    fn new((_, forged): &(Vec<u8>, &'a Forged), replies: Vec<Value>) -> Self {
        Replies {
            what: &forged.what,
            rest: replies.into_iter(),
        }
    }

    fn next(&mut self) -> Value {
        match self.rest.next() {
            Some(Value::ServerError(error)) => {
                panic!(
                    "{}: a read failed: {}",
                    self.what,
                    reply::error_text(&error)
                )
            }
            Some(value) => value,
            None => panic!("{}: a reply is missing", self.what),
        }
    }

    fn numbers(&mut self) -> Vec<u64> {
        reply::array(self.next()).into_iter().map(number).collect()
    }

    #[track_caller]
    fn expect(&mut self, value: impl Into<ExpectedReply>, command: &str) {
        let (value, got) = (value.into().0, self.next());
        assert_eq!(got, value, "{}: {command}", self.what);
    }
}

/// An expected reply.
struct ExpectedReply(Value);

impl From<u64> for ExpectedReply {
    fn from(n: u64) -> ExpectedReply {
        ExpectedReply(Value::Int(n as i64))
    }
}

impl From<&[u8]> for ExpectedReply {
    fn from(bytes: &[u8]) -> ExpectedReply {
        ExpectedReply(Value::BulkString(bytes.to_vec()))
    }
}

impl From<Value> for ExpectedReply {
    fn from(value: Value) -> ExpectedReply {
        ExpectedReply(value)
    }
}

/// Members are strings, because an integer reply cannot hold all of them.
fn member(m: u64) -> Value {
    Value::BulkString(m.to_string().into_bytes())
}

fn number(value: Value) -> u64 {
    match value {
        Value::Int(n) => n as u64,
        other => reply::text(other).parse().expect("a reply is a number"),
    }
}

/// Verifies counters: all reads return the same fields, a reload has the same digest, and writes work.
pub fn counters(client: &mut Client, loaded: &Loaded, thorough: bool) {
    let listed = |len| thorough || len <= LISTED;
    let exports = run_for_each_key(client, loaded, |_, key| {
        vec![
            args!["CINT.EXPORT", key].to_vec(),
            args!["DUMP", key].to_vec(),
        ]
    });
    let exports: Vec<(Vec<u8>, Vec<u8>)> = (loaded.iter().zip(exports))
        .map(|(entry, replies)| {
            let mut replies = Replies::new(entry, replies);
            (reply::bytes(replies.next()), reply::bytes(replies.next()))
        })
        .collect();
    let replies = run_for_each_key(client, loaded, |i, key| {
        let (export, dump) = &exports[i];
        let len = export.len() / 5;
        let mut commands = vec![
            args!["CINT.LEN", key].to_vec(),
            args!["CINT.MREAD", len, key].to_vec(),
            args!["CINT.GET", key, len - 1].to_vec(),
            args!["CINT.MGET", key, len - 1, 0].to_vec(),
            args!["MEMORY", "USAGE", key].to_vec(),
            args!["RESTORE", copy_of(key), 0, dump].to_vec(),
            args!["DEBUG", "DIGEST-VALUE", key, copy_of(key)].to_vec(),
            args!["CINT.SET", key, len - 1, 7].to_vec(),
            args!["CINT.GETSET", key, len - 1, 8].to_vec(),
            args!["DEL", copy_of(key)].to_vec(),
        ];
        if listed(len) {
            commands.insert(0, args!["CINT.DUMP", key].to_vec());
            commands.insert(1, args!["CINT.MDUMP", key].to_vec());
        }
        commands
    });
    for ((entry, replies), (export, _)) in loaded.iter().zip(replies).zip(&exports) {
        let fields: Vec<u64> = export.chunks(5).map(big_endian).collect();
        let what = &entry.1.what;
        assert!(
            export.len() % 5 == 0 && (1..=65_535).contains(&fields.len()),
            "{what}: {} bytes",
            export.len()
        );
        let mut replies = Replies::new(entry, replies);
        if listed(fields.len()) {
            assert!(replies.numbers() == fields, "{what}: CINT.DUMP");
            let page = reply::array(replies.next());
            let dumps: Vec<Vec<u64>> = page
                .into_iter()
                .map(|one| reply::array(one).into_iter().map(number).collect())
                .collect();
            assert!(dumps == [fields.clone()], "{what}: CINT.MDUMP");
        }
        replies.expect(fields.len() as u64, "CINT.LEN");
        replies.expect(&export[..], "CINT.MREAD");
        let last = fields[fields.len() - 1];
        replies.expect(last, "CINT.GET");
        assert_eq!(replies.numbers(), [last, fields[0]], "{what}: CINT.MGET");
        assert!(
            number(replies.next()) as usize >= export.len(),
            "{what}: MEMORY USAGE"
        );
        check_reload(&mut replies);
        replies.expect(Value::Okay, "CINT.SET");
        replies.expect(7, "CINT.GETSET");
    }
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))
}

fn copy_of(key: &[u8]) -> Vec<u8> {
    [b"copy-", key].concat()
}

/// Checks the replies of DUMP and RESTORE, and the digests of both keys.
fn check_reload(replies: &mut Replies) {
    replies.expect(Value::Okay, "RESTORE of its own DUMP");
    let digests: Vec<_> = reply::array(replies.next())
        .into_iter()
        .map(reply::text)
        .collect();
    assert_eq!(
        digests[0], digests[1],
        "{}: the digest after a reload",
        replies.what
    );
}

/// Verifies sets: all reads agree, a reload has the same digest, the order is consistent, and writes work.
pub fn sets(client: &mut Client, loaded: &Loaded, way: LoadPath) {
    let replies = run_for_each_key(client, loaded, |_, key| {
        vec![
            args!["RBM.SCAN", key, 0, "COUNT", 1_000_000].to_vec(),
            args!["RBM.CARD", key].to_vec(),
            args!["RBM.EXPORT", key].to_vec(),
            args!["DUMP", key].to_vec(),
        ]
    });
    let mut dumps = Vec::new();
    let mut all_members = Vec::new();
    for (entry, replies) in loaded.iter().zip(replies) {
        let what = &entry.1.what;
        let mut replies = Replies::new(entry, replies);
        let members = page(replies.next());
        assert!(!members.is_empty(), "{what}: an empty set");
        assert!(
            members.is_sorted_by(|a, b| a < b),
            "{what}: RBM.SCAN is out of order"
        );
        replies.expect(members.len() as u64, "RBM.CARD");
        let export = RoaringTreemap::deserialize_from(&reply::bytes(replies.next())[..])
            .unwrap_or_else(|why| panic!("{what}: RBM.EXPORT: {why}"));
        assert!(
            export.iter().eq(members.iter().copied()),
            "{what}: RBM.EXPORT"
        );
        if way == LoadPath::Import {
            // A different parser of the same bytes.
            let other = RoaringTreemap::deserialize_from(&entry.1.bytes[..])
                .unwrap_or_else(|why| panic!("{what}: loaded, but the export is invalid: {why}"));
            assert!(
                other == export,
                "{what}: another decoder returns another set"
            );
        }
        dumps.push(reply::bytes(replies.next()));
        all_members.push(members);
    }
    check_order(client, loaded, &all_members);
    check_changes(client, loaded, &all_members, &dumps);
}

/// The members in the reply of an `RBM.SCAN` that needed one call.
fn page(reply: Value) -> Vec<u64> {
    let mut parts = reply::array(reply).into_iter();
    assert_eq!(parts.next(), Some(member(0)), "one page holds all");
    let members = parts.next().expect("RBM.SCAN replies a cursor and members");
    reply::array(members).into_iter().map(number).collect()
}

/// Three ranks: both ends and the middle.
fn ranks(len: usize) -> [usize; 3] {
    [0, len / 2, len - 1]
}

fn check_order(client: &mut Client, loaded: &Loaded, all_members: &[Vec<u64>]) {
    let replies = run_for_each_key(client, loaded, |i, key| {
        let members = &all_members[i];
        let [first, middle, last] = ranks(members.len()).map(|rank| members[rank]);
        let mut commands = vec![
            args!["RBM.SCAN", key, 0, "COUNT", 1_000_000, "REV"].to_vec(),
            args!["RBM.MIN", key].to_vec(),
            args!["RBM.MAX", key].to_vec(),
            args!["RBM.COUNT", key, 0, u64::MAX].to_vec(),
            args!["RBM.COUNT", key, first, middle].to_vec(),
            args!["RBM.CONTAINS", key, last].to_vec(),
            args!["RBM.MCONTAINS", key, first, middle, last].to_vec(),
            args!["RBM.OPCARD", "OR", key, "missing"].to_vec(),
            args!["RBM.INFO", key].to_vec(),
            args!["MEMORY", "USAGE", key].to_vec(),
            args!["RBM.SELECT", key, members.len()].to_vec(),
        ];
        for rank in ranks(members.len()) {
            commands.push(args!["RBM.SELECT", key, rank].to_vec());
            commands.push(args!["RBM.RANK", key, members[rank]].to_vec());
        }
        commands
    });
    for ((entry, replies), members) in loaded.iter().zip(replies).zip(all_members) {
        let (what, len) = (&entry.1.what, members.len() as u64);
        let [_, middle, last] = ranks(members.len());
        let mut replies = Replies::new(entry, replies);
        let mut backwards = page(replies.next());
        backwards.reverse();
        assert!(backwards == *members, "{what}: RBM.SCAN REV");
        replies.expect(member(members[0]), "RBM.MIN");
        replies.expect(member(members[last]), "RBM.MAX");
        replies.expect(len, "RBM.COUNT of all");
        replies.expect(middle as u64 + 1, "RBM.COUNT of half");
        replies.expect(1, "RBM.CONTAINS");
        assert_eq!(replies.numbers(), [1, 1, 1], "{what}: RBM.MCONTAINS");
        replies.expect(len, "RBM.OPCARD");
        let info = reply::array(replies.next());
        assert_eq!(info[3], Value::Int(len as i64), "{what}: RBM.INFO");
        assert!(number(replies.next()) > 0, "{what}: MEMORY USAGE");
        replies.expect(Value::Nil, "RBM.SELECT past the end");
        for rank in ranks(members.len()) {
            replies.expect(member(members[rank]), "RBM.SELECT");
            replies.expect(rank as u64, "RBM.RANK");
        }
    }
}

/// Changes the sets, because writes can reveal an inconsistent internal state.
fn check_changes(
    client: &mut Client,
    loaded: &Loaded,
    all_members: &[Vec<u64>],
    dumps: &[Vec<u8>],
) {
    let replies = run_for_each_key(client, loaded, |i, key| {
        let members = &all_members[i];
        let middle = members[members.len() / 2];
        vec![
            args!["RESTORE", copy_of(key), 0, dumps[i]].to_vec(),
            args!["DEBUG", "DIGEST-VALUE", key, copy_of(key)].to_vec(),
            args!["RBM.OP", "OR", copy_of(key), key].to_vec(),
            args!["RBM.REM", key, middle].to_vec(),
            args!["RBM.OP", "XOR", copy_of(key), key, copy_of(key)].to_vec(),
            args!["RBM.MIN", copy_of(key)].to_vec(),
            args!["RBM.ADD", key, middle, u64::MAX, 0].to_vec(),
            args!["RBM.CARD", key].to_vec(),
            args!["DEL", copy_of(key)].to_vec(),
        ]
    });
    for ((entry, replies), members) in loaded.iter().zip(replies).zip(all_members) {
        let len = members.len();
        let mut replies = Replies::new(entry, replies);
        check_reload(&mut replies);
        replies.expect(len as u64, "RBM.OP OR");
        replies.expect(1, "RBM.REM");
        replies.expect(1, "RBM.OP XOR");
        replies.expect(member(members[len / 2]), "RBM.MIN of the difference");
        let ends = [0, u64::MAX];
        let new = ends.iter().filter(|m| !members.contains(m)).count() as u64;
        replies.expect(new + 1, "RBM.ADD");
        replies.expect(len as u64 + new, "RBM.CARD after changes");
    }
}
