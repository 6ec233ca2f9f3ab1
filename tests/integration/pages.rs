//! `CTAB.PAGE`, whose call has several keys and a number of pairs.

use crate::observer::{Effects, Observer};
use crate::router::slot;
use crate::writes::Route;
use countint_tests::{Cluster, Server, args, line, reply};

/// Numbers of pairs that do not match the two pairs of [`call`]. Some equal 2 after a conversion to fewer bits.
const WRONG: [&str; 11] = [
    "0",
    "-1",
    "1",
    "3",
    "258",
    "65538",
    "2147483647",
    "4294967298",
    "1000000000000000000",
    "18446744073709551618",
    "x",
];

/// A call with two pairs.
fn call(numpairs: &str, keys: [&str; 2]) -> String {
    format!("CTAB.PAGE 5 {numpairs} {} 1 {} 2", keys[0], keys[1])
}

/// The server finds the keys by their positions. With a key specification by the number of keys, Redis before 8.10 and
/// Valkey before 9.1 find only the first half of the keys of pairs.
#[test]
fn keys_do_not_depend_on_the_number_of_pairs() {
    let mut server = Server::start();
    let mut client = server.client();
    for numpairs in ["2"].into_iter().chain(WRONG) {
        let line = call(numpairs, ["a", "b"]);
        client.expect(&format!("COMMAND GETKEYS {line}"), "1) \"a\"\n2) \"b\"");
    }
    client.expect(
        "COMMAND GETKEYS CTAB.PAGE 5 4 d 4 c 3 b 2 a 1",
        "1) \"d\"\n2) \"c\"\n3) \"b\"\n4) \"a\"",
    );
    // A pair without an id.
    client.expect("COMMAND GETKEYS CTAB.PAGE 5 2 a 1 b", "1) \"a\"\n2) \"b\"");
    server.assert_alive();
}

#[test]
fn clients_can_compute_the_keys_from_command_info() {
    let server = Server::start();
    let info = reply::array(server.client().ok("COMMAND INFO ctab.page"));
    let info = reply::array(info.into_iter().next().expect("one command"));
    let range: Vec<i64> = info[3..6].iter().cloned().map(reply::int).collect();
    assert_eq!(range, [3, -1, 2], "first key, last key, step");
    assert!(!reply::format(&info[2]).contains("movablekeys"));
}

#[test]
fn acl_protects_every_key_of_a_page() {
    let server = Server::start();
    let (mut admin, mut user) = (server.client(), server.client());
    admin.ok("ACL SETUSER u on >secret +@all ~a ~b");
    user.ok("AUTH u secret");
    for numpairs in ["2"].into_iter().chain(WRONG) {
        let reply = user.run(&call(numpairs, ["a", "b"]));
        assert!(!reply.contains("NOPERM"), "{numpairs}: {reply}");
        for keys in [["a", "c"], ["c", "a"], ["c", "d"]] {
            let line = call(numpairs, keys);
            let reply = user.run(&line);
            assert!(reply.starts_with("(error) NOPERM "), "{line}: {reply}");
            let dry = admin.run(&format!("ACL DRYRUN u {line}"));
            assert_ne!(dry, "OK", "{line}");
        }
    }
    // The last of many keys.
    let pairs = "a 1 b 2 ".repeat(49);
    let line = format!("CTAB.PAGE 5 99 {pairs}c 3");
    assert!(user.run(&line).starts_with("(error) NOPERM "));
    let allowed = user.line(&format!("CTAB.PAGE 5 99 {pairs}b 3"));
    assert_eq!(reply::bytes(allowed).len(), 99 * 25);
}

#[test]
fn page_is_redirected_by_its_keys() {
    let cluster = Cluster::start();
    let cross = "(error) CROSSSLOT Keys in request don't hash to the same slot";
    let slot = slot(b"b");
    let owner = cluster.node_of("b").port();
    let keys = ["{b}1", "{b}2"];
    for node in &cluster.nodes {
        let mut client = node.client();
        for numpairs in ["2"].into_iter().chain(WRONG) {
            client.expect(&call(numpairs, ["{b}1", "{c}2"]), cross);
            let reply = client.run(&call(numpairs, keys));
            if node.port() != owner {
                let moved = format!("(error) MOVED {slot} 127.0.0.1:{owner}");
                assert_eq!(reply, moved, "{numpairs}");
            } else if numpairs != "2" {
                assert!(reply.starts_with("(error) ERR "), "{numpairs}: {reply}");
            }
        }
    }
    let mut owner = cluster.node_of("b").client();
    owner.ok("CTAB.SET {b}2 2 LEN 1 0 9");
    let page = "\"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\t\"";
    owner.expect("CTAB.PAGE 1 2 {b}1 1 {b}2 2", page);
}

/// The hooks of `keymiss` aside, a page has no effects.
#[test]
fn page_has_no_effects() {
    let mut observer = Observer::start();
    let setup: &[&str] = &["CTAB.SET a 1 LEN 2 0 7", "CTAB.SET b 2 LEN 2 1 8"];
    for line in [
        "CTAB.PAGE 2 2 a 1 b 2",
        "CTAB.PAGE 9 3 a 9 b 2 a 9",
        "CTAB.PAGE 2 3 a 1 b 2",
        "CTAB.PAGE 0 2 a 1 b 2",
    ] {
        for route in Route::ALL {
            let (_, effects) = observer.observe(setup, |writer| route.send(writer, line));
            assert_eq!(effects, Effects::default(), "{line} ({route:?})");
        }
    }
}

/// A page over more tables and rows than one batch of lookups equals the reads of each table.
#[test]
fn page_equals_the_reads_of_its_tables() {
    const TABLES: u64 = 70;
    let server = Server::start();
    let mut client = server.client();
    // Tables of 0 to 69 x 9 rows of one to seven counters; some keys are missing.
    for table in (0..TABLES).filter(|table| table % 10 != 3) {
        let len = 1 + table % 7;
        let key = format!("t:{table}");
        client.call(&args!["CTAB.INIT", key, len]);
        let mut batch = args!["CTAB.MINCRBY", key].to_vec();
        for i in 0..table * 9 {
            let id = i << (table % 50);
            batch.extend(args![id, i % len, i * table + 1]);
        }
        if batch.len() > 2 {
            client.call(&batch);
        }
    }
    for (len, pairs) in [(1, 1), (5, 32), (3, 33), (7, 100), (5, 1_000)] {
        let pairs: Vec<(String, u64)> = (0..pairs)
            .map(|i| {
                let table = i * 29 % TABLES;
                (format!("t:{table}"), (i * 31 % 700) << (table % 50))
            })
            .collect();
        let mut page = args!["CTAB.PAGE", len, pairs.len()].to_vec();
        let mut expected = Vec::new();
        for (key, id) in &pairs {
            page.extend(args![key, id]);
            expected.extend(reply::bytes(client.call(&args![
                "CTAB.MREAD",
                len,
                key,
                id
            ])));
        }
        assert!(pairs.len() < 30 || expected.iter().any(|&byte| byte > 0));
        assert_eq!(reply::bytes(client.call(&page)), expected, "{len}");
    }
}

/// Calls of any length with any words never crash the server, with and without access to all keys.
#[test]
fn malformed_pages_never_crash() {
    let mut server = Server::start();
    let mut client = server.client();
    client.ok("ACL SETUSER u on >secret +@all ~a");
    let mut user = server.client();
    user.ok("AUTH u secret");
    let words = ["a", "1", "", "-1", "2147483647", "9223372036854775807"];
    for length in 0..7 {
        for first in words {
            for rest in words {
                let mut call = line::split("CTAB.PAGE").expect("one word");
                call.extend((0..length).map(|i| if i < 2 { first } else { rest }.into()));
                client.call(&call);
                user.call(&call);
                for before in ["GETKEYS", "GETKEYSANDFLAGS"] {
                    let keys = [args!["COMMAND", before].to_vec(), call.clone()].concat();
                    client.call(&keys);
                }
                let dry = [args!["ACL", "DRYRUN", "u"].to_vec(), call.clone()].concat();
                client.call(&dry);
            }
        }
    }
    server.assert_alive();
}
