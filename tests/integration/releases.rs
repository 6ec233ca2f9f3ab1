//! Every version loads the RDB files, the append-only files and the `DUMP` payloads of every release, with equal contents.
//!
//! `tests/fixtures/{version}/module` has the files of a release. `scripts/release-fixtures` writes them.

use crate::dataset::{add, random};
use countint_tests::env::workspace;
use countint_tests::payload::crc64;
use countint_tests::{Client, Server, args, line, reply};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The contents of all keys, as text.
const CONTENTS: &str = "contents.txt";
/// The payload of each key in hexadecimal.
const PAYLOADS: &str = "payloads.txt";
const RDB: &str = "dump.rdb";
const AOF: &str = "appendonlydir";

/// The directories of all releases.
fn releases() -> Vec<PathBuf> {
    let dir = workspace().join("tests/fixtures");
    let entries = fs::read_dir(dir).expect("there are fixtures");
    let dirs = entries.map(|entry| entry.expect("it can be read").path().join("module"));
    let mut dirs: Vec<PathBuf> = dirs.filter(|dir| dir.is_dir()).collect();
    dirs.sort();
    assert!(!dirs.is_empty(), "there are no fixtures");
    dirs
}

/// The lines of a file with two columns.
fn columns(file: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(file).expect("a fixture is a text");
    let columns = text.lines().map(|line| {
        let (key, value) = line.split_once(' ').expect("two columns");
        (key.to_owned(), value.to_owned())
    });
    columns.collect()
}

#[test]
fn rdb_files_of_every_release_load() {
    for dir in releases() {
        let mut server = Server::start();
        server.stop();
        fs::copy(dir.join(RDB), server.dir().join(RDB)).expect("copied");
        server.start_again();
        assert_holds(&dir, &mut server.client());
    }
}

#[test]
fn append_only_files_of_every_release_load() {
    for dir in releases() {
        let mut server = Server::builder().append_only(false).start();
        server.stop();
        let files = server.dir().join(AOF);
        fs::remove_dir_all(&files).expect("the server has one");
        copy_files(&dir.join(AOF), &files);
        server.start_again();
        assert_holds(&dir, &mut server.client());
    }
}

#[test]
fn payloads_of_every_release_are_restored() {
    for dir in releases() {
        let server = Server::start();
        let mut client = server.client();
        for (key, payload) in columns(&dir.join(PAYLOADS)) {
            let expires = expiry(&key);
            let restored = client.call(&args!["RESTORE", key, expires, bytes(&payload), "ABSTTL"]);
            assert_eq!(reply::format(&restored), "OK", "{}: {key}", dir.display());
        }
        assert_holds(&dir, &mut client);
    }
}

/// Asserts that the server has the contents of a release, and that they can be changed.
#[track_caller]
fn assert_holds(dir: &Path, client: &mut Client) {
    let (expected, found) = (columns(&dir.join(CONTENTS)), contents(client));
    let keys: Vec<&String> = found.keys().collect();
    let name = dir.display();
    assert_eq!(keys, expected.keys().collect::<Vec<_>>(), "{name}");
    for (key, content) in &expected {
        assert_eq!(&found[key], content, "{name}: {key}");
    }
    for (key, content) in &found {
        let kind = content.split(' ').next().unwrap_or_default();
        let change = match kind {
            "CountInt5" => format!("CINT.SET {key} 0 77"),
            "CountTab5" => format!("CTAB.SET {key} 77 0 77"),
            "RoaringBM" => format!("RBM.ADD {key} 77"),
            _ => continue,
        };
        client.ok(&change);
        let read = match kind {
            "CountInt5" => format!("CINT.GET {key} 0"),
            "CountTab5" => format!("CTAB.GET {key} 77 0"),
            _ => format!("RBM.CONTAINS {key} 77"),
        };
        let value = reply::int(client.ok(&read));
        assert!([1, 77].contains(&value), "{name}: {key}");
    }
}

/// The contents of all keys. They do not depend on encodings, which versions may change.
fn contents(client: &mut Client) -> BTreeMap<String, String> {
    let keys = reply::array(client.ok("KEYS *")).into_iter();
    let keys: Vec<String> = keys.map(reply::text).collect();
    let content = |key: String| {
        let kind = reply::text(client.call(&args!["TYPE", key]));
        let expires = reply::int(client.call(&args!["PEXPIRETIME", key]));
        let content = match kind.as_str() {
            "CountInt5" => fields(client, &key),
            "CountTab5" => rows(client, &key),
            "RoaringBM" => members(client, &key),
            "stream" => one_line(&client.call(&args!["XRANGE", key, "-", "+"])),
            _ => one_line(&client.call(&args!["GET", key])),
        };
        (key, format!("{kind} expires {expires} {content}"))
    };
    keys.into_iter().map(content).collect()
}

fn one_line(value: &countint_tests::Value) -> String {
    line::quote(reply::format(value).as_bytes())
}

/// Numbers, or their checksum if there are many.
fn numbers(values: &[u64]) -> String {
    if values.len() <= 12 {
        return format!("{values:?}");
    }
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let (first, last) = (values[0], values[values.len() - 1]);
    format!(
        "{} numbers, {first} to {last}, checksum {:016x}",
        values.len(),
        crc64(&bytes)
    )
}

fn fields(client: &mut Client, key: &str) -> String {
    let fields = reply::array(client.call(&args!["CINT.DUMP", key])).into_iter();
    let fields: Vec<u64> = fields.map(|field| reply::int(field) as u64).collect();
    numbers(&fields)
}

/// The fences, and each row: its id and its counters.
fn rows(client: &mut Client, key: &str) -> String {
    let info = reply::array(client.call(&args!["CTAB.INFO", key]));
    let fences = one_line(&info[9]);
    let page = reply::array(client.call(&args!["CTAB.SCAN", key, 0, "COUNT", 1_000_000]));
    let ids = reply::array(page[1].clone()).into_iter().map(reply::text);
    let mut values = Vec::new();
    for id in ids {
        values.push(id.parse().expect("an id"));
        let row = reply::array(client.call(&args!["CTAB.MGET", key, id]));
        let row = reply::array(row[0].clone()).into_iter();
        values.extend(row.map(|field| reply::int(field) as u64));
    }
    format!("fences {fences} rows {}", numbers(&values))
}

fn members(client: &mut Client, key: &str) -> String {
    let export = reply::bytes(client.call(&args!["RBM.EXPORT", key]));
    let set = RoaringTreemap::deserialize_from(&export[..]).expect("RBM.EXPORT is portable");
    let members: Vec<u64> = set.iter().collect();
    numbers(&members)
}

/// When the key of a fixture expires, in milliseconds; 0: never.
fn expiry(key: &str) -> u64 {
    if key.ends_with("-expires") {
        4_102_444_800_000
    } else {
        0
    }
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    digits.map(byte).collect()
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("it can be read");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

/// Writes the fixtures of this version to the directory in `COUNTINT_FIXTURES`.
#[test]
#[ignore = "writes files: run scripts/release-fixtures"]
fn write_fixtures() {
    let dir = std::env::var_os("COUNTINT_FIXTURES").expect("scripts/release-fixtures sets it");
    let dir = Path::new(&dir).join("module");
    fs::create_dir_all(&dir).expect("created");
    let server = Server::builder().append_only(false).start();
    let mut client = server.client();
    fill(&mut client);
    // The base has the commands of a rewrite, the rest those of clients.
    server.rewrite_aof();
    change(&mut client);
    client.ok("SAVE");
    fs::copy(server.dir().join(RDB), dir.join(RDB)).expect("copied");
    // An old file of this version may have another name.
    let _ = fs::remove_dir_all(dir.join(AOF));
    copy_files(&server.dir().join(AOF), &dir.join(AOF));
    let contents = contents(&mut client);
    let lines = contents
        .iter()
        .map(|(key, value)| format!("{key} {value}\n"));
    fs::write(dir.join(CONTENTS), lines.collect::<String>()).expect("written");
    let payload = |key: &String| {
        let payload = reply::bytes(client.call(&args!["DUMP", key]));
        let digits: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{key} {digits}\n")
    };
    let payloads: String = contents.keys().map(payload).collect();
    fs::write(dir.join(PAYLOADS), payloads).expect("written");
}

/// Objects of every type and encoding.
fn fill(client: &mut Client) {
    for len in [1, 5, 6, 300] {
        let fields = random(len as u64).take(len);
        let packed: Vec<u8> = fields.flat_map(|n| n.to_be_bytes()[3..].to_vec()).collect();
        client.call(&args!["CINT.IMPORT", format!("fields-{len}"), packed]);
    }
    client.ok("CINT.SET fields-expires LEN 5 0 1 4 1099511627775");
    client.ok("EXPIREAT fields-expires 4102444800");

    let mut fill = |key: &str, ids: &mut dyn Iterator<Item = u64>, bits: u32| {
        let mut values = random(u64::from(bits)).map(|value| value >> (64 - bits));
        for id in ids {
            let mut value = || values.next().unwrap_or_default();
            client.call(&args![
                "CTAB.SET",
                key,
                id,
                0,
                value(),
                1,
                value() >> 4,
                4,
                value() >> 9
            ]);
        }
    };
    fill("table-narrow", &mut (0..400), 12);
    fill("table-wide", &mut random(4).take(100), 40);
    let snowflake = |i: u64| ((1_700_000_000_000 + i * 37) << 22) | (i % 4096);
    fill("table-snowflakes", &mut (0..200).map(snowflake), 15);
    let edges = [0, 1, u64::MAX - 1, u64::MAX];
    fill("table-edges", &mut edges.into_iter(), 40);
    client.ok("CTAB.INCRBY table-long 5 299 7 LEN 300");
    client.ok("CTAB.INIT table-empty 12");
    client.ok("CTAB.SET table-expires 1 0 2");
    client.ok("EXPIREAT table-expires 4102444800");

    let block = random(7).map(|member| member % 65_536);
    let sets: [(&str, &str, Vec<u64>); 7] = [
        ("set-one", "compact", vec![snowflake(1)]),
        ("set-compact", "compact", (0..200).map(snowflake).collect()),
        ("set-edges", "compact", edges.into()),
        ("set-sparse", "sparse", random(1).take(900).collect()),
        ("set-bitmap", "dense", block.take(9_000).collect()),
        ("set-runs", "dense", (70_000..120_000).collect()),
        (
            "set-mixed",
            "mixed",
            (0..20_000).chain((0..300).map(snowflake)).collect(),
        ),
    ];
    for (key, encoding, members) in sets {
        add(client, key, members.into_iter());
        let info = reply::array(client.call(&args!["RBM.INFO", key]));
        assert_eq!(reply::text(info[1].clone()), encoding, "{key}");
    }
    client.ok("RBM.ADD set-expires 1 2 3");
    client.ok("EXPIREAT set-expires 4102444800");
}

/// Changes that an append-only file has as commands.
fn change(client: &mut Client) {
    for command in [
        "CINT.INCRBY fields-5 2 7",
        "CINT.APPLY applied 4 0 17 LEN 5 0 5 1 6",
        "CTAB.INCRBY table-narrow 7 1 1000",
        "CTAB.MAPPLY table-edges 3 0 8589934592 1 0 1",
        "CTAB.DEL table-wide 0",
        "RBM.ADD set-compact 1 2 3",
        "RBM.REM set-runs 80000",
        "RBM.MARK set-marked 42 COUNT count-marked 1 LEN 5 EVENT event-marked SEQ f v",
        "SET text value",
    ] {
        client.ok(command);
    }
}
