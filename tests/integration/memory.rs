//! The module's reported memory agrees with the server's, and nothing leaks.

use super::hostile::portable::{array, bitmap, one_half, runs};
use countint_tests::client::encode;
use countint_tests::{Client, Server, Value, args, env, reply, wait_until};

/// A server whose memory depends on its data only.
fn quiet_server() -> Server {
    Server::builder()
        .config("slowlog-log-slower-than -1")
        .config("latency-tracking no")
        .start()
}

fn used_memory(client: &mut Client) -> u64 {
    client.info_number("memory", "used_memory")
}

/// The bytes of both types in `INFO countint`.
fn reported_bytes(client: &mut Client) -> u64 {
    client.info_number("countint", "countint_cint_bytes")
        + client.info_number("countint", "countint_rbm_bytes")
}

/// The sum of `MEMORY USAGE` of k0, k1, ...
fn usage(client: &mut Client, keys: u64) -> u64 {
    let commands: Vec<_> = (0..keys)
        .map(|i| args!["MEMORY", "USAGE", format!("k{i}")].to_vec())
        .collect();
    let replies = client.pipeline(&commands);
    replies.into_iter().map(|n| reply::int(n) as u64).sum()
}

/// Runs a command for each of k0, k1, ...; `{}` in an argument stands for the key.
fn for_each_key(client: &mut Client, keys: u64, command: &[&[u8]]) {
    let commands: Vec<Vec<Vec<u8>>> = (0..keys)
        .map(|i| {
            let key = format!("k{i}").into_bytes();
            let own = |arg: &&[u8]| {
                if *arg == b"{}" {
                    key.clone()
                } else {
                    arg.to_vec()
                }
            };
            command.iter().map(own).collect()
        })
        .collect();
    for reply in client.pipeline(&commands) {
        assert!(
            !matches!(reply, Value::ServerError(_)),
            "{}",
            reply::format(&reply)
        );
    }
}

fn assert_near(a: u64, b: u64, percent: u64, what: &str) {
    assert!(a.abs_diff(b) * 100 <= percent * b, "{what}: {a} and {b}");
}

/// Many values grow from a small to a larger form: `used_memory`, `MEMORY USAGE` and `INFO countint` must agree.
fn growth(what: &str, keys: u64, create: &[&[u8]], grow: &[&[u8]]) {
    let server = quiet_server();
    let mut client = server.client();
    for_each_key(&mut client, keys, create);
    // The same traffic as below, so that the connection's buffers have grown.
    let measure = |client: &mut Client| {
        let usage = usage(client, keys);
        client.ok("MEMORY PURGE");
        (used_memory(client), usage, reported_bytes(client))
    };
    measure(&mut client);
    let (used, usage, said) = measure(&mut client);
    for_each_key(&mut client, keys, grow);
    let (used_after, usage_after, said_after) = measure(&mut client);
    let (used, usage, said) = (used_after - used, usage_after - usage, said_after - said);
    println!("{what}: used_memory +{used}, MEMORY USAGE +{usage}, INFO countint +{said}");
    assert!(usage > 0, "{what}: nothing grew");
    assert_eq!(usage, said, "{what}: MEMORY USAGE and INFO countint");
    assert_near(
        usage,
        used,
        10,
        &format!("{what}: MEMORY USAGE and used_memory"),
    );
}

#[test]
fn counters_report_their_memory() {
    growth(
        "counters, 1 to 5",
        20_000,
        &[b"CINT.INIT", b"{}", b"1"],
        &[b"CINT.RESIZE", b"{}", b"5"],
    );
    growth(
        "counters, 5 to 300",
        3000,
        &[b"CINT.INIT", b"{}", b"5"],
        &[b"CINT.INCRBY", b"{}", b"0", b"1", b"LEN", b"300"],
    );
}

#[test]
fn small_sets_report_their_memory() {
    growth(
        "sets, 1 member to 4 near ones",
        20_000,
        &[b"RBM.ADD", b"{}", b"5000000000"],
        &[
            b"RBM.ADD",
            b"{}",
            b"5000000100",
            b"5000000200",
            b"5000000300",
            b"5000070000",
        ],
    );
    growth(
        "sets, 1 member to 4 far ones",
        10_000,
        &[b"RBM.ADD", b"{}", b"1"],
        &[
            b"RBM.ADD",
            b"{}",
            b"18446744073709551615",
            b"5000000000",
            b"77777777777777",
        ],
    );
}

#[test]
fn sets_of_each_container_report_their_memory() {
    let some: Vec<u16> = (0..1000).map(|n| n * 60).collect();
    let containers = [
        array(1, &some),
        bitmap(2, (0..30_000).map(|n| n * 2)),
        runs(3, &[(0, 9), (100, 500), (60_000, 3000)]),
    ];
    let first = one_half(&[array(0, &some[..200])]);
    for (name, container) in ["array", "bitmap", "runs"].into_iter().zip(containers) {
        let bytes = one_half(&[container]);
        let keys = if name == "runs" { 10_000 } else { 1000 };
        growth(
            &format!("sets, and a container of the kind {name}"),
            keys,
            &[b"RBM.IMPORT", b"{}", &first],
            &[b"RBM.IMPORT", b"{}", &bytes],
        );
    }
    let sparse: Vec<Vec<u8>> = (0..2000u64)
        .map(|n| {
            n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_string()
                .into_bytes()
        })
        .collect();
    let mut grow: Vec<&[u8]> = vec![b"RBM.ADD", b"{}"];
    grow.extend(sparse.iter().map(Vec::as_slice));
    growth(
        "sets, and 2000 sparse members",
        100,
        &[b"RBM.ADD", b"{}", b"1"],
        &grow,
    );
}

/// The server's overhead for a key is small compared with a large value.
#[test]
fn large_values_report_nearly_all_memory() {
    let server = quiet_server();
    let mut client = server.client();
    let before = used_memory(&mut client);
    for_each_key(&mut client, 2000, &[b"CINT.INIT", b"{}", b"1000"]);
    let used = used_memory(&mut client) - before;
    let usage = usage(&mut client, 2000);
    assert_near(
        usage,
        used,
        10,
        "MEMORY USAGE and used_memory of whole keys",
    );
    assert!(
        used >= reported_bytes(&mut client),
        "the server sees all that the module holds"
    );
}

/// Sends all commands `rounds` times with `CLIENT REPLY OFF`.
fn without_replies(client: &mut Client, rounds: usize, commands: &[&[u8]]) {
    let round = commands.concat();
    let batch = 1 + 200_000 / round.len();
    client
        .send(&encode(&["CLIENT", "REPLY", "OFF"]))
        .expect("the server listens");
    let mut left = rounds;
    while left > 0 {
        let now = left.min(batch);
        client.send(&round.repeat(now)).expect("the server listens");
        left -= now;
    }
    client.ok("CLIENT REPLY ON");
}

/// Asserts that a command was called this often and never failed.
fn assert_called(client: &mut Client, command: &str, calls: usize) {
    let stats = client.info("commandstats");
    let line = &stats[&format!("cmdstat_{command}")];
    assert!(
        line.starts_with(&format!("calls={calls},")),
        "{command}: {line}"
    );
    assert!(
        line.contains("rejected_calls=0,failed_calls=0"),
        "{command}: {line}"
    );
}

/// Runs a few rounds as a warm-up, then `rounds`, after which the memory must be unchanged.
fn leaks_nothing(server: &Server, rounds: usize, lines: &[String]) {
    const NOISE: u64 = 8 << 10;
    let commands: Vec<Vec<u8>> = lines
        .iter()
        .map(|line| encode(&countint_tests::line::split(line).expect("valid quotes")))
        .collect();
    let commands: Vec<&[u8]> = commands.iter().map(Vec::as_slice).collect();
    without_replies(&mut server.client(), 100, &commands);
    let before = server.client().used_memory_when_idle();
    without_replies(&mut server.client(), rounds, &commands);
    let mut client = server.client();
    let mut after = 0;
    wait_until("the memory is as before", || {
        after = client.used_memory_when_idle();
        println!("used_memory: {before} before, {after} after");
        after.abs_diff(before) <= NOISE
    });
}

#[test]
fn batches_leak_nothing() {
    let rounds = (100_000.0 / env::slow()) as usize;
    let server = quiet_server();
    let counters: Vec<String> = (0..40).map(|idx| format!("{idx} 3")).collect();
    let large = format!("CINT.BATCHINCR big LEN 5000 {}", counters.join(" "));
    let lines = ["CINT.BATCHINCR k 0 5 1 -3 4 100 0 7 2 1".to_owned(), large];
    leaks_nothing(&server, rounds, &lines);
    assert_called(&mut server.client(), "cint.batchincr", 2 * (100 + rounds));
}

#[test]
fn every_command_leaks_nothing() {
    let rounds = (4000.0 / env::slow()) as usize;
    let server = quiet_server();
    let members: Vec<String> = (0..300u64).map(|n| (n * 7_777_777).to_string()).collect();
    let members = members.join(" ");
    // Each round restores the data it began with.
    let lines = [
        "CINT.INIT c 5",
        "CINT.INCRBY c 7 1 LEN 9",
        "CINT.INCRBY c 0 -1 OVERFLOW FAIL",
        "CINT.BATCHINCR c 0 1 1 2",
        "CINT.SET c LEN 12 0 1 1 2",
        "CINT.GETSET c 0 7",
        "CINT.RESIZE c 500",
        "CINT.RESIZE c 3",
        "CINT.RESIZE c 8",
        "CINT.MGET c 0 1 2",
        "CINT.DUMP c",
        "CINT.MDUMP c c none",
        "CINT.MREAD 10 c none c",
        "CINT.EXPORT c",
        "CINT.IMPORT i \"\\x00\\x00\\x00\\x00\\x01\"",
        "CINT.IMPORT i bad",
        "COPY c i REPLACE",
        "BITFIELD s SET u40 #4 7",
        "CINT.ADOPT s LEN 9",
        "HSET h f 1 g 2",
        "CINT.ADOPT h FIELDS f nosuch",
        "CINT.ADOPT h FIELDS f g x",
        "RBM.ADD r {members}",
        "RBM.ADD q 7777777 5 6",
        "RBM.MCONTAINS r 1 2 3",
        "RBM.SCAN r 0 COUNT 100",
        "RBM.SCAN r 0 COUNT 100 REV",
        "RBM.EXPORT r",
        "RBM.EXPORT r 5 5000000000",
        "RBM.IMPORT r bad",
        "RBM.OP AND d r q",
        "RBM.OP OR d r q",
        "RBM.OP XOR d r q d",
        "RBM.OP DIFF d q r",
        "RBM.OPCARD OR r q d",
        "RBM.OP OR q r q",
        "COPY r d REPLACE",
        "RBM.REM r {members}",
        "RBM.ADD c 1",
        "CINT.GET q 0",
        "DUMP q",
        "EVAL \"return redis.call('RBM.CARD', 'q')\" 0",
        "UNLINK d",
        "DEL c i s h q",
    ]
    .map(|line| line.replace("{members}", &members));
    leaks_nothing(&server, rounds, &lines);
    let mut client = server.client();
    client.expect("DBSIZE", "(integer) 0");
    assert_eq!(reported_bytes(&mut client), 0);
    assert_called(&mut client, "rbm.rem", 100 + rounds);
}
