//! A cluster of three masters: the keys of a call, redirections, malformed calls, and keys in different slots.

use crate::keys::KEYS;
use crate::router::slot;
use crate::writes::registered;
use countint_tests::{Client, Cluster, Server, Value, args, line, reply};
use std::collections::BTreeSet;

/// Runs `COMMAND GETKEYS` or `COMMAND GETKEYSANDFLAGS` for a call.
fn command_keys(client: &mut Client, subcommand: &str, call: &[Vec<u8>]) -> Value {
    let mut words = args!["COMMAND", subcommand].to_vec();
    words.extend_from_slice(call);
    client.call(&words)
}

fn split(line: &str) -> Vec<Vec<u8>> {
    line::split(line).expect("valid quotes")
}

#[test]
fn getkeys_is_exact() {
    let server = Server::start();
    let mut client = server.client();
    for row in KEYS {
        let call = split(row.line);
        let keys = reply::array(command_keys(&mut client, "GETKEYS", &call));
        let keys: Vec<String> = keys.into_iter().map(reply::text).collect();
        let expected: Vec<&str> = row.keys.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, expected, "{}", row.line);

        let rows = reply::array(command_keys(&mut client, "GETKEYSANDFLAGS", &call));
        for (got, (key, flags)) in rows.into_iter().zip(row.keys) {
            let got = reply::array(got);
            assert_eq!(reply::text(got[0].clone()), *key, "{}", row.line);
            let got: BTreeSet<String> = reply::array(got[1].clone())
                .into_iter()
                .map(reply::text)
                .collect();
            let expected: BTreeSet<String> = flags.split(' ').map(str::to_owned).collect();
            assert_eq!(got, expected, "{} of {}", key, row.line);
        }
    }
    let in_table: BTreeSet<String> = KEYS.iter().map(|row| row.command()).collect();
    let all = &registered(&mut client, "write") | &registered(&mut client, "readonly");
    assert_eq!(in_table, all);
}

#[test]
fn keys_may_be_named_like_options() {
    let server = Server::start();
    let mut client = server.client();
    let call = "RBM.MARK COUNT 1 COUNT EVENT 0 EVENT LEN LEN COUNT";
    for command in ["GETKEYS", "GETKEYSANDFLAGS"] {
        let keys = reply::array(command_keys(&mut client, command, &split(call)));
        let names = keys.into_iter().map(|key| match key {
            Value::Array(mut row) => reply::text(row.remove(0)),
            key => reply::text(key),
        });
        assert_eq!(names.collect::<Vec<_>>(), ["COUNT", "EVENT", "LEN"]);
    }
    client.expect(call, "1) (integer) 1\n2) (integer) 1");
    client.expect("XLEN LEN", "(integer) 1");
    let call = "RBM.MMARK COUNT 2 3 COUNT EVENT 0 EVENT LEN LEN COUNT";
    let keys = command_keys(&mut client, "GETKEYS", &split(call));
    assert_eq!(
        reply::format(&keys),
        "1) \"COUNT\"\n2) \"EVENT\"\n3) \"LEN\""
    );
    assert!(client.run(call).ends_with("\n2) (integer) 3"));
}

/// A truncated call has no keys, wherever it is cut.
#[test]
fn malformed_marks_have_no_keys() {
    let mut server = Server::start();
    let mut client = server.client();
    let calls = [
        (
            "RBM.MARK r 1 COUNT c 0 LEN 3 EVENT x SEQ MAXLEN 9 f v g w",
            [3, 6, 8, 15, 17],
        ),
        (
            "RBM.MARK r 1 COUNT t ROW 7 0 LEN 3 EVENT x SEQ MAXLEN 9 f v g w",
            [3, 8, 10, 17, 19],
        ),
        (
            "RBM.MMARK r 1 2 COUNT c 0 EVENT x SEQ MAXLEN 9 f v g w",
            [3, 4, 7, 14, 16],
        ),
    ];
    for (line, complete) in calls {
        let whole = split(line);
        for length in 1..=whole.len() {
            let call = &whole[..length];
            let reported = reply::format(&command_keys(&mut client, "GETKEYS", call));
            let context = format!("the first {length} words: {reported}");
            assert_eq!(
                !reported.starts_with("(error)"),
                complete.contains(&length),
                "{context}"
            );
        }
    }
    server.assert_alive();
}

/// The minimal number of words of a call.
fn arity(client: &mut Client, command: &str) -> usize {
    let info = reply::array(client.ok(&format!("COMMAND INFO {command}")));
    let row = reply::array(info.into_iter().next().expect("the command is known"));
    reply::int(row[1].clone()).unsigned_abs() as usize
}

#[test]
fn malformed_calls_are_errors_in_a_cluster() {
    let mut cluster = Cluster::start();
    let mut client = cluster.nodes[0].client();
    let commands: BTreeSet<String> = KEYS.iter().map(|row| row.command()).collect();
    for command in &commands {
        let arity = arity(&mut client, command);
        for filler in ["a", "", "-1", "LEN", "{"] {
            for extra in 0..arity + 3 {
                let mut call = vec![command.clone().into_bytes()];
                call.resize(1 + extra, filler.into());
                let context = format!("{command} with {extra} arguments {filler:?}");
                for subcommand in ["GETKEYS", "GETKEYSANDFLAGS"] {
                    let reply = reply::format(&command_keys(&mut client, subcommand, &call));
                    if call.len() < arity {
                        assert!(reply.starts_with("(error) ERR "), "{context}: {reply}");
                    }
                }
                let reply = reply::format(&client.call(&call));
                if call.len() < arity {
                    let refused = reply.starts_with("(error) ERR wrong number of arguments");
                    assert!(refused, "{context}: {reply}");
                }
            }
        }
    }
    cluster.nodes[0].assert_alive();
}

/// The call with all its keys in the slot of `tag`.
fn tagged(row: &crate::keys::Keys, tag: &str) -> Vec<Vec<u8>> {
    let mut call = split(row.line);
    for word in &mut call[1..] {
        if row.keys.iter().any(|(key, _)| key.as_bytes() == *word) {
            *word = [format!("{{{tag}}}").as_bytes(), word].concat();
        }
    }
    call
}

#[test]
fn calls_are_redirected_to_the_owner_of_their_slot() {
    let cluster = Cluster::start();
    let mut clients: Vec<Client> = cluster.nodes.iter().map(Server::client).collect();
    // One tag per node, so that each node serves some calls and redirects the others.
    for (owner, tag) in ["b", "c", "a"].iter().enumerate() {
        let slot = slot(tag.as_bytes());
        clients[owner].expect(
            &format!("CLUSTER KEYSLOT {tag}"),
            &format!("(integer) {slot}"),
        );
        let moved = format!(
            "(error) MOVED {slot} 127.0.0.1:{}",
            cluster.nodes[owner].port()
        );
        for row in KEYS {
            let call = tagged(row, tag);
            clients[owner].ok(&format!("DEL {{{tag}}}n"));
            clients[owner].ok(&format!("CINT.SET {{{tag}}}c LEN 3 0 0"));
            for (node, client) in clients.iter_mut().enumerate() {
                let reply = reply::format(&client.call(&call));
                let context = format!("node {node}, tag {tag}: {}", row.line);
                if node == owner {
                    assert!(!reply.starts_with("(error) MOVED"), "{context}: {reply}");
                    let missing = reply.contains("ERR no such key");
                    assert!(
                        missing || !reply.starts_with("(error)"),
                        "{context}: {reply}"
                    );
                } else {
                    assert_eq!(reply, moved, "{context}");
                }
            }
        }
    }
}

#[test]
fn keys_in_different_slots_are_refused() {
    let cluster = Cluster::start();
    let refused = "(error) CROSSSLOT Keys in request don't hash to the same slot";
    let mut multi_key = BTreeSet::new();
    for row in KEYS
        .iter()
        .filter(|row| row.required_permissions().len() > 1)
    {
        multi_key.insert(row.command());
        for node in &cluster.nodes {
            assert_eq!(node.client().run(row.line), refused, "{}", row.line);
        }
    }
    let expected = [
        "cint.mdump",
        "cint.mread",
        "ctab.page",
        "rbm.mcard",
        "rbm.mark",
        "rbm.mmark",
        "rbm.munmark",
        "rbm.op",
        "rbm.opcard",
        "rbm.page",
        "rbm.unmark",
    ];
    assert_eq!(multi_key, BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn cluster_client_reaches_every_key() {
    let cluster = Cluster::start();
    let mut connection = cluster.connection();
    for i in 0..60_i64 {
        let key = format!("n:{i}");
        let mut incr = redis::cmd("CINT.INCRBY");
        let value: i64 = incr
            .arg(&key)
            .arg(0)
            .arg(i)
            .query(&mut connection)
            .unwrap_or_else(|why| panic!("{key}: {why}"));
        assert_eq!(value, i);
        // The first argument is not a key. A client that routes by it is redirected.
        let page: Vec<u8> = redis::cmd("CINT.MREAD")
            .arg(1)
            .arg(&key)
            .query(&mut connection)
            .unwrap_or_else(|why| panic!("{key}: {why}"));
        assert_eq!(page, [0, 0, 0, 0, i as u8]);
    }
    let sizes = cluster
        .nodes
        .iter()
        .map(|node| reply::int(node.client().ok("DBSIZE")));
    let sizes: Vec<i64> = sizes.collect();
    assert_eq!(sizes.iter().sum::<i64>(), 60);
    assert!(sizes.iter().all(|size| *size > 0), "{sizes:?}");
}
