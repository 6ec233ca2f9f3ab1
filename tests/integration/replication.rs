//! The exact commands that replicas and append-only files get.

use crate::writes::{CHANGES, Change, NOOPS, Route};
use countint_tests::stream::{append_only_commands, lines, normalize};
use countint_tests::{Client, ReplicationStream, Server, Snapshot, env, reply};
use std::time::Duration;

/// The last command of a test.
const END: &str = "SET end 1";

/// The command after each call under test.
const UNMARK: &str = "SET unmark 1";

/// Sends every change by every route. Returns the commands that a replica must get.
fn play_changes(client: &mut Client) -> Vec<String> {
    let mut expected = Vec::new();
    for change in CHANGES {
        for route in Route::ALL {
            let Change { setup, line, .. } = change;
            client.ok("DEL k a b");
            for line in *setup {
                client.ok(line);
            }
            let mark = format!("SET mark '{route:?} > {}'", line.replace(['\'', '"'], ""));
            client.ok(&mark);
            let reply = reply::format(&route.send(client, line));
            assert!(!reply.contains("(error)"), "{line}: {reply}");
            client.ok(UNMARK);
            expected.extend([normalize(&mark), normalize(change.sent()), UNMARK.into()]);
        }
    }
    client.ok(END);
    expected
}

/// The commands between each `SET mark` and `SET unmark`, both included.
fn marked(lines: Vec<String>) -> Vec<String> {
    let mut inside = false;
    let marked = lines.into_iter().filter(|line| {
        inside |= line.starts_with("SET mark ");
        let keep = inside;
        inside &= line != UNMARK;
        keep
    });
    marked.collect()
}

fn assert_lines(got: &[String], expected: &[String]) {
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!(got, expected);
    }
    assert_eq!(got.len(), expected.len());
}

#[test]
fn replicas_get_each_change_as_one_command() {
    let server = Server::start();
    let mut stream = ReplicationStream::attach(&server);
    let expected = play_changes(&mut server.client());
    assert_lines(&marked(lines(&stream.until(END))), &expected);
}

#[test]
fn append_only_files_get_each_change_as_one_command() {
    let mut server = Server::builder().append_only(true).start();
    let expected = play_changes(&mut server.client());
    let before = Snapshot::take(&mut server.client());
    server.kill();
    assert_lines(&marked(lines(&append_only_commands(&server))), &expected);
    server.start_again();
    before.assert_same(&Snapshot::take(&mut server.client()), "after the replay");
}

#[test]
fn append_only_files_get_no_noops() {
    let server = Server::builder().append_only(true).start();
    let mut client = server.client();
    let mut expected = Vec::new();
    for (i, idle) in NOOPS.iter().enumerate() {
        client.ok("DEL k a b");
        for line in idle.setup {
            client.ok(line);
        }
        let mark = format!("SET mark {i}");
        client.ok(&mark);
        client.line(idle.line);
        client.ok(UNMARK);
        expected.extend([mark, UNMARK.into()]);
    }
    assert_lines(&marked(lines(&append_only_commands(&server))), &expected);
}

#[test]
fn transactions_and_scripts_replicate_as_one_transaction() {
    let server = Server::start();
    let mut stream = ReplicationStream::attach(&server);
    let mut client = server.client();
    for line in [
        "MULTI",
        "CINT.GETSET k 0 1",
        "CINT.INCRBY k 0 0",
        "RBM.ADD s 1 2",
        "EXEC",
    ] {
        client.ok(line);
    }
    let script = "redis.call('RBM.REM', 's', 1) redis.call('RBM.REM', 's', 1) \
                  return redis.call('CINT.INCRBY', 'n', 0, 1)";
    client.ok(&format!("EVAL \"{script}\" 0"));
    client.ok(END);
    let expected = [
        "MULTI",
        "CINT.SET k LEN 5 0 1",
        "RBM.ADD s 1 2",
        "EXEC",
        "MULTI",
        "RBM.REM s 1",
        "CINT.INCRBY n 0 1 LEN 5",
        "EXEC",
    ];
    assert_eq!(lines(&stream.until(END)), expected);
}

/// The stream entry (with its id), the set and the counter of a mark are replicated in one transaction.
#[test]
fn mark_replicates_as_one_transaction_of_its_effects() {
    let server = Server::start();
    let mut stream = ReplicationStream::attach(&server);
    let mut client = server.client();
    let calls = [
        "RBM.MARK r 7 COUNT c 1",
        "RBM.MARK r 7 COUNT c 1 EVENT x SEQ op 1",
        "RBM.MARK r 8 COUNT c 6 LEN 7 EVENT x SEQ op 1",
        "RBM.UNMARK r 8 COUNT c 6 EVENT x SEQ op -1",
        "RBM.MARK r 9 EVENT x SEQ MAXLEN 1000 op 1",
        // The counter stays at 0.
        "RBM.UNMARK r 9 COUNT c 0 EVENT x SEQ op -1",
    ];
    calls.iter().for_each(|call| drop(client.ok(call)));
    // In a transaction or a script there is no nested MULTI.
    for line in ["MULTI", calls[4], calls[5], "EXEC"] {
        client.ok(line);
    }
    let script = "return redis.call('RBM.MARK', 'r', 10, 'EVENT', 'x', 'SEQ', 'op', 1)";
    client.ok(&format!("EVAL \"{script}\" 0"));
    client.ok(END);
    #[rustfmt::skip]
    let expected = [
        "MULTI", "RBM.ADD r 7", "CINT.INCRBY c 1 1 LEN 5", "EXEC",
        "MULTI", "XADD x 0-1 op 1", "RBM.ADD r 8", "CINT.INCRBY c 6 1 LEN 7", "EXEC",
        "MULTI", "XADD x 0-2 op -1", "RBM.REM r 8", "CINT.INCRBY c 6 -1", "EXEC",
        "MULTI", "XADD x 0-3 op 1", "RBM.ADD r 9", "EXEC",
        "MULTI", "XADD x 0-4 op -1", "RBM.REM r 9", "EXEC",
        "MULTI", "XADD x 0-5 op 1", "RBM.ADD r 9",
        "XADD x 0-6 op -1", "RBM.REM r 9", "EXEC",
        "MULTI", "XADD x 0-7 op 1", "RBM.ADD r 10", "EXEC",
    ];
    assert_eq!(lines(&stream.until(END)), expected);
}

#[test]
fn replicated_commands_do_not_depend_on_default_len() {
    let mut master = Server::builder()
        .module_args("default-len 7")
        .append_only(true)
        .start();
    let others = ["default-len 3", "default-len 0", "default-len 65535"].map(|args| {
        let builder = Server::builder().module_args(args);
        builder.replica_of(&master).start()
    });
    let mut client = master.client();
    let calls = [
        "CINT.INCRBY {} 6 1",
        "CINT.INCRBY {} 6 -1 OVERFLOW SAT",
        "CINT.BATCHINCR {} 0 1 6 2",
        "CINT.BATCHINCR {} OVERFLOW FAIL 6 0",
        "CINT.SET {} 6 1 0 2",
        "CINT.GETSET {} 6 9",
        "CINT.GETSET {} 0 0",
        "CINT.SET {} LEN 2 0 1",
    ];
    for (i, call) in calls.iter().enumerate() {
        client.ok(&call.replace("{}", &format!("k{i}")));
        let expected = if call.contains("LEN 2") { 2 } else { 7 };
        client.expect(&format!("CINT.LEN k{i}"), &format!("(integer) {expected}"));
    }
    let before = Snapshot::take(&mut client);
    for other in &others {
        master.wait_for_replica(other);
        before.assert_same(&Snapshot::take(&mut other.client()), "on a replica");
    }
    master.kill();
    master.configure("countint.default-len 3");
    master.start_again();
    let mut client = master.client();
    assert_eq!(client.config("countint.*")["countint.default-len"], "3");
    before.assert_same(&Snapshot::take(&mut client), "after the replay");
}

#[test]
fn adopt_keeps_the_expiry() {
    let mut master = Server::builder().append_only(true).start();
    let replica = master.replica();
    let mut client = master.client();
    client.ok("SET s abcdefgh PXAT 4102444800123");
    client.ok("CINT.ADOPT s LEN 2 WIDTH 4");
    client.ok("HSET h a 1");
    client.ok("PEXPIREAT h 4102444800456");
    client.ok("CINT.ADOPT h FIELDS a");
    client.ok("SET p abcde");
    client.ok("CINT.ADOPT p LEN 1");
    master.wait_for_replica(&replica);
    let check = |server: &Server| {
        let mut client = server.client();
        client.expect("PEXPIRETIME s", "(integer) 4102444800123");
        client.expect("PEXPIRETIME h", "(integer) 4102444800456");
        client.expect("PEXPIRETIME p", "(integer) -1");
        client.expect("TYPE s", "CountInt5");
    };
    check(&master);
    check(&replica);
    master.restart();
    check(&master);
}

/// A replay of the append-only file after a field's expiry would not find the field. Servers without field expiry adopt
/// every Hash.
#[test]
fn hash_with_expiring_fields_is_not_adopted() {
    let mut server = Server::builder().append_only(true).start();
    let mut client = server.client();
    client.ok("HSET k a 1 b 2");
    let can_expire = client.run("HPEXPIRE k 9000000 FIELDS 1 b") == "1) (integer) 1";
    if can_expire {
        client.expect("CINT.ADOPT k FIELDS a b", "(error) ERR invalid payload");
        client.ok("DEL k");
        client.ok("HSET k a 1 b 2");
    }
    client.expect("CINT.ADOPT k FIELDS a b", "OK");
    client.expect("CINT.INCRBY k 1 1", "(integer) 3");
    server.kill();
    server.start_again();
    let printed = "1) (integer) 1\n2) (integer) 3";
    server.client().expect("CINT.DUMP k", printed);
}

/// An expired key that was not deleted yet counts as missing: its deletion is replicated, then it is created.
#[test]
fn expired_key_is_deleted_before_it_is_created() {
    let master = Server::start();
    let replica = master.replica();
    let mut stream = ReplicationStream::attach(&master);
    let mut client = master.client();
    client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    client.ok("CINT.SET k LEN 2 0 9");
    client.ok("RBM.ADD s 1 2");
    client.ok("RBM.ADD t 7");
    let life = (20.0 * env::slow()) as u64;
    for key in ["k", "s"] {
        client.ok(&format!("PEXPIRE {key} {life}"));
    }
    client.ok(END);
    stream.until(END);
    std::thread::sleep(Duration::from_millis(life + 5));
    client.expect("CINT.INCRBY k 0 1", "(integer) 1");
    client.expect("RBM.OP OR t s t", "(integer) 1");
    client.ok(END);
    let mut got = lines(&stream.until(END));
    got.retain(|line| !["MULTI", "EXEC"].contains(&line.to_uppercase().as_str()));
    // Servers differ in the command that deletes an expired key.
    let got: Vec<String> = got
        .iter()
        .map(|line| line.replace("UNLINK ", "DEL "))
        .collect();
    assert_eq!(got, ["DEL k", "CINT.INCRBY k 0 1 LEN 5", "DEL s"]);
    master.wait_for_replica(&replica);
    assert_eq!(client.digest(), replica.client().digest());
}

#[test]
fn replica_refuses_writes_and_serves_reads() {
    let master = Server::start();
    let mut client = master.client();
    client.ok("CINT.SET k LEN 2 1 5");
    client.ok("RBM.ADD s 1 2");
    let replica = master.replica();
    let mut client = replica.client();
    let before = client.digest();
    for line in CHANGES.iter().map(|change| change.line) {
        let reply = client.run(line);
        let refused = "(error) READONLY You can't write against a read only replica.";
        assert_eq!(reply, refused, "{line}");
    }
    assert_eq!(client.digest(), before);
    client.expect("CINT.DUMP k", "1) (integer) 0\n2) (integer) 5");
    client.expect("RBM.SCAN s 0", "1) \"0\"\n2) 1) \"1\"\n   2) \"2\"");
}
