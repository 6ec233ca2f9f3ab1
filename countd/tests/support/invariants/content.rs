//! Reads the content of keys of any type.

use countint_tests::{Client, Value, reply};
use std::collections::BTreeMap;

/// The number of keys in a pipeline.
const PAGE: usize = 1_000;
/// The maximum number of rows or members that one command returns.
const ALL: &str = "1000000";

/// The content of a key.
pub enum Content {
    /// The rows of a table by their ids.
    Rows(Vec<(String, Vec<u64>)>),
    /// The counters of an object.
    Counters(Vec<u64>),
    /// The bytes of a String.
    Bytes(Vec<u8>),
    /// The members of a set of any type.
    Members(Vec<String>),
    /// The fields of a Hash.
    Fields(BTreeMap<String, String>),
    /// A type that no key of countd's counts has.
    Other,
}

/// Reads all keys whose names satisfy `is_read`.
pub fn read_all(
    client: &mut Client,
    is_read: impl Fn(&str) -> bool,
    mut visit: impl FnMut(&str, Content),
) {
    let keys = reply::array(client.call(&["KEYS", "*"])).into_iter();
    let keys = keys.map(reply::bytes);
    let names = keys.filter_map(|key| String::from_utf8(key).ok());
    let names: Vec<String> = names.filter(|key| is_read(key)).collect();
    for page in names.chunks(PAGE) {
        let types = page.iter().map(|key| vec!["TYPE", key.as_str()]);
        let types = client.pipeline(&types.collect::<Vec<_>>());
        let types: Vec<String> = types.into_iter().map(reply::text).collect();
        let reads = page.iter().zip(&types);
        let reads: Vec<Vec<&str>> = reads.map(|(key, kind)| command(key, kind)).collect();
        let replies = client.pipeline(&reads);
        for ((key, kind), value) in page.iter().zip(&types).zip(replies) {
            // The key was deleted or replaced meanwhile. The data is read again.
            if matches!(value, Value::ServerError(_) | Value::Nil) {
                continue;
            }
            if let Some(content) = content(client, key, kind, value) {
                visit(key, content);
            }
        }
    }
}

/// The command that reads a key of a type.
fn command<'k>(key: &'k str, kind: &str) -> Vec<&'k str> {
    match kind {
        "CountTab5" => vec!["CTAB.SCAN", key, "0", "COUNT", ALL],
        "CountInt5" => vec!["CINT.DUMP", key],
        "RoaringBM" => vec!["RBM.SCAN", key, "0", "COUNT", ALL],
        "string" => vec!["GET", key],
        "set" => vec!["SMEMBERS", key],
        "zset" => vec!["ZRANGE", key, "0", "-1"],
        "hash" => vec!["HGETALL", key],
        _ => vec!["TYPE", key],
    }
}

fn content(client: &mut Client, key: &str, kind: &str, value: Value) -> Option<Content> {
    let number = |value| reply::int(value).unsigned_abs();
    let texts = |value| -> Vec<String> {
        let all = reply::array(value).into_iter();
        all.map(reply::text).collect()
    };
    let scanned = |value| texts(reply::array(value).swap_remove(1));
    Some(match kind {
        "CountTab5" => {
            let ids = scanned(value);
            let mut rows = Vec::new();
            for page in ids.chunks(PAGE) {
                let get = ["CTAB.MGET", key].into_iter();
                let get: Vec<&str> = get.chain(page.iter().map(String::as_str)).collect();
                let found = client.try_call(&get).ok()?;
                if matches!(found, Value::ServerError(_)) {
                    return None;
                }
                for (id, row) in page.iter().zip(reply::array(found)) {
                    if !matches!(row, Value::Nil) {
                        let row = reply::array(row).into_iter().map(number);
                        rows.push((id.clone(), row.collect()));
                    }
                }
            }
            Content::Rows(rows)
        }
        "CountInt5" => Content::Counters(reply::array(value).into_iter().map(number).collect()),
        "RoaringBM" => Content::Members(scanned(value)),
        "string" => Content::Bytes(reply::bytes(value)),
        "set" | "zset" => Content::Members(texts(value)),
        "hash" => {
            let texts = texts(value);
            let pairs = texts.chunks(2);
            Content::Fields(
                pairs
                    .map(|pair| (pair[0].clone(), pair[1].clone()))
                    .collect(),
            )
        }
        "none" => return None,
        _ => Content::Other,
    })
}
