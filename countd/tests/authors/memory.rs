//! The memory of registered authors.

use crate::support::stores::TestStore;
use crate::support::workload::Random;
use crate::support::{Countd, on_note, wait_until_drained, with};
use countint_tests::{Server, Value, reply};
use serde_json::json;
use std::collections::BTreeMap;

/// The bound: bytes of an entity with its author, and with how much the author was credited with.
const MAX_BYTES: u64 = 40;
const PARTITIONS: u16 = 1024;
/// The partitions that are filled as they would be with a million entities in all.
const FILLED: u16 = 128;
const PAIRS: u64 = 1_000_000 * FILLED as u64 / PARTITIONS as u64;

/// A snowflake id of the last three years.
fn snowflake(random: &mut Random) -> u64 {
    random.below(3 * 365 * 24 * 3_600_000) << 22 | random.below(1 << 22)
}

/// The row of an author, as lua/author.lua writes it.
fn row(uid: u64, favs: u64, likes: u64) -> [u64; 5] {
    const LAST_DIGITS: u64 = 10_000_000_000;
    let partition = TestStore::partition(&uid.to_string(), PARTITIONS);
    [
        uid / LAST_DIGITS + 1,
        uid % LAST_DIGITS,
        partition.into(),
        favs,
        likes,
    ]
}

const SET_ROWS: &str = "
for i = 1, #ARGV, 6 do
  redis.call('CTAB.SET', KEYS[1], ARGV[i], 'LEN', 5, 0, ARGV[i + 1], 1, ARGV[i + 2], 2, ARGV[i + 3], 3, ARGV[i + 4], 4, ARGV[i + 5])
end";

#[test]
fn an_author_of_numeric_ids_takes_at_most_40_bytes() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let api = countd.api();
    let mut random = Random(1);
    let (note, uid) = (snowflake(&mut random), snowflake(&mut random));
    for user in 1..=3 {
        api.act("like", with(on_note(note, user), json!({ "author": uid })));
    }
    api.act("fav", on_note(note, 1));
    wait_until_drained(&server, PARTITIONS);
    let mut client = server.client();
    let partition = |note: u64| TestStore::partition(&format!("note:{note}"), PARTITIONS);
    let table = |note: u64| format!("aut:note:{}", partition(note));
    let stored = reply::array(client.ok(&format!("CTAB.MGET {} {note}", table(note))));
    let stored = reply::array(stored.into_iter().next().expect("a row"));
    let stored: Vec<i64> = stored.into_iter().map(reply::int).collect();
    assert_eq!(stored, row(uid, 1, 3).map(|value| value as i64));

    // The counts have a heavy tail: half of the notes have 2, one of a thousand has 2,000.
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..PAIRS {
        let note = loop {
            let note = snowflake(&mut random);
            if partition(note) < FILLED {
                break note;
            }
        };
        let uid = snowflake(&mut random);
        let likes = 2_000 / (1 + random.below(1_000));
        let values = row(uid, likes / 4, likes).map(|value| value.to_string());
        let rows = tables.entry(table(note)).or_default();
        rows.push(note.to_string());
        rows.extend(values);
    }
    drop(countd);
    let before = client.used_memory_when_idle();
    for (table, rows) in &tables {
        let mut call = vec!["EVAL", SET_ROWS, "1", table];
        call.extend(rows.iter().map(String::as_str));
        assert!(!matches!(client.call(&call), Value::ServerError(_)));
    }
    let bytes = (client.used_memory_when_idle() - before) / PAIRS;
    eprintln!("{bytes} bytes an entity with its author");
    assert!(bytes <= MAX_BYTES, "{bytes} bytes");
}
