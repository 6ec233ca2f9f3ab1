//! A migration of storage that was killed, and objects that it cannot move. A migration of a schema that waits for a process, and was killed.

use super::{Shell, commands, start_all, wait_until_ready};
use crate::migrate::setup::{CONFIG, PARTITIONS, assert_migrated, start};
use crate::schema_migrate::setup as schemas;
use crate::support::invariants::assert_invariants;
use crate::support::stores::{module, objects};
use crate::support::{Countd, Settings, on_note, set_schema, wait_until_drained};
use countint_tests::{Server, reply, wait_until};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// A note whose counters are damaged.
const DAMAGED: u64 = 3;

#[test]
fn a_stuck_migration_is_finished() {
    let store = objects();
    let config: &str = &CONFIG;
    set_schema(&store.server, config);
    let countd = start_all(&store.server, config);
    let api = countd.api();
    for eid in 1..=20 {
        for uid in 1..=5 {
            api.ok(api.post("/action/like", &on_note(eid, uid)));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    let key = format!("cnt:v1:note:{DAMAGED}");
    store.server.client().ok(&format!("SET {key} damaged"));
    let mut migrating = start(&store.server, "note", &[]);
    assert!(migrating.wait_for_step("moving", 1));
    migrating.kill();

    let shell = Shell::new(config, &[("PRIMARY", &store.server)])
        .replace("KEY", key.as_str())
        .replace("EID", DAMAGED.to_string())
        .replace("--grace 60", "--grace 1");
    let page = commands("Finish a migration that is stuck");
    for (at, command) in page.iter().enumerate() {
        // Without the repair it stops before the end.
        if command.starts_with("redis-cli DEL") {
            let (has_succeeded, printed) = shell.try_run("countd storage migrate note --grace 1");
            assert!(!has_succeeded && printed.contains(&key), "{printed}");
        }
        let printed = shell.run(command);
        match (at, command.as_str()) {
            (0, _) => assert!(printed.contains("countd storage migrate note"), "{printed}"),
            (_, "redis-cli TYPE KEY") => assert_eq!(printed.trim(), "string"),
            _ => {}
        }
    }
    assert_eq!(api.counts(DAMAGED)["like"], 5);
    assert_eq!(api.counts(1)["like"], 5);
    shell.run("countd storage migrate user --grace 1");
    assert_migrated(&[&store.server]);
    assert_invariants(&store.server, config);
}

/// The heartbeat of a process in `countd:processes`.
fn heartbeat_of(server: &Server, pid: u32) -> String {
    let members = reply::array(server.client().ok("ZRANGE countd:processes 0 -1"));
    let prefix = format!("{pid}-");
    let mut members = members.into_iter().map(reply::text);
    let heartbeat = members.find(|member| member.starts_with(&prefix));
    heartbeat.expect("the process sends heartbeats")
}

/// The epoch of the layout.
fn epoch_of(server: &Server) -> u64 {
    let epoch = reply::text(server.client().ok("HGET countd:layout epoch"));
    epoch.parse().expect("a number")
}

/// Whether all processes have agreed how they count. They change the layout when they have.
fn is_settled(server: &Server) -> bool {
    let counting = server.client().run("HGET countd:layout counting");
    counting.trim_matches('"').len() == 16
}

/// Repeats the heartbeat of a suspended process, so that it hangs for others as long as the test needs, however slow the machine is.
fn repeat(server: &Server, heartbeat: &str, stop: &AtomicBool) {
    let mut client = server.client();
    while !stop.load(SeqCst) {
        // No heartbeat is further ahead than its time to live: the next one of another process corrects it.
        client.ok(&format!("ZADD countd:processes +inf {heartbeat}"));
        thread::sleep(Duration::from_millis(500));
    }
    client.ok(&format!("ZREM countd:processes {heartbeat}"));
}

#[test]
fn a_stuck_migration_of_a_schema_is_finished() {
    let store = module();
    let (server, config): (&Server, &str) = (&store.server, &schemas::CONFIG);
    schemas::set_schemas(server);
    let all = start_all(server, config);
    let command = "serve";
    let mut hanging = Countd::with(server, &Settings { command, config });
    let api = all.api();
    for uid in 1..=5 {
        api.ok(api.post("/action/like", &on_note(1, uid)));
    }
    wait_until_drained(server, schemas::PARTITIONS);
    let (mut epoch, mut heartbeat) = (0, String::new());
    wait_until("the layout does not change any more", || {
        epoch = epoch_of(server);
        heartbeat = heartbeat_of(server, hanging.process_id());
        is_settled(server) && heartbeat.contains(&format!("/{epoch}/"))
    });
    hanging.suspend();
    let name = heartbeat.split('/').next().expect("a name");
    assert!(hanging.log().contains(name), "it logs its name");

    let shell = Shell::new(config, &[("PRIMARY", server)]);
    let status = || shell.run("countd schema migrate v1 v2 --status");
    let page = commands("Finish a migration of a schema that is stuck");
    let (is_restarted, mut rolled_back) = (AtomicBool::new(false), false);
    thread::scope(|scope| {
        scope.spawn(|| repeat(server, &heartbeat, &is_restarted));
        let _stop = Stop(&is_restarted);
        let mut migrating = schemas::start(server, &[]);
        let mut next = epoch;
        wait_until("the stage begins", || {
            next = epoch_of(server);
            next != epoch
        });
        let behind = format!("follows epoch {epoch} of countd:layout, not {next}");
        let waiting = format!("waiting for process {name}, which {behind}");
        assert!(migrating.wait_for_step(&waiting, 1));
        let running = format!("process ID {} is running", migrating.id());
        assert!(status().contains(&running), "{}", status());
        migrating.kill();
        wait_until("its lock expires", || {
            status().contains("no migration command is running")
        });
        for (at, command) in page.iter().enumerate() {
            match command.as_str() {
                "ssh COUNTD systemctl restart countd" => {
                    // systemd kills what does not end at SIGTERM.
                    hanging.kill();
                    is_restarted.store(true, SeqCst);
                    hanging.launch();
                    continue;
                }
                command if command.starts_with("until curl") => {
                    wait_until_ready(&hanging);
                    continue;
                }
                _ => {}
            }
            let printed = shell.run(command);
            let expected: &[&str] = match (at, command.as_str()) {
                (0, _) => &["schema v1 is being migrated to v2: dual"],
                (1, _) => &["dual", "next: countd schema migrate v1 v2\n", name, &behind],
                (_, "redis-cli ZRANGE countd:processes 0 -1") => &[heartbeat.as_str()],
                (_, "countd schema migrate v1 v2") => &["read-new, reads of 0 %"],
                (_, "countd schema migrate v1 v2 --status") => &["read-new", "--percent 100\n"],
                (_, "countd schema migrate v1 v2 --rollback") => &["rolled-back"],
                _ => &[],
            };
            for text in expected {
                assert!(printed.contains(text), "{command}: {printed}");
            }
            rolled_back |= command.ends_with("--rollback");
            let is_noted = printed.contains("being migrated");
            assert!(
                command != "countd check" || is_noted != rolled_back,
                "{printed}"
            );
        }
    });
    assert!(rolled_back);
    assert_eq!(hanging.api().counts(1)["like"], 5);
    assert_invariants(server, config);
}

/// Ends the heartbeats also when the test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
