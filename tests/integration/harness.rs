//! Tests of the harness, on servers without the module.

use countint_tests::payload::Payload;
use countint_tests::{Cluster, Server, Snapshot, args, env, reply};
use std::process::Command;

fn plain() -> Server {
    Server::builder().no_module().start()
}

const SOME_DATA: [&str; 5] = [
    "SET s \"a\\x00b\"",
    "RPUSH l a b c d e f g h i j k",
    "HSET h f v",
    "SADD set 3",
    "SELECT 3",
];

fn fill(server: &Server) -> Snapshot {
    let mut client = server.client();
    for line in SOME_DATA {
        client.ok(line);
    }
    client.ok("SET t 1 EXAT 4102444800");
    Snapshot::take(&mut client)
}

#[test]
fn replies_print_as_in_redis_cli() {
    let server = plain();
    let mut clients = [server.client(), server.client3()];
    clients[0].ok("RPUSH l a b c d e f g h i j k");
    clients[0].ok("HSET h f 1");
    clients[0].ok("SADD set a");
    clients[0].ok("SET s \"\\x00\\xff\\\"\\\\ \\n\\r\\t\\a\\b\"");
    let lines = [
        "GET s",
        "GET nosuch",
        "LRANGE l 0 -1",
        "LRANGE l 0 -2",
        "LRANGE nosuch 0 -1",
        "STRLEN s",
        "PING",
        "HGETALL h",
        "HGETALL nosuch",
        "SMEMBERS set",
        "SMEMBERS nosuch",
        "CONFIG GET maxmemory",
        "EVAL \"return {1, {2, {'x', 'y'}, false}, {}, {3}}\" 0",
        "EVAL \"redis.setresp(3) return {{map={a={{1, 2}}}}, {map={b={map={c={map={d={3, 4}}}}}}}}\" 0",
        "COMMAND INFO get nosuch lrange",
        "COMMAND DOCS get",
        "CLUSTER SLOTS",
        "GET",
        "INCR l",
        "NOSUCH",
        "DEBUG PROTOCOL double",
        "DEBUG PROTOCOL true",
        "DEBUG PROTOCOL null",
        "DEBUG PROTOCOL set",
        "DEBUG PROTOCOL map",
    ];
    for (client, protocol) in clients.iter_mut().zip(["-2", "-3"]) {
        for line in lines {
            let args = countint_tests::line::split(line).expect("valid quotes");
            let args = args
                .iter()
                .map(|arg| String::from_utf8_lossy(arg).into_owned());
            let output = Command::new(env::cli())
                .args(["--no-raw", protocol, "-p", &server.port().to_string()])
                .args(args)
                .output()
                .expect("redis-cli starts");
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let printed = printed.trim_end_matches('\n');
            assert_eq!(client.run(line), printed, "redis-cli {protocol} {line}");
        }
    }
}

#[test]
fn restart_keeps_saved_data() {
    let mut server = plain();
    let before = fill(&server);
    server.client().ok("SAVE");
    server.client().ok("SET lost 1");
    server.restart();
    before.assert_same(
        &Snapshot::take(&mut server.client()),
        "after SAVE and a restart",
    );
}

#[test]
fn append_only_file_survives_kill() {
    for preamble in [true, false] {
        let mut server = Server::builder().no_module().append_only(preamble).start();
        let before = fill(&server);
        server.kill();
        assert!(!server.is_alive());
        server.start_again();
        let replayed = Snapshot::take(&mut server.client());
        before.assert_same(&replayed, "after the replay");
        server.rewrite_aof();
        server.restart();
        let rewritten = Snapshot::take(&mut server.client());
        before.assert_same(&rewritten, "after the rewrite");
    }
}

#[test]
fn replica_follows_its_master() {
    let master = plain();
    let early = master.replica();
    let before = fill(&master);
    let late = master.replica();
    for replica in [&early, &late] {
        master.wait_for_replica(replica);
        before.assert_same(&Snapshot::take(&mut replica.client()), "on a replica");
    }
    let mut client = master.client();
    client.ok("SELECT 3");
    client.ok("SET t 2");
    let difference = before.difference(&Snapshot::take(&mut client), |db| format!("<{db}>"));
    let difference = difference.expect("the changed key is reported");
    assert!(
        difference.starts_with("<3>, key \"t\":\n- string"),
        "{difference}"
    );
}

#[test]
fn cluster_routes_keys() {
    let cluster = Cluster::with(|builder| builder.no_module());
    let mut connection = cluster.connection();
    for i in 0..20 {
        let key = format!("key:{i}");
        let reply: String = redis::cmd("SET")
            .arg(&key)
            .arg(i)
            .query(&mut connection)
            .expect("SET");
        assert_eq!(reply, "OK");
        let printed = cluster.node_of(&key).client().run(&format!("GET {key}"));
        assert_eq!(printed, format!("\"{i}\""));
    }
    cluster.manage(&["check", "{node}"]);
}

#[test]
fn forged_payloads_have_a_valid_checksum() {
    let server = plain();
    let mut client = server.client();
    client.ok("SET k hello");
    let dump = reply::bytes(client.ok("DUMP k"));
    let payload = Payload::parse(&dump);
    assert_eq!(payload.seal(), dump);
    let forged = payload.reseal(b"\x00\x05world");
    client.call(&args!["RESTORE", "k2", 0, forged]);
    client.expect("GET k2", "\"world\"");
}

#[test]
fn raw_bytes_are_sent_and_received() {
    let server = plain();
    let mut socket = server.raw();
    socket.expect(b"PING\r\n", b"+PONG\r\n");
    socket.expect(b"*1\r\n$4\r\nECHO\r\n", b"-ERR wrong number");
    let mut socket = server.raw();
    socket.expect(
        b"*1\r\n$-7\r\n",
        b"-ERR Protocol error: invalid bulk length\r\n",
    );
    assert_eq!(socket.read_to_end().expect("the server closes"), b"");
}

#[test]
fn failed_start_reports_the_reason() {
    let log = Server::builder()
        .no_module()
        .config("nonsense 1")
        .try_start();
    let log = log.err().expect("a bad configuration is refused");
    assert!(log.contains("nonsense"), "{log}");
}

#[test]
fn dead_server_is_detected() {
    let mut server = plain();
    assert!(server.is_alive());
    server.signal("KILL");
    server.wait_for_end();
    assert!(!server.is_alive());
    assert!(server.refuses_connections());
}
