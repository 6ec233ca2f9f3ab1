//! Tables of many columns of which rows use few: replies, memory, and reloading.

use countint_tests::{Client, Server, args, reply};

const WIDTH: u64 = 65_535;

/// Columns spread irregularly over a row.
fn column(i: u64) -> u64 {
    i * 48_271 % WIDTH
}

fn bytes(client: &mut Client, key: &str) -> u64 {
    let info = reply::array(client.ok(&format!("CTAB.INFO {key}")));
    reply::int(info[7].clone()) as u64
}

#[test]
fn packed_rows_return_each_counter() {
    let server = Server::start();
    let mut client = server.client();
    let mut batch = args!["CTAB.MINCRBY", "t", "LEN", WIDTH].to_vec();
    for id in 0..100 {
        batch.extend(args![id, column(id), id + 1, id, 3, 1u64 << 33]);
    }
    client.call(&batch);
    // Every second id has no row.
    let ids = (0..20).map(|i| if i % 2 == 0 { i } else { 1000 + i });
    let mut read = args!["CTAB.MREAD", WIDTH, "t"].to_vec();
    read.extend(ids.clone().map(|id| id.to_string().into_bytes()));
    let page = reply::bytes(client.call(&read));
    assert_eq!(page.len() as u64, 20 * WIDTH * 5);
    for (id, row) in ids.zip(page.chunks(WIDTH as usize * 5)) {
        let fields = row.chunks(5).map(|field| {
            let bytes = field.iter();
            bytes.fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
        });
        let found: Vec<(u64, u64)> = (0..).zip(fields).filter(|field| field.1 > 0).collect();
        let mut expected = vec![(column(id), id + 1), (3, 1 << 33)];
        expected.retain(|_| id < 100);
        expected.sort_unstable();
        assert_eq!(found, expected, "row {id}");
        if id < 100 {
            client.expect(
                &format!("CTAB.GET t {id} {}", column(id)),
                &format!("(integer) {}", id + 1),
            );
        }
    }
}

/// A page can gain columns after it has many rows.
#[test]
fn table_that_gained_columns_reloads() {
    let mut server = Server::start();
    let mut client = server.client();
    for id in 0..200 {
        let mut line = args!["CTAB.SET", "t", id, "LEN", 25].to_vec();
        (0..25).for_each(|idx| line.extend(args![idx, if idx < 4 { 3 } else { 1 }]));
        client.call(&line);
    }
    client.ok("CTAB.RESIZE t 32");
    client.expect("CTAB.DEL t 40", "(integer) 1");
    let dump = reply::bytes(client.ok("DUMP t"));
    assert_eq!(
        reply::format(&client.call(&args!["RESTORE", "copy", 0, dump])),
        "OK"
    );
    let export = reply::bytes(client.ok("CTAB.EXPORT t 0 18446744073709551615"));
    client.call(&args!["CTAB.IMPORT", "other", export]);
    client.expect("CTAB.CARD other", "(integer) 199");
    let digest = client.digest();
    client.ok("SAVE");
    server.restart();
    let mut client = server.client();
    assert_eq!(client.digest(), digest);
    client.expect("CTAB.CARD t", "(integer) 199");
}

/// The sizes of the tables add up to the total, however they were created or changed.
#[test]
fn table_sizes_add_up_to_the_total() {
    let server = Server::start();
    let mut client = server.client();
    let check = |client: &mut Client, keys: &[&str], what: &str| {
        let sum: u64 = keys.iter().map(|key| bytes(client, key)).sum();
        let reported = client.info_number("countint", "countint_ctab_bytes");
        assert_eq!(sum, reported, "{what}");
    };
    client.ok("CTAB.INIT a 5");
    check(&mut client, &["a"], "INIT");
    for id in 0..500 {
        client.ok(&format!("CTAB.INCRBY a {id} {} 9 LEN {WIDTH}", column(id)));
    }
    check(&mut client, &["a"], "INCRBY");
    let all = |client: &mut Client, key: &str| {
        reply::bytes(client.ok(&format!("CTAB.EXPORT {key} 0 18446744073709551615")))
    };
    let export = all(&mut client, "a");
    client.call(&args!["CTAB.IMPORT", "b", export]);
    check(&mut client, &["a", "b"], "IMPORT of a new table");
    client.ok(&format!("CTAB.SET c 7000 LEN {WIDTH} 9 9"));
    let export = all(&mut client, "c");
    client.call(&args!["CTAB.IMPORT", "b", export]);
    check(&mut client, &["a", "b", "c"], "IMPORT of more rows");
    client.ok("COPY b d");
    let dump = reply::bytes(client.ok("DUMP b"));
    client.call(&args!["RESTORE", "e", 0, dump]);
    check(&mut client, &["a", "b", "c", "d", "e"], "COPY and RESTORE");
    let export = all(&mut client, "c");
    let refused = client.call(&args!["CTAB.IMPORT", "d", export]);
    assert_eq!(reply::format(&refused), "(error) ERR id already exists");
    check(&mut client, &["a", "b", "c", "d", "e"], "a refused IMPORT");
    for id in 0..500 {
        client.ok(&format!("CTAB.DEL b {id}"));
    }
    check(&mut client, &["a", "b", "c", "d", "e"], "DEL");
    client.ok("FLUSHALL SYNC");
    check(&mut client, &[], "FLUSHALL");
}

/// Tables with equal rows have equal digests, however they were built; a different counter changes the digest.
#[test]
fn digest_depends_on_the_rows_only() {
    let server = Server::start();
    let mut client = server.client();
    let mut digest = |lines: &[String]| {
        client.ok("FLUSHALL");
        lines.iter().for_each(|line| {
            client.ok(line);
        });
        reply::format(&client.ok("DEBUG DIGEST-VALUE t"))
    };
    let row = |id: u64, idx: u64, value: u64| format!("CTAB.SET t {id} LEN {WIDTH} {idx} {value}");
    let rows: Vec<String> = (0..40).map(|id| row(id, column(id), id)).collect();
    let expected = digest(&rows);
    let mut other: Vec<String> = rows.iter().rev().cloned().collect();
    other.insert(5, row(1000, WIDTH - 1, 1 << 39));
    other.push("CTAB.DEL t 1000".to_owned());
    other.push(row(3, 65_000, 7));
    other.push(row(3, 65_000, 0));
    assert_eq!(digest(&other), expected);
    for last in [
        row(3, 65_000, 7),
        row(3, column(3), 4),
        row(50, 0, 0),
        "CTAB.DEL t 3".to_owned(),
        format!("CTAB.RESIZE t {}", WIDTH - 1),
    ] {
        let mut other = rows.clone();
        other.push(last.clone());
        assert_ne!(digest(&other), expected, "{last}");
    }
}
