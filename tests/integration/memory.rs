//! Full memory, and memory given back: writes are refused whole, reads and removals go on, and nothing is kept.

use countint_tests::{Client, Server, args, reply, wait_until};

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'";

/// Every command that may take memory, in a form that would change something.
const GROWING: &[&str] = &[
    "CINT.INIT new 5",
    "CINT.INCRBY counters 0 1",
    "CINT.INCRBY new 0 1",
    "CINT.BATCHINCR counters LEN 5000 0 1 1 1",
    "CINT.SET counters 0 7 1 8",
    "CINT.GETSET counters 0 9",
    "CINT.RESIZE counters 60000",
    "CINT.IMPORT new 12345",
    "CINT.ADOPT string LEN 5",
    "CINT.ADOPT hash FIELDS a b",
    "RBM.ADD ids 77 88 99",
    "RBM.OP OR dest ids more",
    "RBM.OP OR ids ids more",
];

const READS: &[(&str, &str)] = &[
    ("CINT.GET counters 1", "(integer) 2"),
    ("CINT.MGET counters 0 1", "1) (integer) 1\n2) (integer) 2"),
    ("CINT.LEN counters", "(integer) 5"),
    ("CINT.MREAD 1 counters", "\"\\x00\\x00\\x00\\x00\\x01\""),
    ("RBM.CONTAINS ids 5", "(integer) 1"),
    ("RBM.CARD ids", "(integer) 5"),
    ("RBM.OPCARD OR ids more", "(integer) 7"),
    ("RBM.MAX more", "\"70000000000\""),
];

fn filled() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    for line in [
        "CINT.SET counters LEN 5 0 1 1 2",
        "RBM.ADD ids 1 2 3 4 5",
        "RBM.ADD more 6 70000000000",
        "BITFIELD string SET u40 #4 9",
        "HSET hash a 1 b 2",
    ] {
        client.ok(line);
    }
    (server, client)
}

#[test]
fn full_memory_refuses_whatever_may_grow_and_leaves_no_half_of_it() {
    let (_server, mut client) = filled();
    let export = reply::bytes(client.ok("RBM.EXPORT more"));
    client.ok("CONFIG SET maxmemory 1");
    let digest = client.digest();
    let refused = |client: &mut Client, what: &str, printed: String| {
        assert!(printed.contains(OOM), "{what}: {printed}");
        assert_eq!(client.digest(), digest, "after {what}");
    };
    for line in GROWING {
        let printed = client.run(line);
        refused(&mut client, line, printed);

        client.ok("MULTI");
        let queued = client.run(line);
        let executed = client.run("EXEC");
        assert!(executed.contains("EXECABORT"), "{line}: {executed}");
        refused(&mut client, line, queued);

        let words = line
            .split(' ')
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>();
        // Without a shebang a script may run when memory is full, until it calls what needs some.
        let script = format!("return redis.call({})", words.join(", "));
        let printed = reply::format(&client.call(&args!["EVAL", script, "0"]));
        refused(&mut client, line, printed);
    }
    let printed = reply::format(&client.call(&args!["RBM.IMPORT", "ids", export]));
    refused(&mut client, "RBM.IMPORT", printed);
    for (line, printed) in READS {
        client.expect(line, printed);
    }
    client.expect("RBM.REM ids 5 6", "(integer) 1");
    client.expect("RBM.REM ids 1 2 3 4", "(integer) 4");
    client.expect("EXISTS ids", "(integer) 0");

    client.ok("CONFIG SET maxmemory 0");
    for line in GROWING.iter().filter(|line| !line.contains("IMPORT")) {
        client.ok(line);
    }
}

#[test]
fn every_write_that_is_not_refused_gives_memory_back() {
    let (_server, mut client) = filled();
    client.ok("CONFIG SET maxmemory 1");
    let commands = reply::array(client.ok("COMMAND LIST FILTERBY MODULE countint"));
    let names: Vec<String> = commands.into_iter().map(reply::text).collect();
    for name in names {
        let info = client.run(&format!("COMMAND INFO {name}"));
        let (write, deny) = (info.contains("write"), info.contains("denyoom"));
        let tested = GROWING
            .iter()
            .any(|line| line.to_ascii_lowercase().starts_with(&format!("{name} ")));
        match name.as_str() {
            "rbm.rem" => assert!(write && !deny, "{name}: {info}"),
            "rbm.import" => assert!(write && deny, "{name}: {info}"),
            _ => assert_eq!((write, deny), (tested, tested), "{name}: {info}"),
        }
    }
}

/// Adds members `from .. to` of `key`, a pipeline at a time.
fn add_range(client: &mut Client, key: &str, from: u64, to: u64, step: usize) {
    let ids: Vec<u64> = (from..to).step_by(step).collect();
    for ids in ids.chunks(50_000) {
        let mut command = vec!["RBM.ADD".to_string(), key.to_string()];
        command.extend(ids.iter().map(u64::to_string));
        assert_eq!(reply::int(client.call(&command)) as usize, ids.len());
    }
}

#[test]
fn a_large_set_is_freed_on_the_background_thread() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["large", "other"] {
        // Every third id of 600 chunks: 600 allocations, enough for the server to want them freed elsewhere.
        add_range(&mut client, key, 0, 600 << 16, 3);
    }
    client.ok("RBM.ADD small 1 2");
    let lazyfreed = |client: &mut Client| client.info_number("memory", "lazyfreed_objects");
    let before = lazyfreed(&mut client);
    client.expect("UNLINK large", "(integer) 1");
    wait_until("the set is freed by the thread that frees", || {
        lazyfreed(&mut client) == before + 1
    });
    client.expect("UNLINK small", "(integer) 1");
    client.expect("FLUSHALL ASYNC", "OK");
    wait_until("the totals are 0", || {
        client.info_number("countint", "countint_rbm_bytes") == 0
            && client.info_number("memory", "lazyfree_pending_objects") == 0
    });
    assert_eq!(client.info_number("countint", "countint_rbm_members"), 0);
    assert!(
        lazyfreed(&mut client) > before + 1,
        "FLUSHALL ASYNC frees there, too"
    );
}

#[test]
fn memory_usage_and_info_tell_what_the_allocator_gave() {
    let server = Server::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info_number("memory", "used_memory");
    // The dictionary is at its final size before the measurement.
    let keys = |kind: &str| {
        (0..4000)
            .map(|i| format!("{kind}{i:05}"))
            .collect::<Vec<_>>()
    };
    client.ok("SET warm up");
    for (kind, make) in [
        (
            "cint",
            &(|key: &String| args!["CINT.INIT", key, "300"].to_vec())
                as &dyn Fn(&String) -> Vec<Vec<u8>>,
        ),
        ("rbm", &|key| {
            let mut command = args!["RBM.ADD", key].to_vec();
            command.extend((0..2000u64).map(|id| (id * 7).to_string().into_bytes()));
            command
        }),
    ] {
        let before = used(&mut client);
        for key in keys(kind) {
            client.call(&make(&key));
        }
        let grown = used(&mut client) - before;
        let told: u64 = keys(kind)
            .iter()
            .map(|key| reply::int(client.call(&args!["MEMORY", "USAGE", key])) as u64)
            .sum();
        let module = client.info_number("countint", &format!("countint_{kind}_bytes"));
        for (what, bytes) in [("MEMORY USAGE", told), ("INFO countint", module)] {
            let ratio = bytes as f64 / grown as f64;
            assert!(
                (0.9..=1.1).contains(&ratio),
                "{what} of {kind}: {bytes} of {grown} bytes"
            );
        }
    }
}

#[test]
fn a_hundred_thousand_commands_keep_no_memory() {
    let server = Server::start();
    let mut client = server.client();
    let round: Vec<Vec<&str>> = [
        "CINT.BATCHINCR counters LEN 40 0 1 39 2 7 -1 7 1",
        "CINT.BATCHINCR counters OVERFLOW FAIL 0 1 1 -1",
        "CINT.MREAD 40 counters missing",
        "RBM.ADD ids 1 2 3 18446744073709551615",
        "RBM.OP XOR other ids missing",
        "RBM.EXPORT ids",
        "RBM.SCAN ids 0",
        "RBM.REM ids 1 2 3 18446744073709551615",
        "CINT.GET counters x",
        "RBM.IMPORT ids garbage",
    ]
    .iter()
    .map(|line| line.split(' ').collect())
    .collect();
    let mut play = |rounds: usize| {
        let commands: Vec<_> = round
            .iter()
            .cycle()
            .take(round.len() * 500)
            .cloned()
            .collect();
        for _ in 0..rounds {
            client.pipeline(&commands);
        }
        client.info_number("memory", "used_memory")
    };
    let (before, after) = (play(2), play(20));
    assert!(
        after.abs_diff(before) < 100_000,
        "{before} bytes before, {after} after"
    );
}
