//! Effects of the functions on a server without the module: replication, memory limits, clusters, and permissions.

use super::fallback::{Call, Fallback, Form};
use countint_tests::{Client, Server, reply};

/// Data, and a call that does not change it.
const NOOPS: [(&[&str], &str); 27] = [
    (&[], "CINT.GET k 0"),
    (&[], "CINT.INCRBY k 5 1"),
    (&[], "CINT.INCRBY k 0 -1 OVERFLOW FAIL"),
    (&[], "RBM.UNMARK s 1 COUNT k 0 EVENT log f v"),
    (&["CINT.SET k 0 1"], "CINT.INCRBY k 0 0"),
    (&["CINT.SET k 0 1"], "CINT.INCRBY k 1 -1"),
    (&["CINT.SET k 0 1099511627775"], "CINT.INCRBY k 0 1"),
    (&["CINT.SET k 0 1"], "CINT.INCRBY k 0 0 LEN 5"),
    (
        &["CINT.SET k 0 1"],
        "CINT.INCRBY k 0 -2 LEN 9 OVERFLOW FAIL",
    ),
    (&["CINT.SET k 0 1"], "CINT.BATCHINCR k 0 0"),
    (&["CINT.SET k 0 1"], "CINT.BATCHINCR k 0 1 0 -1"),
    (&["CINT.SET k 0 1"], "CINT.BATCHINCR k 0 1 1 -5 0 -1"),
    (&["CINT.SET k 0 1"], "CINT.BATCHINCR k 0 1 LEN 9"),
    (
        &["CINT.SET k 0 1"],
        "CINT.BATCHINCR k OVERFLOW FAIL 0 1 1 -1",
    ),
    (&["CINT.SET k 0 1"], "CINT.SET k 0 1 1 0"),
    (&["CINT.SET k 0 1"], "CINT.SET k 0 2 5 1"),
    (&["CINT.SET k 0 1"], "CINT.SET k 0 7 0 1"),
    (&["CINT.SET k 0 1"], "CINT.GETSET k 0 1"),
    (&["CINT.SET k 0 1"], "CINT.RESIZE k 5"),
    (&["CINT.SET k 4 1"], "CINT.RESIZE k 4"),
    (&["CINT.SET k 0 1"], "CINT.INIT k 5"),
    (&["CINT.APPLY k 4 0 9 0 1"], "CINT.APPLY k 4 0 9 LEN 8 0 1"),
    (&["CINT.APPLY k 4 0 9 0 1"], "CINT.APPLY k 4 5 12 0 1"),
    (
        &["RBM.MARK s 1"],
        "RBM.MARK s 1 COUNT k 0 LEN 3 EVENT log f v",
    ),
    (
        &["RBM.MARK s 2 COUNT k 0"],
        "RBM.UNMARK s 1 COUNT k 0 LEN 9 EVENT log f v",
    ),
    (
        &["XADD log 5-1 f v", "RBM.ADD s 2", "CINT.SET k 0 1"],
        "RBM.MARK s 1 COUNT k 0 LEN 9 EVENT log SEQ f v",
    ),
    (
        &["XADD log 5-1 f v", "RBM.ADD s 1", "CINT.SET k 0 1"],
        "RBM.UNMARK s 1 COUNT k 0 LEN 9 EVENT log SEQ f v",
    ),
];

/// Calls that change something. The watched keys are k, s, log and j.
const CHANGING: [&str; 13] = [
    "CINT.INIT k 3",
    "CINT.INCRBY k 0 0",
    "CINT.INCRBY k 0 1 LEN 4",
    "CINT.INCRBY k 0 0 LEN 6",
    "CINT.BATCHINCR k 0 1 1 1 0 -1",
    "CINT.SET k 0 7 4 9",
    "CINT.GETSET k 4 0",
    "CINT.RESIZE k 3",
    "CINT.APPLY k 2 0 0 0 0",
    "RBM.MARK s 1 COUNT k 0 EVENT log f v",
    "RBM.MARK s 2 COUNT k 0 EVENT log MAXLEN 100 f v",
    "RBM.UNMARK s 1 COUNT k 0 EVENT log f v",
    "CINT.IMPORT j hello",
];

/// The observed effects of a call.
#[derive(Debug, PartialEq, Eq)]
struct Effects {
    /// The server counted a change.
    counted_change: bool,
    /// The transaction of a client that WATCHes was aborted.
    watch_aborted: bool,
    /// A write command was executed (other than XADD, which may have failed). Servers differ in whether a BITFIELD that
    /// stores an equal value is a change.
    write_command: bool,
}

impl Effects {
    const ALL: Effects = Effects {
        counted_change: true,
        watch_aborted: true,
        write_command: true,
    };
    const NONE: Effects = Effects {
        counted_change: false,
        watch_aborted: false,
        write_command: false,
    };
}

fn observe(fallback: &mut Fallback, watcher: &mut Client, line: &str) -> Effects {
    const FIELD: &str = "rdb_changes_since_last_save";
    watcher.ok("CONFIG RESETSTAT");
    let before = watcher.info_number("persistence", FIELD);
    watcher.ok("WATCH k s log j");
    fallback.run(line);
    watcher.ok("MULTI");
    watcher.ok("PING");
    let watch_aborted = watcher.run("EXEC") == "(nil)";
    let commands = watcher.info("commandstats");
    let writes = ["bitfield", "set", "sadd", "srem"];
    Effects {
        counted_change: watcher.info_number("persistence", FIELD) > before,
        watch_aborted,
        write_command: writes
            .iter()
            .any(|name| commands.contains_key(&format!("cmdstat_{name}"))),
    }
}

#[test]
fn noops_write_nothing() {
    let server = Fallback::server().start();
    let mut watcher = server.client();
    for form in Form::ALL {
        let mut fallback = Fallback::load(server.client(), form);
        for (setup, line) in NOOPS {
            fallback.client.ok("FLUSHDB");
            for line in setup {
                let reply = fallback.run(line);
                assert!(!reply.starts_with("(error)"), "> {line}: {reply}");
            }
            let effects = observe(&mut fallback, &mut watcher, line);
            assert_eq!(effects, Effects::NONE, "{setup:?} > {line} ({form:?})");
        }
        fallback.client.ok("FLUSHDB");
        for line in CHANGING
            .into_iter()
            .filter(|line| *line != "CINT.INCRBY k 0 0")
        {
            let effects = observe(&mut fallback, &mut watcher, line);
            assert_eq!(effects, Effects::ALL, "> {line} ({form:?})");
        }
        // Creation is a change, even if all fields are 0.
        fallback.client.ok("FLUSHDB");
        let effects = observe(&mut fallback, &mut watcher, "CINT.INCRBY k 0 0");
        assert_eq!(effects, Effects::ALL, "creation ({form:?})");
    }
}

/// The master generates stream IDs from its clock; replicas and files have the same IDs.
#[test]
fn replicas_and_append_only_files_have_equal_data() {
    for form in Form::ALL {
        let mut master = Fallback::server().append_only(true).start();
        let replica = master.replica();
        let mut fallback = Fallback::load(master.client(), form);
        for line in CHANGING {
            let reply = fallback.run(line);
            assert!(!reply.starts_with("(error)"), "> {line}: {reply}");
        }
        let digest = master.client().digest();
        master.wait_for_replica(&replica);
        assert_eq!(replica.client().digest(), digest, "the replica ({form:?})");
        master.restart();
        assert_eq!(master.client().digest(), digest, "a restart ({form:?})");
        if form == Form::Function {
            // A library is replicated and persisted like data.
            for server in [&master, &replica] {
                let mut client = server.client();
                client.expect("FCALL_RO cint_len 1 k", "(integer) 3");
            }
        }
    }
}

#[test]
fn reads_run_on_replicas() {
    let master = Fallback::server().start();
    let mut writer = Fallback::load(master.client(), Form::Function);
    writer.expect("CINT.SET k LEN 2 0 1 1 2", "OK");
    let replica = master.replica();
    let script = Fallback::load(master.client(), Form::Script);
    // Scripts are not replicated, so they are loaded on the replica.
    let loaded = Fallback::load(replica.client(), Form::Script);
    assert_eq!(
        loaded.words(&Call::of_line("CINT.LEN k"), true),
        script.words(&Call::of_line("CINT.LEN k"), true)
    );
    master.wait_for_replica(&replica);
    let mut client = replica.client();
    let reads = [
        ("CINT.GET k 1", "(integer) 2"),
        ("CINT.MGET k 1 0", "1) (integer) 2\n2) (integer) 1"),
        ("CINT.LEN k", "(integer) 2"),
        ("CINT.DUMP k", "1) (integer) 1\n2) (integer) 2"),
        ("CINT.MDUMP k", "1) 1) (integer) 1\n   2) (integer) 2"),
        ("CINT.MREAD 1 k", r#""\x00\x00\x00\x00\x01""#),
        (
            "CINT.EXPORT k",
            r#""\x00\x00\x00\x00\x01\x00\x00\x00\x00\x02""#,
        ),
    ];
    for fallback in [&writer, &script] {
        for only_reads in [true, false] {
            for (line, printed) in reads {
                let words = fallback.words(&Call::of_line(line), only_reads);
                let got = reply::format(&client.call(&words));
                assert_eq!(got, printed, "> {line}");
            }
        }
        let refused = client.call(&fallback.words(&Call::of_line("CINT.INCRBY k 0 1"), false));
        let refused = reply::format(&refused);
        assert!(refused.starts_with("(error) READONLY"), "{refused}");
    }
    let readers = reply::format(&client.ok("FUNCTION LIST"));
    assert_eq!(
        readers.matches("no-writes").count(),
        reads.len(),
        "{readers}"
    );
}

/// At the memory limit: whether the module, the function and the script execute the call.
const AT_MEMORY_LIMIT: [(&str, [bool; 3], &str); 8] = [
    ("CINT.GET k 0", [true, true, true], "reads are executed"),
    (
        "CINT.INCRBY k 0 1",
        [false, false, false],
        "writes are refused",
    ),
    (
        "CINT.INCRBY k 9 1 LEN 10",
        [false, false, false],
        "writes are refused",
    ),
    (
        "CINT.INCRBY k 0 0",
        [false, false, true],
        "a script is not refused before its first write",
    ),
    (
        "RBM.MARK s 5 COUNT k 0 EVENT log SEQ f v",
        [false, false, false],
        "writes are refused",
    ),
    (
        "RBM.MARK s 5 COUNT k 0",
        [false, false, false],
        "writes are refused",
    ),
    (
        "RBM.UNMARK s 1 COUNT k 0",
        [true, false, true],
        "a function that writes is refused as a whole",
    ),
    (
        "RBM.UNMARK s 2 COUNT k 0 EVENT log SEQ f v",
        [false, false, false],
        "an event needs memory",
    ),
];

#[test]
fn oom_refuses_growing_calls() {
    const DATA: [&str; 4] = [
        "CINT.SET k 0 5",
        "RBM.ADD s 1 2 3",
        "XADD log 0-1 f v",
        "CONFIG SET maxmemory 1",
    ];
    let servers = [
        Server::start(),
        Fallback::server().start(),
        Fallback::server().start(),
    ];
    let mut module = servers[0].client();
    let mut function = Fallback::load(servers[1].client(), Form::Function);
    let mut script = Fallback::load(servers[2].client(), Form::Script);
    for (line, expected, why) in AT_MEMORY_LIMIT {
        let mut outcomes = Vec::new();
        let mut run = |target: usize, line: &str| match target {
            0 => module.run(line),
            1 => function.run(line),
            _ => script.run(line),
        };
        for (target, server) in servers.iter().enumerate() {
            let mut client = server.client();
            client.ok("CONFIG SET maxmemory 0");
            client.ok("FLUSHALL");
            for line in DATA {
                run(target, line);
            }
            let before = client.digest();
            let reply = run(target, line);
            let refused = reply.starts_with("(error)");
            assert!(
                !refused || reply.starts_with("(error) OOM "),
                "> {line}: {reply}"
            );
            if refused {
                assert_eq!(client.digest(), before, "> {line} was refused");
            }
            outcomes.push(!refused);
        }
        assert_eq!(outcomes, expected, "> {line} ({why})");
    }
}

#[test]
fn functions_declare_their_keys_in_a_cluster() {
    let settings = |builder: countint_tests::Builder| builder.config("cluster-enabled yes");
    let servers = [
        settings(Server::builder()).start(),
        settings(Fallback::server()).start(),
    ];
    for server in &servers {
        let mut client = server.client();
        client.ok("CLUSTER ADDSLOTSRANGE 0 16383");
        countint_tests::wait_until("the node serves all slots", || {
            client.run("CLUSTER INFO").contains("cluster_state:ok")
        });
    }
    let lines = [
        "RBM.MARK s:{1} 7 COUNT c:{1} 0 EVENT x:{1} SEQ f v",
        "RBM.UNMARK s:{1} 7 COUNT c:{1} 0 EVENT x:{1} SEQ f v",
        "CINT.APPLY c:{1} 4 0 0 1 1",
        "CINT.MDUMP c:{1} d:{1}",
        "RBM.MARK s:{1} 7 COUNT c:{2} 0",
        "RBM.MARK s:{1} 7 COUNT c:{1} 0 EVENT x:{2} f v",
        "CINT.MDUMP c:{1} c:{2}",
        "CINT.MREAD 1 c:{1} c:{2}",
    ];
    for form in Form::ALL {
        let mut module = servers[0].client();
        module.ok("FLUSHALL");
        let mut fallback = Fallback::load(servers[1].client(), form);
        fallback.client.ok("FLUSHALL");
        for line in lines {
            let expected = module.run(line);
            fallback.expect(line, &expected);
            let cross_slot = line.contains("{2}");
            assert_eq!(
                expected.starts_with("(error) CROSSSLOT"),
                cross_slot,
                "> {line}"
            );
        }
    }
}

/// A script cannot undo its first write if the user lacks permission for the second.
#[test]
fn user_without_permission_for_a_command_changes_nothing() {
    let server = Fallback::server().start();
    for form in Form::ALL {
        for forbidden in ["xadd", "sadd", "bitfield"] {
            let mut fallback = Fallback::load(server.client(), form);
            fallback.client.ok("FLUSHDB");
            fallback.client.ok(&format!(
                "ACL SETUSER limited reset on nopass ~* +@all -{forbidden}"
            ));
            let digest = server.client().digest();
            fallback.client.ok("AUTH limited x");
            let reply = fallback.run("RBM.MARK s 1 COUNT k 0 EVENT log SEQ f v");
            assert!(
                reply.starts_with("(error)") && !reply.contains("internal"),
                "-{forbidden} ({form:?}): {reply}"
            );
            assert_eq!(server.client().digest(), digest, "-{forbidden} ({form:?})");
        }
        let mut fallback = Fallback::load(server.client(), form);
        fallback
            .client
            .ok("ACL SETUSER limited reset on nopass ~* +@all");
        fallback.client.ok("AUTH limited x");
        let printed = "1) (integer) 1\n2) (integer) 1";
        fallback.expect("RBM.MARK s 1 COUNT k 0 EVENT log SEQ f v", printed);
    }
}
