//! Replicas and append-only files get the effects of each call in one transaction, with the entry's id.

use crate::writes::Route;
use countint_tests::stream::{append_only_commands, lines};
use countint_tests::{Client, ReplicationStream, Server, Snapshot, reply};

/// `k` holds 2; `c` and row 3 of `t` have five fields, of which the first is 7; the stream's last id is 0-4.
const SETUP: [&str; 5] = [
    "DEL k c t x",
    "RBM.ADD k 2",
    "CINT.SET c 0 7",
    "CTAB.SET t 3 0 7",
    "XADD x 0-4 f v",
];

/// Calls that change something, and their replicated commands; several commands are in a transaction.
const EFFECTS: &[(&str, &[&str])] = &[
    ("RBM.MARK k 1", &["RBM.ADD k 1"]),
    ("RBM.UNMARK k 2", &["RBM.REM k 2"]),
    (
        "RBM.MARK k 1 COUNT c 0",
        &["RBM.ADD k 1", "CINT.INCRBY c 0 1"],
    ),
    // A missing counter starts at the cardinality of the set.
    (
        "RBM.MARK k 1 COUNT new 3",
        &["RBM.ADD k 1", "CINT.INCRBY new 3 2 LEN 5"],
    ),
    (
        "RBM.MARK k 1 COUNT c 6 LEN 7",
        &["RBM.ADD k 1", "CINT.INCRBY c 6 1 LEN 7"],
    ),
    (
        "RBM.MARK k 1 COUNT c 0 LEN 6 VERIFY EVENT x SEQ f v",
        &["XADD x 0-5 f v", "RBM.ADD k 1", "CINT.INCRBY c 0 1 LEN 6"],
    ),
    (
        "RBM.UNMARK k 2 COUNT t ROW 3 0 VERIFY",
        &["RBM.REM k 2", "CTAB.INCRBY t 3 0 -1"],
    ),
    (
        "RBM.UNMARK k 2 COUNT c 0",
        &["RBM.REM k 2", "CINT.INCRBY c 0 -1"],
    ),
    // The counter is 0 or missing, so it does not change.
    ("RBM.UNMARK k 2 COUNT c 1", &["RBM.REM k 2"]),
    ("RBM.UNMARK k 2 COUNT new 1", &["RBM.REM k 2"]),
    (
        "RBM.MARK k 1 COUNT t ROW 3 0",
        &["RBM.ADD k 1", "CTAB.INCRBY t 3 0 1"],
    ),
    (
        "RBM.MARK k 1 COUNT t ROW 18446744073709551615 1",
        &["RBM.ADD k 1", "CTAB.INCRBY t 18446744073709551615 1 2"],
    ),
    (
        "RBM.MARK k 1 COUNT t ROW 9 6 LEN 7",
        &["RBM.ADD k 1", "CTAB.INCRBY t 9 6 2 LEN 7"],
    ),
    (
        "RBM.MARK k 1 COUNT new ROW 9 3",
        &["RBM.ADD k 1", "CTAB.INCRBY new 9 3 2 LEN 5"],
    ),
    (
        "RBM.UNMARK k 2 COUNT t ROW 3 0 EVENT x SEQ f v",
        &["XADD x 0-5 f v", "RBM.REM k 2", "CTAB.INCRBY t 3 0 -1"],
    ),
    // The table grows although the counter stays at 0.
    (
        "RBM.UNMARK k 2 COUNT t ROW 3 5 LEN 6",
        &["RBM.REM k 2", "CTAB.INCRBY t 3 5 -1 LEN 6"],
    ),
    // The table or the row is missing: nothing is created or grown.
    ("RBM.UNMARK k 2 COUNT new ROW 3 0 LEN 6", &["RBM.REM k 2"]),
    ("RBM.UNMARK k 2 COUNT t ROW 4 5 LEN 6", &["RBM.REM k 2"]),
    (
        "RBM.MARK k 1 EVENT x SEQ f v",
        &["XADD x 0-5 f v", "RBM.ADD k 1"],
    ),
    (
        "RBM.MARK k 1 COUNT c 0 EVENT x SEQ COUNT c MAXLEN 0",
        &[
            "XADD x 0-5 COUNT c MAXLEN 0",
            "RBM.ADD k 1",
            "CINT.INCRBY c 0 1",
        ],
    ),
    (
        "RBM.MARK k 1 COUNT new 0 LEN 1 EVENT x SEQ f v",
        &["XADD x 0-5 f v", "RBM.ADD k 1", "CINT.INCRBY new 0 2 LEN 1"],
    ),
    (
        "RBM.UNMARK k 2 COUNT c 0 EVENT x SEQ f v",
        &["XADD x 0-5 f v", "RBM.REM k 2", "CINT.INCRBY c 0 -1"],
    ),
    (
        "RBM.MARK k 1 COUNT c 0 EVENT x f v",
        &["XADD x <id> f v", "RBM.ADD k 1", "CINT.INCRBY c 0 1"],
    ),
    (
        "RBM.UNMARK k 2 EVENT x f v",
        &["XADD x <id> f v", "RBM.REM k 2"],
    ),
    // Only the members that change.
    (
        "RBM.MMARK k 3 2 1 1 COUNT c 0 EVENT x SEQ f v",
        &[
            "XADD x 0-5 f v members 3,1",
            "RBM.ADD k 3 1",
            "CINT.INCRBY c 0 2",
        ],
    ),
    (
        "RBM.MMARK k 1 3 COUNT new ROW 9 3 EVENT x f v",
        &[
            "XADD x <id> f v members 1,3",
            "RBM.ADD k 1 3",
            "CTAB.INCRBY new 9 3 3 LEN 5",
        ],
    ),
    ("RBM.MMARK k 1 3", &["RBM.ADD k 1 3"]),
    (
        "RBM.MUNMARK k 2 4 COUNT t ROW 3 0 EVENT x SEQ f v",
        &[
            "XADD x 0-5 f v members 2",
            "RBM.REM k 2",
            "CTAB.INCRBY t 3 0 -1",
        ],
    ),
    ("RBM.MUNMARK k 2 3 COUNT new 1", &["RBM.REM k 2"]),
];

fn last_id(client: &mut Client) -> String {
    let last = reply::array(client.ok("XREVRANGE x + - COUNT 1"));
    let entry = reply::array(last.into_iter().next().expect("there is an entry"));
    reply::text(entry[0].clone())
}

/// Sends every call by every route. Returns the commands expected between `SET mark` and `SET unmark`.
fn play(client: &mut Client) -> Vec<String> {
    let mut expected = Vec::new();
    for (line, effects) in EFFECTS {
        for route in Route::ALL {
            client.ok("DEL new");
            SETUP.iter().for_each(|line| _ = client.ok(line));
            client.ok("SET mark 1");
            let reply = reply::format(&route.send(client, line));
            // The first member changes.
            let reply = reply.replacen("1) 1)", "1)", 1);
            assert!(reply.starts_with("1) (integer) 1"), "{line}: {reply}");
            client.ok("SET unmark 1");
            let id = last_id(client);
            let mut sent: Vec<String> = effects
                .iter()
                .map(|line| line.replace("<id>", &id))
                .collect();
            if sent.len() > 1 {
                sent.insert(0, "MULTI".into());
                sent.push("EXEC".into());
            }
            expected.push(format!("{line} ({route:?}): {sent:?}"));
        }
    }
    client.ok("SET end 1");
    expected
}

/// The commands between `SET mark` and `SET unmark`.
fn sent(lines: &[String]) -> Vec<String> {
    let mut calls = EFFECTS
        .iter()
        .flat_map(|(line, _)| Route::ALL.map(|route| format!("{line} ({route:?})")));
    let mut parts = lines.split(|line| line == "SET mark 1");
    parts.next();
    let between = |part: &[String]| {
        let end = part.iter().position(|line| line == "SET unmark 1");
        let call = calls.next().unwrap_or_default();
        format!("{call}: {:?}", &part[..end.expect("each part ends")])
    };
    parts.map(between).collect()
}

#[test]
fn replicas_get_each_mark_as_one_transaction() {
    let server = Server::start();
    let replica = Server::builder()
        .module_args("default-len 9")
        .replica_of(&server)
        .start();
    let mut stream = ReplicationStream::attach(&server);
    let expected = play(&mut server.client());
    let got = sent(&lines(&stream.until("SET end 1")));
    assert_eq!(got, expected);
    server.wait_for_replica(&replica);
    assert_eq!(server.client().digest(), replica.client().digest());
}

#[test]
fn append_only_files_get_each_mark_as_one_transaction() {
    let mut server = Server::builder().append_only(true).start();
    let expected = play(&mut server.client());
    let before = Snapshot::take(&mut server.client());
    server.kill();
    assert_eq!(sent(&lines(&append_only_commands(&server))), expected);
    server.start_again();
    before.assert_same(&Snapshot::take(&mut server.client()), "after the replay");
}

/// Several calls in one transaction or script.
#[test]
fn marks_of_one_transaction_replicate_as_one_transaction() {
    let server = Server::start();
    let mut stream = ReplicationStream::attach(&server);
    let mut client = server.client();
    let calls = [
        (
            "RBM.MARK k 1 COUNT c 0 EVENT x SEQ f 1",
            "1) (integer) 1\n2) (integer) 1",
        ),
        (
            "RBM.MARK k 1 COUNT c 0 EVENT x SEQ f 1",
            "1) (integer) 0\n2) (integer) 1",
        ),
        (
            "RBM.UNMARK k 1 COUNT c 0 EVENT x SEQ f 2",
            "1) (integer) 1\n2) (integer) 0",
        ),
        (
            "RBM.MARK k 1 COUNT c 9 EVENT x SEQ f 3",
            "(error) ERR index out of range",
        ),
        ("RBM.MARK k 3 COUNT c 0", "1) (integer) 1\n2) (integer) 1"),
    ];
    client.ok("MULTI");
    for (line, _) in calls {
        client.expect(line, "QUEUED");
    }
    let replies = reply::array(client.ok("EXEC"));
    for (reply, (line, printed)) in replies.iter().zip(calls) {
        assert_eq!(reply::format(reply), printed, "{line}");
    }
    let script = "for i = 4, 5 do redis.call('RBM.MARK', 'k', i, 'EVENT', 'x', 'SEQ', 'f', i) end \
                  redis.pcall('RBM.MARK', 'k', 6, 'EVENT', 'k', 'f', 'v') \
                  return redis.call('RBM.UNMARK', 'k', 4)";
    client.expect(&format!("EVAL \"{script}\" 0"), "1) (integer) 1\n2) (nil)");
    client.ok("SET end 1");
    let expected = [
        "MULTI",
        "XADD x 0-1 f 1",
        "RBM.ADD k 1",
        "CINT.INCRBY c 0 1 LEN 5",
        "XADD x 0-2 f 2",
        "RBM.REM k 1",
        "CINT.INCRBY c 0 -1",
        "RBM.ADD k 3",
        "CINT.INCRBY c 0 1",
        "EXEC",
        "MULTI",
        "XADD x 0-3 f 4",
        "RBM.ADD k 4",
        "XADD x 0-4 f 5",
        "RBM.ADD k 5",
        "RBM.REM k 4",
        "EXEC",
    ];
    assert_eq!(lines(&stream.until("SET end 1")), expected);
}

/// A replica and a replayed file trim at the same entry as the master.
#[test]
fn maxlen_trims_replicas_and_files_at_the_same_entry() {
    let mut master = Server::builder().append_only(true).start();
    let replica = master.replica();
    let mut client = master.client();
    client.ok("CONFIG SET appendfsync no");
    // The replica has smaller stream nodes than the master.
    replica.client().ok("CONFIG SET stream-node-max-entries 7");
    for member in 0..1000 {
        for (stream, seq) in [("x", ""), ("q", "SEQ")] {
            let call = format!("RBM.MARK {stream}s {member} EVENT {stream} {seq} MAXLEN 200 f v");
            client.ok(&call);
        }
    }
    for stream in ["x", "q"] {
        let length = reply::int(client.ok(&format!("XLEN {stream}")));
        // Approximate trimming removes whole nodes of 100 entries.
        assert!((200..=300).contains(&length), "{stream}: {length}");
        client.expect(&format!("RBM.CARD {stream}s"), "(integer) 1000");
    }
    let first = client.run("XRANGE q - + COUNT 1");
    master.wait_for_replica(&replica);
    assert_eq!(replica.client().run("XRANGE q - + COUNT 1"), first);
    let digest = client.digest();
    assert_eq!(replica.client().digest(), digest);
    master.restart();
    assert_eq!(master.client().digest(), digest, "after the replay");
    // The ids continue.
    let mut client = master.client();
    client.ok("RBM.MARK qs 5000 EVENT q SEQ f v");
    let last = client.run("XREVRANGE q + - COUNT 1");
    assert!(last.contains("\"0-1001\""), "{last}");
}
