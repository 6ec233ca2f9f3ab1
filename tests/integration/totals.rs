//! The totals of `INFO countint` equal the sums over the existing keys after any operation.

use countint_tests::play::{Player, Route};
use countint_tests::{Client, Scenario, Server, args, env, reply, wait_until};

/// Objects, fields, sets, members.
type Totals = [u64; 4];

const NAMES: [&str; 4] = [
    "countint_cint_objects",
    "countint_cint_fields",
    "countint_rbm_objects",
    "countint_rbm_members",
];

fn reported(client: &mut Client) -> Totals {
    let info = client.info("countint");
    NAMES.map(|name| info[name].parse().expect("a total is a number"))
}

fn bytes(client: &mut Client) -> [u64; 2] {
    ["countint_cint_bytes", "countint_rbm_bytes"].map(|name| client.info_number("countint", name))
}

/// The totals counted from the keys of the connection's database.
fn counted(client: &mut Client) -> Totals {
    let mut totals = [0; 4];
    for key in reply::array(client.ok("KEYS *")) {
        let key = reply::bytes(key);
        let (first, read) = match reply::text(client.call(&args!["TYPE", key])).as_str() {
            "CountInt5" => (0, "CINT.LEN"),
            "RoaringBM" => (2, "RBM.CARD"),
            _ => continue,
        };
        totals[first] += 1;
        totals[first + 1] += reply::int(client.call(&args![read, key])) as u64;
    }
    totals
}

/// Waits for lazy freeing, after which the totals must be exact.
fn settle(client: &mut Client, what: &str, expected: Totals) {
    wait_until(&format!("INFO reports {expected:?} after {what}"), || {
        reported(client) == expected
    });
    let [counters, sets] = bytes(client);
    assert_eq!(
        counters == 0,
        expected[0] == 0,
        "bytes of counters after {what}"
    );
    assert_eq!(sets == 0, expected[2] == 0, "bytes of sets after {what}");
}

fn check(client: &mut Client, line: &str, expected: Totals) {
    client.ok(line);
    settle(client, line, expected);
}

#[test]
fn totals_follow_creation_and_removal() {
    let server = Server::start();
    let mut client = server.client();
    settle(&mut client, "the start", [0; 4]);
    let steps: [(&str, Totals); 34] = [
        ("CINT.INCRBY a 0 1", [1, 5, 0, 0]),
        ("CINT.INCRBY a 6 1 LEN 7", [1, 7, 0, 0]),
        ("CINT.RESIZE a 9", [1, 9, 0, 0]),
        ("CINT.RESIZE a 7", [1, 7, 0, 0]),
        ("CINT.INIT b 65535", [2, 65_542, 0, 0]),
        ("RBM.ADD r 1 2 18446744073709551615", [2, 65_542, 1, 3]),
        ("RBM.REM r 2", [2, 65_542, 1, 2]),
        ("COPY a a2", [3, 65_549, 1, 2]),
        ("COPY r r2", [3, 65_549, 2, 4]),
        ("COPY b a2 REPLACE", [3, 131_077, 2, 4]),
        ("RENAME a2 b", [2, 65_542, 2, 4]),
        ("RENAME b b3", [2, 65_542, 2, 4]),
        ("RBM.OP XOR r3 r r2", [2, 65_542, 2, 4]),
        ("RBM.OP OR b3 r r2", [1, 7, 3, 6]),
        ("RBM.OP DIFF b3 r r2", [1, 7, 2, 4]),
        ("SET a text", [0, 0, 2, 4]),
        ("SET r text", [0, 0, 1, 2]),
        ("RBM.REM r2 1 18446744073709551615", [0, 0, 0, 0]),
        ("SET h \"\\x00\\x00\\x00\\x00\\x01\"", [0; 4]),
        ("CINT.ADOPT h LEN 4", [1, 4, 0, 0]),
        ("GETDEL r", [1, 4, 0, 0]),
        ("DEL h", [0; 4]),
        ("CINT.IMPORT i hello", [1, 1, 0, 0]),
        ("UNLINK i", [0; 4]),
        ("CINT.SET e 0 1", [1, 5, 0, 0]),
        ("PEXPIRE e 1", [0; 4]),
        ("CINT.SET e 0 1", [1, 5, 0, 0]),
        ("EXPIREAT e 1", [0; 4]),
        ("CINT.SET s 0 1", [1, 5, 0, 0]),
        ("MOVE s 1", [1, 5, 0, 0]),
        ("SWAPDB 0 1", [1, 5, 0, 0]),
        ("RBM.ADD t 7", [1, 5, 1, 1]),
        ("FLUSHALL SYNC", [0; 4]),
        ("CINT.SET s 0 1", [1, 5, 0, 0]),
    ];
    for (line, totals) in steps {
        check(&mut client, line, totals);
    }
    check(&mut client, "FLUSHDB ASYNC", [0; 4]);
}

#[test]
fn totals_follow_lazily_freed_sets() {
    let server = Server::start();
    let mut client = server.client();
    for how in [
        "UNLINK r",
        "FLUSHALL ASYNC",
        "DEL r",
        "SET r 1",
        "PEXPIRE r 1",
        "RBM.OP AND r r nosuch",
    ] {
        client.ok("DEL r");
        crate::dataset::add(&mut client, "r", (0..30_000).map(|i| i * 70_001));
        settle(&mut client, "RBM.ADD", [0, 0, 1, 30_000]);
        check(&mut client, how, [0; 4]);
    }
}

#[test]
fn totals_ignore_refused_writes() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CINT.SET a LEN 2 0 1");
    client.ok("RBM.ADD r 1");
    let refused = [
        "CINT.INCRBY a 0 -9 LEN 5 OVERFLOW FAIL",
        "CINT.INCRBY nosuch 0 -9 OVERFLOW FAIL",
        "CINT.SET a LEN 5 9 1",
        "CINT.IMPORT nosuch abc",
        "CINT.IMPORT a abcde",
        "CINT.RESIZE a 65536",
        "RBM.ADD r 2 x",
        "RBM.ADD a 2",
        "RBM.IMPORT r abc",
        "RBM.OP OR nosuch r a",
        "CINT.ADOPT r LEN 2",
    ];
    for line in refused {
        let printed = client.run(line);
        assert!(printed.starts_with("(error)"), "{line}: {printed}");
        settle(&mut client, line, [1, 2, 1, 1]);
    }
}

#[test]
fn totals_follow_reloads() {
    let mut server = Server::builder().append_only(true).start();
    let mut client = server.client();
    client.ok("CINT.SET a LEN 7 0 1");
    client.ok("CINT.SET b LEN 2 0 1");
    client.ok("RBM.ADD r 1 2 3");
    let totals = [2, 9, 1, 3];
    let memory = bytes(&mut client);
    check(&mut client, "DEBUG RELOAD", totals);
    check(&mut client, "DEBUG LOADAOF", totals);
    assert_eq!(
        bytes(&mut client),
        memory,
        "the same values take the same memory"
    );
    let dump = reply::bytes(client.ok("DUMP r"));
    for replace in [1, 2] {
        client.call(&args!["RESTORE", "r2", 0, dump, "REPLACE"]);
        settle(&mut client, &format!("RESTORE {replace}"), [2, 9, 2, 6]);
    }
    client.ok("DEL r2");
    settle(&mut client, "DEL", totals);
    server.rewrite_aof();
    server.restart();
    let mut client = server.client();
    settle(&mut client, "a restart", totals);
    assert_eq!(
        bytes(&mut client),
        memory,
        "the same values take the same memory"
    );
    let replica = server.replica();
    server.wait_for_replica(&replica);
    settle(&mut replica.client(), "a full sync", totals);
    assert_eq!(bytes(&mut replica.client()), memory);
}

#[test]
fn totals_ignore_refused_loads() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RBM.ADD r 1 2 3");
    let payload = countint_tests::payload::Payload::parse(&reply::bytes(client.ok("DUMP r")));
    let body = countint_tests::payload::Body::module("CountInt5", 1);
    for (i, forged) in [
        body.clone().string(b"abcd").end(),
        body.clone().unsigned(5).end(),
    ]
    .iter()
    .enumerate()
    {
        let printed =
            reply::format(&client.call(&args!["RESTORE", "x", 0, payload.reseal(forged)]));
        assert!(printed.starts_with("(error)"), "{printed}");
        settle(&mut client, "a refused RESTORE", [0, 0, 1, 3]);
        assert_eq!(
            client.info_number("countint", "countint_rejected_loads"),
            i as u64 + 1
        );
    }
    let good = body.string(b"abcde").end();
    assert_eq!(
        reply::format(&client.call(&args!["RESTORE", "x", 0, payload.reseal(&good)])),
        "OK"
    );
    settle(&mut client, "a good RESTORE", [1, 1, 1, 3]);
    assert_eq!(client.info_number("countint", "countint_rejected_loads"), 2);
}

#[test]
fn bytes_follow_the_allocator() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CINT.INIT a 5");
    let [cell, 0] = bytes(&mut client) else {
        panic!("there is no set");
    };
    // Two bytes of length and five fields of five bytes, rounded up by the allocator. valgrind replaces the allocator.
    let jemalloc = client.info("memory")["mem_allocator"].starts_with("jemalloc");
    let rounded = if jemalloc && env::slow() == 1.0 {
        32..=32
    } else {
        27..=48
    };
    assert!(rounded.contains(&cell), "a cell of {cell} bytes");
    client.ok("COPY a b");
    assert_eq!(bytes(&mut client), [2 * cell, 0]);
    client.ok("CINT.RESIZE a 12");
    assert!(bytes(&mut client)[0] > 2 * cell);
    client.ok("CINT.RESIZE a 5");
    assert_eq!(bytes(&mut client), [2 * cell, 0]);
    client.ok("CINT.INIT large 65535");
    assert!(bytes(&mut client)[0] > 5 * 65_535);
    client.ok("FLUSHALL SYNC");

    client.ok("RBM.ADD r 1 2 3");
    let reported = |client: &mut Client| {
        let info = reply::array(client.ok("RBM.INFO r"));
        reply::int(
            info.into_iter()
                .last()
                .expect("RBM.INFO ends with the bytes"),
        ) as u64
    };
    assert_eq!(bytes(&mut client), [0, reported(&mut client)]);
    crate::dataset::add(&mut client, "r", (0..20_000).map(|i| i * 1000));
    assert_eq!(bytes(&mut client), [0, reported(&mut client)]);
    for member in 0..20_000_u64 {
        if member % 2000 == 0 {
            assert_eq!(
                bytes(&mut client),
                [0, reported(&mut client)],
                "after {member} removals"
            );
        }
        client.call(&args!["RBM.REM", "r", member * 1000]);
    }
    client.ok("FLUSHALL SYNC");
    assert_eq!(bytes(&mut client), [0, 0]);
}

#[test]
fn saturations_are_counted() {
    let server = Server::start();
    let mut client = server.client();
    let steps = [
        ("CINT.INCRBY k 0 1099511627775", 0),
        ("CINT.INCRBY k 0 0", 0),
        ("CINT.INCRBY k 0 1", 1),
        ("CINT.INCRBY k 0 -1099511627775", 1),
        ("CINT.INCRBY k 0 -1", 2),
        ("CINT.INCRBY k 0 -9223372036854775808", 3),
        (
            "CINT.BATCHINCR k 0 -1 1 -1 0 1 2 9223372036854775807 2 1",
            7,
        ),
        ("CINT.BATCHINCR k 0 1 0 -1", 7),
    ];
    for (line, total) in steps {
        client.ok(line);
        assert_eq!(
            client.info_number("countint", "countint_saturations"),
            total,
            "{line}"
        );
    }
    // A refused increment is not a saturation.
    for line in [
        "CINT.INCRBY k 0 -1000 OVERFLOW FAIL",
        "CINT.BATCHINCR k 0 -1000 9 1",
        "CINT.INCRBY nosuch 9 -1",
    ] {
        assert!(client.run(line).starts_with("(error)"), "{line}");
        assert_eq!(
            client.info_number("countint", "countint_saturations"),
            7,
            "{line}"
        );
    }
}

#[test]
fn totals_hold_after_every_scenario_step() {
    let server = Server::start();
    let mut player = Player::new(&server, Route::Direct, false);
    let mut client = server.client();
    for scenario in Scenario::all() {
        player.reset();
        for step in &scenario.steps {
            player
                .step(step)
                .unwrap_or_else(|why| panic!("{}:{} {why}", scenario.name, step.line));
            let expected = counted(&mut client);
            let what = format!("{}:{} > {}", scenario.name, step.line, step.command);
            settle(&mut client, &what, expected);
        }
    }
}
