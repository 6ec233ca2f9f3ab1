//! The data of all scenarios survives restarts, rewrites, replication, `DUMP`/`RESTORE` and `COPY` unchanged: every read
//! of every key, and `DEBUG DIGEST`.

use crate::dataset::{Dataset, builder, is_slow};
use countint_tests::{Server, args, reply, snapshot};
use std::fs;

#[test]
fn data_survives_a_save_and_restart() {
    let mut dataset = Dataset::new(builder());
    let before = dataset.snapshot();
    dataset.server.client().ok("SAVE");
    dataset.server.restart();
    dataset.assert_holds(&before, &dataset.snapshot(), "after SAVE and a restart");
    dataset.server.client().ok("DEBUG RELOAD");
    dataset.assert_holds(&before, &dataset.snapshot(), "after DEBUG RELOAD");
}

#[test]
fn data_survives_aof_replay_and_rewrite_with_preamble() {
    append_only_file(true);
}

#[test]
fn data_survives_aof_replay_and_rewrite_without_preamble() {
    append_only_file(false);
}

fn append_only_file(preamble: bool) {
    let mut dataset = Dataset::new(
        builder()
            .append_only(preamble)
            .config("appendfsync everysec"),
    );
    let before = dataset.snapshot();
    // Replays every command, with another value of the setting than while the scenarios ran.
    dataset.server.configure("countint.default-len 9");
    dataset.server.restart();
    dataset.assert_holds(&before, &dataset.snapshot(), "after a replay of the AOF");
    dataset.server.rewrite_aof();
    if !preamble {
        assert_small_commands(&dataset.server);
    }
    dataset.server.restart();
    dataset.assert_holds(&before, &dataset.snapshot(), "after a rewrite of the AOF");
    // A rewritten file accepts further commands.
    let mut client = dataset.server.client();
    client.expect("CINT.INCRBY after 0 1", "(integer) 1");
    client.expect("RBM.ADD after-set 1", "(integer) 1");
    client.expect("CTAB.INCRBY after-table 7 0 1", "(integer) 1");
    dataset.server.restart();
    let mut client = dataset.server.client();
    client.expect("CINT.LEN after", "(integer) 9");
    client.expect("RBM.CARD after-set", "(integer) 1");
    client.expect("CTAB.GET after-table 7 8", "(integer) 0");
}

/// Asserts that no command of a rewritten AOF has an argument over one megabyte.
fn assert_small_commands(server: &Server) {
    let directory = server.dir().join("appendonlydir");
    let base = fs::read_dir(directory)
        .expect("an AOF has a directory")
        .map(|entry| entry.expect("it can be read").path())
        .find(|path| path.to_string_lossy().ends_with(".base.aof"))
        .expect("an AOF has a base");
    let bytes = fs::read(base).expect("the base can be read");
    let mut rest = &bytes[..];
    let mut longest = 0;
    while !rest.is_empty() {
        let words = number(&mut rest, b'*');
        for _ in 0..words {
            let length = number(&mut rest, b'$');
            longest = longest.max(length);
            rest = &rest[length + 2..];
        }
    }
    // One set of the dataset is larger than that, unless the run is slow.
    let min_bytes = if is_slow() { 1 } else { 900_000 };
    assert!(
        (min_bytes..=1 << 20).contains(&longest),
        "an argument of {longest} bytes"
    );
}

/// Reads a count such as `*3\r\n`.
fn number(rest: &mut &[u8], mark: u8) -> usize {
    let end = rest
        .windows(2)
        .position(|pair| pair == b"\r\n")
        .expect("a line ends");
    let line = std::str::from_utf8(&rest[1..end]).expect("a number is text");
    assert_eq!(rest[0], mark, "{line}");
    *rest = &rest[end + 2..];
    line.parse().expect("a number")
}

#[test]
fn data_survives_a_full_sync() {
    let dataset = Dataset::new(builder());
    let before = dataset.snapshot();
    for load in ["disabled", "on-empty-db", "swapdb"] {
        let replica = builder()
            .config(&format!("repl-diskless-load {load}"))
            .replica_of(&dataset.server)
            .start();
        let after = Snapshot::of(&dataset.server, &replica);
        dataset.assert_holds(
            &before,
            &after,
            &format!("on a replica with repl-diskless-load {load}"),
        );
    }
}

#[test]
fn data_survives_command_replication() {
    let mut dataset = Dataset::empty(builder());
    // A replica with another setting must not diverge.
    let replica = builder()
        .module_args("default-len 9")
        .replica_of(&dataset.server)
        .start();
    dataset.play();
    let before = dataset.snapshot();
    dataset.assert_holds(
        &before,
        &Snapshot::of(&dataset.server, &replica),
        "on a replica that followed",
    );
    let full = dataset.server.client().info_number("stats", "sync_full");
    assert_eq!(
        full, 1,
        "the replica was to follow without a second full sync"
    );
}

#[test]
fn data_survives_a_partial_sync() {
    let mut dataset = Dataset::empty(builder().config("repl-backlog-size 256mb"));
    let replica = builder().replica_of(&dataset.server).start();
    // The link breaks, and the replica reconnects after the writes.
    replica.signal("STOP");
    let mut client = dataset.server.client();
    client.ok("CLIENT KILL TYPE replica");
    dataset.play();
    replica.signal("CONT");
    let after = Snapshot::of(&dataset.server, &replica);
    dataset.assert_holds(&dataset.snapshot(), &after, "on a replica that reconnected");
    assert_eq!(client.info_number("stats", "sync_full"), 1);
    assert_eq!(client.info_number("stats", "sync_partial_ok"), 1);
}

struct Snapshot;

impl Snapshot {
    /// The data of a replica, after it has caught up.
    fn of(master: &Server, replica: &Server) -> countint_tests::Snapshot {
        master.wait_for_replica(replica);
        countint_tests::Snapshot::take(&mut replica.client())
    }
}

#[test]
fn data_survives_dump_restore_and_copy() {
    let dataset = Dataset::new(builder());
    let before = dataset.snapshot();
    let mut client = dataset.server.client();
    for ((database, key), text) in &before.keys {
        client.ok(&format!("SELECT {database}"));
        let place = format!("{}, key {key:?}", dataset.scenario_of(*database));
        let expires = reply::int(client.call(&args!["PEXPIRETIME", key])).max(0);
        let dump = reply::bytes(client.call(&args!["DUMP", key]));
        let restored = client.call(&args!["RESTORE", "another name", expires, dump, "ABSTTL"]);
        assert_eq!(reply::format(&restored), "OK", "RESTORE, {place}");
        assert_eq!(
            &snapshot::describe(&mut client, b"another name"),
            text,
            "RESTORE, {place}"
        );
        client.ok("DEL \"another name\"");
        let copied = client.call(&args!["COPY", key, "another name"]);
        assert_eq!(reply::int(copied), 1, "COPY, {place}");
        assert_eq!(
            &snapshot::describe(&mut client, b"another name"),
            text,
            "COPY, {place}"
        );
        client.ok("UNLINK \"another name\"");
        // Onto its own key, whose old value is freed.
        let replaced = client.call(&args!["RESTORE", key, expires, dump, "ABSTTL", "REPLACE"]);
        assert_eq!(reply::format(&replaced), "OK", "RESTORE REPLACE, {place}");
    }
    dataset.assert_holds(
        &before,
        &dataset.snapshot(),
        "after RESTORE REPLACE of every key",
    );
}
