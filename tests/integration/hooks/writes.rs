//! Every write command in every form, with hooks on the events of its key.

use super::fixture::{ACTIONS, Action, Fixture, WRITE};
use crate::writes::{CHANGES, Change, name, registered};
use std::collections::BTreeSet;

/// Events of the server for missing and expired keys.
const MET: [&str; 2] = ["keymiss", "expired"];

/// The hook runs after the command's change, so the reply is the same as without hooks.
fn check_own_event(fixture: &mut Fixture, change: &Change, event: &str, action: &Action) {
    let case = format!(
        "{:?} > {} ({}: {})",
        change.setup, change.line, event, action.name
    );
    fixture.prepare(change.setup);
    let reply_without_hooks = fixture.run(change.line, &case);
    fixture.prepare(change.setup);
    fixture.hook(event, "k", action, "k");
    assert_eq!(
        fixture.run(change.line, &case),
        reply_without_hooks,
        "{case}"
    );
    fixture.unhook();
    fixture.assert_replicated(&case);
}

/// The command opens a missing or expired key, and the hook changes that key before the command reads it.
fn check_met(fixture: &mut Fixture, change: &Change, event: &str, action: &Action) {
    let case = format!(
        "{:?} > {} ({}: {})",
        change.setup, change.line, event, action.name
    );
    fixture.prepare(change.setup);
    let exists = fixture.run("EXISTS k", &case) == "(integer) 1";
    if event == "expired" && exists {
        fixture.expire("k");
    }
    fixture.hook(event, "k", action, "k");
    fixture.run(change.line, &case);
    fixture.unhook();
    // The server replicates the DEL of an expired key after the writes of a hook on `expired`, so a key that the hook
    // creates is deleted on replicas, with or without CountInt.
    if event != "expired" || !action.creates {
        fixture.assert_replicated(&case);
    }
}

#[test]
fn writes_survive_hooks_on_their_own_event() {
    let mut fixture = Fixture::start();
    for change in CHANGES {
        for event in change.events {
            for action in ACTIONS {
                check_own_event(&mut fixture, change, event, action);
            }
        }
    }
    // Each change publishes its event.
    fixture.assert_hooks_ran((CHANGES.len() * ACTIONS.len()) as u64);
}

#[test]
fn writes_survive_hooks_on_keymiss_and_expired() {
    let mut fixture = Fixture::start();
    for change in CHANGES {
        for event in MET {
            for action in ACTIONS {
                check_met(&mut fixture, change, event, action);
            }
        }
    }
    fixture.assert_hooks_ran(CHANGES.len() as u64);
}

/// The server publishes `new` while it stores a key. (A hook that removes the new key also crashes the server's own SET,
/// so that action is left out.)
#[test]
fn writes_survive_hooks_on_new() {
    let mut fixture = Fixture::start();
    for change in CHANGES {
        let case = format!("{:?} > {} (new)", change.setup, change.line);
        fixture.prepare(change.setup);
        fixture.hook("new", "k", &WRITE, "k");
        for action in ACTIONS
            .iter()
            .filter(|action| !action.name.starts_with("flush"))
        {
            fixture.hook("new", "k", action, "a");
        }
        fixture.run(change.line, &case);
        fixture.unhook();
        fixture.assert_replicated(&case);
    }
    fixture.assert_hooks_ran(100);
}

/// Counters that a hook on `expired` restores are incremented, not overwritten.
#[test]
fn counters_restored_by_a_hook_are_added_to() {
    let restore = |command| Action {
        name: "restore",
        commands: command,
        creates: true,
    };
    let cases: [(&str, &str, &'static [&'static str], &str, &str); 7] = [
        (
            "CINT.INIT k 3",
            "CINT.INCRBY k 0 1",
            &["CINT.SET {k} LEN 3 0 100"],
            "(integer) 101",
            "CINT.GET k 0",
        ),
        (
            "CINT.INIT k 5",
            "CINT.APPLY k 4 0 9 0 5",
            &["CINT.SET {k} LEN 5 4 10 0 5"],
            "(integer) 10",
            "CINT.GET k 4",
        ),
        (
            "CTAB.INIT k 3",
            "CTAB.INCRBY k 7 0 1",
            &["CTAB.SET {k} 7 LEN 3 0 100"],
            "(integer) 101",
            "CTAB.GET k 7 0",
        ),
        (
            "CTAB.INIT k 3",
            "CTAB.MAPPLY k 3 0 9 7 0 5",
            &["CTAB.MAPPLY {k} 3 0 9 LEN 3 7 0 5"],
            "(integer) 10",
            "CTAB.MAPPLY k 3 0 9 7 0 5",
        ),
        (
            "RBM.ADD k 9",
            "RBM.ADD k 1",
            &["RBM.ADD {k} 1 2 3"],
            "(integer) 0",
            "",
        ),
        (
            "RBM.ADD k 9",
            "RBM.MARK k 1",
            &["RBM.ADD {k} 1 2 3"],
            "1) (integer) 0\n2) (nil)",
            "",
        ),
        (
            "RBM.ADD k 9",
            "RBM.MMARK k 1 3",
            &["RBM.ADD {k} 1 2 3"],
            "1) 1) (integer) 0\n   2) (integer) 0\n2) (nil)",
            "",
        ),
    ];
    let mut fixture = Fixture::start();
    for (setup, line, commands, expected, read) in cases {
        fixture.prepare(&[setup]);
        fixture.expire("k");
        fixture.hook("expired", "k", &restore(commands), "k");
        assert_eq!(fixture.run(line, line), expected, "{line}");
        if !read.is_empty() {
            assert_eq!(fixture.run(read, line), expected, "{line}");
        }
    }
    fixture.assert_hooks_ran(6);
}

#[test]
fn every_write_command_is_tested() {
    let mut fixture = Fixture::start();
    let covered: BTreeSet<String> = CHANGES.iter().map(|change| name(change.line)).collect();
    assert_eq!(covered, registered(&mut fixture.client, "write"));
}
