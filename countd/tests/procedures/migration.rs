//! A migration of storage that was killed, and objects that it cannot move.

use super::{Shell, commands, start_all};
use crate::migrate::setup::{CONFIG, PARTITIONS, assert_migrated, start};
use crate::support::invariants::assert_invariants;
use crate::support::stores::objects;
use crate::support::{on_note, set_schema, wait_until_drained};

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
