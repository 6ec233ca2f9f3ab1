//! A snapshot of all data of a server, to compare two servers, or one server before and after an operation.

use crate::client::{Client, args};
use crate::{line, reply};
use redis::Value;
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Every key of every database, with the replies of all its read commands, and `DEBUG DIGEST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The formatted replies, by database and key.
    pub keys: BTreeMap<(u64, Vec<u8>), String>,
    /// `DEBUG DIGEST`.
    pub digest: String,
}

impl Snapshot {
    /// Reads all keys. The connection stays in the last database.
    pub fn take(client: &mut Client) -> Snapshot {
        let mut keys = BTreeMap::new();
        for database in databases(client) {
            client.ok(&format!("SELECT {database}"));
            for key in reply::array(client.ok("KEYS *")) {
                let key = reply::bytes(key);
                let text = describe(client, &key);
                keys.insert((database, key), text);
            }
        }
        let digest = client.digest();
        Snapshot { keys, digest }
    }

    /// The differences by key. `name` returns the name of a database, such as its scenario.
    pub fn difference(&self, other: &Snapshot, name: impl Fn(u64) -> String) -> Option<String> {
        let mut out = String::new();
        let all = self.keys.keys().chain(other.keys.keys());
        for id in all.collect::<std::collections::BTreeSet<_>>() {
            let (left, right) = (self.keys.get(id), other.keys.get(id));
            if left == right {
                continue;
            }
            let absent = "no such key".to_owned();
            writeln!(
                out,
                "{}, key {}:\n- {}\n+ {}",
                name(id.0),
                line::quote(&id.1),
                left.unwrap_or(&absent),
                right.unwrap_or(&absent)
            )
            .expect("writing to a String cannot fail");
        }
        if out.is_empty() && self.digest != other.digest {
            out = format!("DEBUG DIGEST\n- {}\n+ {}\n", self.digest, other.digest);
        }
        (!out.is_empty()).then_some(out)
    }

    /// Asserts that both snapshots are equal.
    ///
    /// # Panics
    /// When they differ, with the keys that differ.
    #[track_caller]
    pub fn assert_same(&self, other: &Snapshot, what: &str) {
        self.assert_same_at(other, what, |database| format!("database {database}"));
    }

    /// [`assert_same`](Self::assert_same) with names for the databases.
    ///
    /// # Panics
    /// When they differ.
    #[track_caller]
    pub fn assert_same_at(&self, other: &Snapshot, what: &str, name: impl Fn(u64) -> String) {
        if let Some(difference) = self.difference(other, name) {
            panic!("{what} (- before, + after):\n{difference}");
        }
    }
}

fn databases(client: &mut Client) -> Vec<u64> {
    let fields = client.info("keyspace");
    let numbers = fields.keys().filter_map(|name| name.strip_prefix("db"));
    let mut numbers: Vec<u64> = numbers.filter_map(|n| n.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The replies of all read commands of one key, in one line.
///
/// # Panics
/// When the replies contradict each other.
pub fn describe(client: &mut Client, key: &[u8]) -> String {
    let kind = reply::text(client.call(&args!["TYPE", key]));
    let expires = reply::int(client.call(&args!["PEXPIRETIME", key]));
    let digest = reply::format(&client.call(&args!["DEBUG", "DIGEST-VALUE", key]));
    let digest = digest.trim_start_matches("1) ").to_owned();
    let content = match kind.as_str() {
        "CountInt5" => fields(client, key),
        "CountTab5" => rows(client, key),
        "RoaringBM" => members(client, key),
        // The digest is sufficient for the built-in types.
        _ => String::new(),
    };
    format!("{kind} expires {expires} digest {digest} {content}")
}

/// The maximum number of elements that are read one by one. Of larger objects, only the digest, the export and the ends
/// are compared.
const MAX_LISTED: usize = 2000;

fn fields(client: &mut Client, key: &[u8]) -> String {
    let name = line::quote(key);
    let bytes = reply::bytes(client.call(&args!["CINT.EXPORT", key]));
    let packed = bytes.chunks_exact(5);
    let values: Vec<i64> = packed
        .map(|b| b.iter().fold(0, |n, byte| (n << 8) | i64::from(*byte)))
        .collect();
    let len = reply::int(client.call(&args!["CINT.LEN", key])) as usize;
    assert_eq!(
        [len, 5 * len],
        [values.len(), bytes.len()],
        "CINT.LEN and CINT.EXPORT of {name}"
    );
    if len > MAX_LISTED {
        let last = reply::int(client.call(&args!["CINT.GET", key, len - 1]));
        assert_eq!(
            Some(&last),
            values.last(),
            "CINT.GET and CINT.EXPORT of {name}"
        );
        return format!("{len} fields, the last {last}");
    }
    let dump = reply::array(client.call(&args!["CINT.DUMP", key]));
    let dump: Vec<i64> = dump.into_iter().map(reply::int).collect();
    assert_eq!(values, dump, "CINT.EXPORT and CINT.DUMP of {name}");
    format!("{values:?}")
}

fn rows(client: &mut Client, key: &[u8]) -> String {
    let name = line::quote(key);
    let info = reply::array(client.call(&args!["CTAB.INFO", key]));
    let number = |i: usize| reply::int(info[i].clone()) as usize;
    let (len, card) = (number(1), number(3));
    let counted = reply::int(client.call(&args!["CTAB.CARD", key])) as usize;
    assert_eq!(card, counted, "CTAB.INFO and CTAB.CARD of {name}");
    // Formatted, since a map has another type in RESP3.
    let fences = reply::format(&info[9]);
    let pages = if card <= MAX_LISTED { usize::MAX } else { 1 };
    let ids = ids(client, key, pages);
    if card <= MAX_LISTED {
        assert_eq!(ids.len(), card, "CTAB.SCAN and CTAB.CARD of {name}");
    }
    let head = format!("{card} rows of {len}, fences {fences}");
    if ids.is_empty() {
        return head;
    }
    let mut read = args!["CTAB.MREAD", len, key].to_vec();
    let mut get = args!["CTAB.MGET", key].to_vec();
    for id in &ids {
        read.push(id.to_string().into_bytes());
        get.push(id.to_string().into_bytes());
    }
    let page = reply::bytes(client.call(&read));
    let rows = reply::array(client.call(&get));
    assert_eq!(rows.len(), ids.len(), "CTAB.MGET of {name}");
    for (row, packed) in rows.into_iter().zip(page.chunks_exact(5 * len)) {
        let row = reply::array(row).into_iter().map(reply::int);
        let packed = packed
            .chunks_exact(5)
            .map(|b| b.iter().fold(0, |n, byte| (n << 8) | i64::from(*byte)));
        assert!(row.eq(packed), "CTAB.MGET and CTAB.MREAD of {name}");
    }
    format!("{head}, {ids:?}, {}", line::quote(&page))
}

/// The ids of a table, through at most `pages` calls of `CTAB.SCAN`.
fn ids(client: &mut Client, key: &[u8], pages: usize) -> Vec<u64> {
    let mut ids: Vec<u64> = Vec::new();
    let mut cursor = b"0".to_vec();
    for _ in 0..pages {
        let page = client.call(&args!["CTAB.SCAN", key, cursor, "COUNT", 300]);
        let Ok([next, page]) = <[Value; 2]>::try_from(reply::array(page)) else {
            panic!("the reply of CTAB.SCAN is not a cursor and ids");
        };
        for id in reply::array(page) {
            ids.push(reply::text(id).parse().expect("an id is a number"));
        }
        cursor = reply::bytes(next);
        if cursor == b"0" {
            break;
        }
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "CTAB.SCAN is out of order");
    ids
}

fn members(client: &mut Client, key: &[u8]) -> String {
    let name = line::quote(key);
    let export = reply::bytes(client.call(&args!["RBM.EXPORT", key]));
    let set = RoaringTreemap::deserialize_from(&export[..]).expect("RBM.EXPORT is portable");
    let card = reply::int(client.call(&args!["RBM.CARD", key])) as u64;
    assert_eq!(card, set.len(), "RBM.CARD and RBM.EXPORT of {name}");
    let pages = if card <= MAX_LISTED as u64 {
        usize::MAX
    } else {
        1
    };
    // A reload can change the containers of the set, but not its members.
    let forwards = scan(client, key, false, pages);
    assert!(
        set.iter().zip(&forwards).all(|(a, b)| a == *b),
        "RBM.EXPORT and RBM.SCAN of {name}"
    );
    let backwards = scan(client, key, true, pages);
    assert!(
        set.iter().rev().zip(&backwards).all(|(a, b)| a == *b),
        "RBM.EXPORT and RBM.SCAN REV of {name}"
    );
    if card > MAX_LISTED as u64 {
        return format!("{card} members, {:?} ..= {:?}", set.min(), set.max());
    }
    assert_eq!(
        [forwards.len(), backwards.len()],
        [card as usize; 2],
        "RBM.CARD and RBM.SCAN of {name}"
    );
    format!("{forwards:?}")
}

/// The members of an RBM, through at most `pages` calls of `RBM.SCAN`, in the order of the replies.
///
/// # Panics
/// When they are not strictly ordered.
pub fn scan(client: &mut Client, key: &[u8], reverse: bool, pages: usize) -> Vec<u64> {
    let mut members: Vec<u64> = Vec::new();
    let mut cursor = b"0".to_vec();
    for _ in 0..pages {
        let mut args: Vec<&[u8]> = vec![b"RBM.SCAN", key, &cursor, b"COUNT", b"500"];
        if reverse {
            args.push(b"REV");
        }
        let Ok([next, page]) = <[Value; 2]>::try_from(reply::array(client.call(&args))) else {
            panic!("the reply of RBM.SCAN is not a cursor and members");
        };
        for member in reply::array(page) {
            let member = reply::text(member).parse().expect("a member is a number");
            let ordered = members
                .last()
                .is_none_or(|last| (*last > member) == reverse && *last != member);
            assert!(
                ordered,
                "RBM.SCAN returned {member} after {:?}",
                members.last()
            );
            members.push(member);
        }
        cursor = reply::bytes(next);
        if cursor == b"0" {
            break;
        }
    }
    members
}
