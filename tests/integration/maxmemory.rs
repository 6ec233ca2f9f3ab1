//! At `maxmemory` with nothing to evict: commands that can use more memory get an error and change nothing; all others
//! work.

use crate::writes::changes::IMPORT_ROWS;
use countint_tests::{Client, Server, Value, args, line, reply};
use std::collections::BTreeSet;

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

const DATA: [&str; 7] = [
    "CINT.SET c LEN 5 0 7 1 8",
    "RBM.ADD r 1 2 3 70000 18446744073709551615",
    "RBM.ADD q 3 4 5",
    "CTAB.SET t 7 LEN 5 0 7 1 8",
    "BITFIELD packed SET u40 #4 7",
    "HSET hash f 1",
    "SADD set 1 2",
];

/// Every command that can use more memory, on existing and on missing keys.
const GROWING: [&str; 35] = [
    "CINT.INIT new 5",
    "CINT.INCRBY c 0 1",
    "CINT.INCRBY c 9 1 LEN 10",
    "CINT.INCRBY new 0 1",
    "CINT.BATCHINCR c 0 1 4 1",
    "CINT.BATCHINCR new LEN 9 8 1",
    "CINT.SET c 0 9",
    "CINT.GETSET c 0 9",
    "CINT.RESIZE c 9",
    "CINT.IMPORT new \"\\x00\\x00\\x00\\x00\\x01\"",
    "CINT.ADOPT packed LEN 5",
    "CINT.ADOPT hash FIELDS f",
    "CINT.APPLY c 2 1 2 0 1",
    "CTAB.INIT new 5",
    "CTAB.INCRBY t 7 0 1",
    "CTAB.INCRBY t 8 0 1",
    "CTAB.INCRBY new 7 0 1",
    "CTAB.BATCHINCR t 7 0 1 4 1",
    "CTAB.MINCRBY t 7 0 1 8 0 1",
    "CTAB.SET t 7 0 9",
    "CTAB.GETSET t 7 0 9",
    "CTAB.MAPPLY t 3 0 9 7 0 0",
    "CTAB.RESIZE t 9",
    IMPORT_ROWS,
    "CTAB.MINCRBY new 1 0 0",
    "RBM.ADOPT set",
    "RBM.MARK new 1",
    "RBM.MARK r 99 COUNT c 0 EVENT x f v",
    "RBM.MMARK new 1 2",
    "RBM.MMARK r 98 99 COUNT c 0 EVENT x f v",
    "RBM.ADD r 99",
    "RBM.ADD new 1",
    "RBM.OP OR r r q",
    "RBM.OP AND new r q",
    // 99, exported.
    "RBM.IMPORT r \"\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x3a\\x30\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\
     \\x10\\x00\\x00\\x00\\x63\\x00\"",
];

/// Every read command.
const READS: [&str; 30] = [
    "CINT.GET c 0",
    "CINT.MGET c 0 1",
    "CINT.LEN c",
    "CINT.DUMP c",
    "CINT.MDUMP c none",
    "CINT.MREAD 5 c none",
    "CINT.EXPORT c",
    "CTAB.GET t 7 0",
    "CTAB.MGET t 7 8",
    "CTAB.MREAD 5 t 7 8",
    "CTAB.PAGE 5 2 t 7 none 8",
    "CTAB.CARD t",
    "CTAB.SCAN t 0",
    "CTAB.EXPORT t 0 9",
    "CTAB.INFO t",
    "RBM.CONTAINS r 1",
    "RBM.MCONTAINS r 1 9",
    "RBM.PAGE 1 r none q",
    "RBM.CARD r",
    "RBM.MCARD r none q",
    "RBM.MIN r",
    "RBM.MAX r",
    "RBM.RANK r 70000",
    "RBM.SELECT r 3",
    "RBM.COUNT r 0 100",
    "RBM.SCAN r 0",
    "RBM.OPCARD OR r q",
    "RBM.EXPORT r",
    "RBM.EXPORT r 1 2",
    "RBM.INFO r",
];

/// The module's commands with a flag.
fn commands_with(client: &mut Client, flag: &str) -> BTreeSet<String> {
    let names = reply::array(client.ok("COMMAND LIST FILTERBY MODULE countint"));
    let names = names.into_iter().map(reply::text);
    names
        .filter(|name| {
            let info = reply::array(client.call(&["COMMAND", "INFO", name]));
            let mut fields = reply::array(info.into_iter().next().expect("one command"));
            reply::array(fields.swap_remove(2)).contains(&Value::SimpleString(flag.into()))
        })
        .collect()
}

fn names(lines: &[&str]) -> BTreeSet<String> {
    lines
        .iter()
        .map(|line| line.split(' ').next().unwrap_or_default().to_lowercase())
        .collect()
}

/// A server with data, at its memory limit, and a client.
fn full() -> (Server, Client) {
    let server = Server::builder()
        .config("maxmemory-policy noeviction")
        .start();
    let mut client = server.client();
    for line in DATA {
        client.ok(line);
    }
    fill_up(&mut client);
    (server, client)
}

fn fill_up(client: &mut Client) {
    client.ok("CONFIG SET maxmemory 1kb");
}

#[test]
fn exactly_growing_commands_have_denyoom() {
    let server = Server::start();
    let mut client = server.client();
    let mut writes = commands_with(&mut client, "write");
    // Removals free memory. UNMARK and MUNMARK refuse their event themselves.
    for name in ["ctab.del", "rbm.rem", "rbm.unmark", "rbm.munmark"] {
        assert!(writes.remove(name), "{name} writes");
    }
    assert_eq!(commands_with(&mut client, "denyoom"), writes);
    assert_eq!(names(&GROWING), writes, "GROWING lists every command");
    assert_eq!(
        names(&READS),
        commands_with(&mut client, "readonly"),
        "GROWING lists every command"
    );
}

#[test]
fn growing_writes_are_refused_and_change_nothing() {
    let (_server, mut client) = full();
    let digest = client.digest();
    for line in GROWING {
        client.expect(line, &format!("(error) {OOM}"));
        assert_eq!(client.digest(), digest, "{line}");
    }
    // With more memory each of them succeeds and changes something.
    for line in GROWING {
        client.ok("CONFIG SET maxmemory 0");
        client.ok("FLUSHALL");
        for line in DATA {
            client.ok(line);
        }
        client.ok(line);
        assert_ne!(client.digest(), digest, "{line}");
    }
}

#[test]
fn transactions_with_growing_writes_are_refused() {
    let (_server, mut client) = full();
    let digest = client.digest();
    for line in GROWING {
        client.ok("MULTI");
        client.expect(line, &format!("(error) {OOM}"));
        let reason = "Transaction discarded because of previous errors.";
        client.expect("EXEC", &format!("(error) EXECABORT {reason}"));
        assert_eq!(client.digest(), digest, "{line}");
    }
}

#[test]
fn transaction_queued_before_the_limit_is_refused_at_exec() {
    let (server, mut client) = full();
    let mut other = server.client();
    let digest = client.digest();
    for line in GROWING {
        other.ok("CONFIG SET maxmemory 0");
        client.ok("MULTI");
        client.expect("RBM.REM r 1", "QUEUED");
        client.expect(line, "QUEUED");
        fill_up(&mut other);
        let reason = format!("Transaction discarded because of: {OOM}");
        client.expect("EXEC", &format!("(error) EXECABORT {reason}"));
        assert_eq!(other.digest(), digest, "{line}");
    }
}

#[test]
fn scripts_get_the_oom_error() {
    let (_server, mut client) = full();
    let digest = client.digest();
    for line in GROWING {
        let words = line::split(line).expect("valid quotes");
        let mut script = args!["EVAL", "return redis.call(unpack(ARGV))", 0].to_vec();
        script.extend(words);
        let reply = reply::format(&client.call(&script));
        assert!(
            reply.starts_with("(error) OOM command not allowed"),
            "{line}: {reply}"
        );
        assert_eq!(client.digest(), digest, "{line}");
    }
    client.expect(
        "EVAL \"return {redis.call('CINT.GET', 'c', 0), redis.call('RBM.REM', 'r', 1)}\" 0",
        "1) (integer) 7\n2) (integer) 1",
    );
}

#[test]
fn reads_and_removals_work_at_the_limit() {
    let (server, mut client) = full();
    client.ok("CONFIG SET maxmemory 0");
    let before = READS.map(|line| reply::format(&client.ok(line)));
    fill_up(&mut client);
    let after = READS.map(|line| reply::format(&client.ok(line)));
    assert_eq!(before, after);
    client.expect("RBM.REM r 1 2 9", "(integer) 2");
    client.expect("RBM.CARD r", "(integer) 3");
    client.expect("CTAB.DEL t 7 8", "(integer) 1");
    // At the limit the server queues no commands, but it executes those queued before.
    client.ok("CONFIG SET maxmemory 0");
    client.ok("MULTI");
    client.ok("RBM.REM r 3 70000");
    client.ok("RBM.CARD r");
    fill_up(&mut server.client());
    client.expect("EXEC", "1) (integer) 2\n2) (integer) 1");
    client.expect("RBM.REM r 18446744073709551615", "(integer) 1");
    client.expect("EXISTS r", "(integer) 0");
    client.expect("DEL c q", "(integer) 2");
}

/// Runs `grow(0)`, `grow(1)`, ... until the OOM error. Returns the number of successes.
fn until_refused(client: &mut Client, grow: impl Fn(u64) -> String) -> u64 {
    for i in 0..1_000_000 {
        match client.line(&grow(i)) {
            Value::ServerError(error) => {
                assert_eq!(reply::error_text(&error), OOM);
                return i;
            }
            _ => continue,
        }
    }
    panic!("no OOM error");
}

#[test]
fn maxmemory_counts_module_memory() {
    const ROOM: u64 = 16 << 20;
    let server = Server::builder()
        .config("maxmemory-policy noeviction")
        .start();
    let mut client = server.client();
    let limit = |client: &mut Client| {
        client.ok("FLUSHALL SYNC");
        client.ok("CONFIG SET maxmemory 0");
        let limit = client.info_number("memory", "used_memory") + ROOM;
        client.ok(&format!("CONFIG SET maxmemory {limit}"));
    };
    limit(&mut client);
    let objects = until_refused(&mut client, |i| format!("CINT.INIT k{i} 65535"));
    let room = ROOM / (2 + 5 * 65_535);
    assert!(
        (room * 9 / 10..=room + 1).contains(&objects),
        "{objects} objects in {ROOM} bytes"
    );

    limit(&mut client);
    // Each needs its own allocation.
    let member = |i: u64| (i * 7919) << 16;
    until_refused(&mut client, |i| {
        let members: Vec<String> = (100 * i..100 * i + 100)
            .map(|i| member(i).to_string())
            .collect();
        format!("RBM.ADD r {}", members.join(" "))
    });
    let bytes = client.info_number("countint", "countint_rbm_bytes");
    assert!(
        (ROOM * 9 / 10..=ROOM + ROOM / 10).contains(&bytes),
        "{bytes} bytes of a set"
    );
    // Removals make room for new writes.
    let members: Vec<String> = (0..20_000).map(|i| member(i).to_string()).collect();
    client.expect(
        &format!("RBM.REM r {}", members.join(" ")),
        "(integer) 20000",
    );
    client.expect("CINT.INCRBY c 0 1", "(integer) 1");
}
