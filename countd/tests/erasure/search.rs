//! Searches all keys and values of a server for an ID.

use countint_tests::{Client, Value, reply};

/// The number of bits of the last digits of an author in a table: the author is `(column 0 - 1) * 10^10 + column 1`.
const AUTHOR_BASE: u128 = 10_000_000_000;

/// The keys that hold an ID: in their names or in their values. Reports of hot entities end by themselves; they must not have users.
pub fn holders(client: &mut Client, id: &str) -> Vec<String> {
    let mut found = Vec::new();
    for key in reply::array(client.ok("KEYS *")) {
        let key = reply::text(key);
        if key.starts_with("countd:hot:") && !has_user(client, &key) {
            continue;
        }
        let place = match key.contains(id) {
            true => Some("its name".to_owned()),
            false => value_with(client, &key, id),
        };
        found.extend(place.map(|place| format!("{key}: {place}")));
    }
    found
}

/// Whether a report of hot entities has a user.
fn has_user(client: &mut Client, key: &str) -> bool {
    let report = client.call(&["GET", key]);
    matches!(report, Value::BulkString(_)) && reply::text(report).contains("[\"user\",")
}

/// What of a value holds the ID.
fn value_with(client: &mut Client, key: &str, id: &str) -> Option<String> {
    let kind = reply::text(client.call(&["TYPE", key]));
    let contents = match kind.as_str() {
        "string" => client.call(&["GET", key]),
        "hash" => client.call(&["HGETALL", key]),
        "set" => client.call(&["SMEMBERS", key]),
        "zset" => client.call(&["ZRANGE", key, "0", "-1"]),
        "stream" => client.call(&["XRANGE", key, "-", "+"]),
        "RoaringBM" => {
            let contains = client.call(&["RBM.CONTAINS", key, id]);
            return (contains == Value::Int(1)).then(|| "a member".to_owned());
        }
        "CountTab5" => return row_with(client, key, id),
        // The key has expired since it was listed.
        "none" => return None,
        "CountInt5" => return None,
        other => panic!("{key}: {other}"),
    };
    if key.starts_with("bm:") && kind == "string" {
        return bit_with(key, &contents, id);
    }
    text_with(&contents, id)
}

/// The bit of a user: the last part of the key is the number of the chunk of 32,768 bits.
fn bit_with(key: &str, contents: &Value, id: &str) -> Option<String> {
    let key = key.split(":{").next().expect("a name");
    let chunk: u64 = key.rsplit(':').next().expect("a chunk").parse().ok()?;
    let bit = id.parse::<u64>().ok()?.checked_sub(chunk * 32_768)?;
    let bytes = reply::bytes(contents.clone());
    let byte = bytes.get(usize::try_from(bit / 8).ok()?)?;
    (byte & (0x80 >> (bit % 8)) != 0).then(|| format!("bit {bit}"))
}

fn text_with(value: &Value, id: &str) -> Option<String> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| text_with(item, id)),
        Value::BulkString(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            let is_number = id.parse::<u64>().is_ok_and(|number| {
                let encoded = [number.to_be_bytes(), number.to_le_bytes()];
                encoded
                    .iter()
                    .any(|encoded| bytes.windows(8).any(|bytes| bytes == encoded))
            });
            (is_number || text.contains(id)).then(|| text.into_owned())
        }
        Value::SimpleString(text) => text.contains(id).then(|| text.clone()),
        _ => None,
    }
}

/// The row of the ID, or a row whose author it is.
fn row_with(client: &mut Client, key: &str, id: &str) -> Option<String> {
    let number: u64 = id.parse().ok()?;
    let mut cursor = "0".to_owned();
    loop {
        let mut page = reply::array(client.call(&["CTAB.SCAN", key, &cursor, "COUNT", "1000"]));
        let ids = reply::array(page.pop().expect("ids"));
        cursor = reply::text(page.pop().expect("a cursor"));
        for row in ids {
            let row = reply::text(row);
            if row == id {
                return Some("a row".to_owned());
            }
            if key.starts_with("aut:") {
                let rows = reply::array(client.call(&["CTAB.MGET", key, &row]));
                let columns = reply::array(rows[0].clone()).into_iter();
                let columns: Vec<i64> = columns.map(reply::int).collect();
                let first = u128::from(columns[0].unsigned_abs()).saturating_sub(1);
                let author = first * AUTHOR_BASE + u128::from(columns[1].unsigned_abs());
                if columns[0] > 0 && author == u128::from(number) {
                    return Some(format!("the author of {row}"));
                }
            }
        }
        if cursor == "0" {
            return None;
        }
    }
}
