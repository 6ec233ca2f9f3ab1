//! Reads loaded tables with every read command, whose replies must agree. Then changes them.

use super::forged::Forged;
use countint_tests::{Client, Value, args, reply};

/// The number of rows and counters that are read one by one.
const LISTED: usize = 40;

/// Verifies tables: all reads return the same rows, a reload and a move have the same digest, and writes work.
pub fn tables(client: &mut Client, loaded: &[(Vec<u8>, &Forged)]) {
    for (key, forged) in loaded {
        let what = &forged.what;
        let info = reply::array(client.call(&args!["CTAB.INFO", key]));
        let number = |i: usize| reply::int(info[i].clone()) as usize;
        let (len, rows) = (number(1), number(3));
        assert!((1..=65_535).contains(&len), "{what}: a length of {len}");
        assert!(number(7) > 0, "{what}: no bytes");
        let ids = ids(client, key, what);
        assert_eq!(ids.len(), rows, "{what}: CTAB.INFO and CTAB.SCAN");
        check_rows(client, key, what, &ids, len);
        check_moves(client, key, what);
        check_changes(client, key, what, &ids, len);
    }
}

fn ids(client: &mut Client, key: &[u8], what: &str) -> Vec<u64> {
    let mut page = reply::array(client.call(&args!["CTAB.SCAN", key, 0, "COUNT", 1_000_000]));
    let ids = page.pop().expect("CTAB.SCAN replies a cursor and ids");
    let ids: Vec<u64> = reply::array(ids)
        .into_iter()
        .map(|id| reply::text(id).parse().expect("an id is a number"))
        .collect();
    assert!(
        ids.is_sorted_by(|a, b| a < b),
        "{what}: CTAB.SCAN is out of order"
    );
    assert_eq!(
        page,
        [Value::BulkString(b"0".to_vec())],
        "{what}: one page holds all"
    );
    ids
}

fn check_rows(client: &mut Client, key: &[u8], what: &str, ids: &[u64], len: usize) {
    let some = len.min(LISTED);
    let ids: Vec<u64> = (ids.iter().take(LISTED).chain(ids.last()).copied()).collect();
    // One round trip for all rows: there are thousands of tables.
    let mut reads = Vec::new();
    for id in &ids {
        reads.push(args!["CTAB.MREAD", some, key, id].to_vec());
        reads.push(args!["CTAB.PAGE", some, 2, "nosuch", id, key, id].to_vec());
        reads.push(args!["CTAB.GET", key, id, some - 1].to_vec());
        if len <= LISTED {
            reads.push(args!["CTAB.MGET", key, id].to_vec());
        }
    }
    let mut replies = client.pipeline(&reads).into_iter();
    let mut next = || replies.next().expect("each command has a reply");
    for id in &ids {
        let bytes = reply::bytes(next());
        let packed: Vec<i64> = bytes
            .chunks(5)
            .map(|bytes| bytes.iter().fold(0, |n, &byte| n << 8 | i64::from(byte)))
            .collect();
        assert_eq!(packed.len(), some, "{what}: CTAB.MREAD");
        let page = reply::bytes(next());
        assert_eq!(page[..5 * some], vec![0; 5 * some], "{what}: CTAB.PAGE");
        assert_eq!(page[5 * some..], bytes, "{what}: CTAB.PAGE of {id}");
        let last = reply::int(next());
        assert_eq!(Some(&last), packed.last(), "{what}: CTAB.GET of {id}");
        if len <= LISTED {
            let row = reply::array(next()).remove(0);
            let row = reply::array(row).into_iter().map(reply::int);
            assert!(row.eq(packed), "{what}: CTAB.MGET of {id}");
        }
    }
}

fn check_moves(client: &mut Client, key: &[u8], what: &str) {
    let dump = reply::bytes(client.call(&args!["DUMP", key]));
    let export = reply::bytes(client.call(&args!["CTAB.EXPORT", key, 0, u64::MAX]));
    let moves = [
        args!["RESTORE", "copy", 0, dump, "REPLACE"].to_vec(),
        args!["CTAB.IMPORT", "moved", export].to_vec(),
    ];
    for reply in client.pipeline(&moves) {
        assert!(!matches!(reply, Value::ServerError(_)), "{what}: {reply:?}");
    }
    let digests = reply::array(client.call(&args!["DEBUG", "DIGEST-VALUE", key, "copy", "moved"]));
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "{what}: {digests:?}"
    );
    client.ok("DEL copy moved");
}

fn check_changes(client: &mut Client, key: &[u8], what: &str, ids: &[u64], len: usize) {
    let field_max = (1i64 << 40) - 1;
    let middle = ids.get(ids.len() / 2).copied().unwrap_or(77);
    for id in [middle, 0, u64::MAX] {
        let value = client.call(&args!["CTAB.INCRBY", key, id, len - 1, field_max]);
        assert_eq!(value, Value::Int(field_max), "{what}: CTAB.INCRBY of {id}");
    }
    let new = [0, u64::MAX].iter().filter(|id| !ids.contains(id)).count();
    let rows = ids.len().max(1) + new;
    assert_eq!(
        client.call(&args!["CTAB.CARD", key]),
        Value::Int(rows as i64),
        "{what}: CTAB.CARD"
    );
    let removed = client.call(&args!["CTAB.DEL", key, middle, middle]);
    assert_eq!(removed, Value::Int(1), "{what}: CTAB.DEL");
    let gone = client.call(&args!["CTAB.GET", key, middle, 0]);
    assert_eq!(gone, Value::Nil, "{what}: CTAB.GET of a removed row");
}
