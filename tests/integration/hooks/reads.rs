//! Commands that read several keys. Opening a missing or expired key publishes an event, whose hook may free the value of
//! another key of the command.

use super::fixture::{ACTIONS, Action, Fixture};
use crate::keys::KEYS;
use crate::writes::name;
use std::collections::BTreeSet;

/// Sets up the keys `a`, `b` and `c`; the test removes one.
const COUNTERS: [&str; 3] = [
    "CINT.SET a LEN 3 0 1 1 2 2 3",
    "CINT.SET b LEN 3 0 4 1 5 2 6",
    "CINT.SET c LEN 3 0 7 1 8 2 9",
];
const SETS: [&str; 3] = [
    "RBM.ADD a 1 2 3 4 5 6 7 18446744073709551615",
    "RBM.ADD b 2 4 6 8 10 12",
    "RBM.ADD c 3 6 9 12 15 77",
];

const TABLES: [&str; 3] = [
    "CTAB.SET a 7 LEN 3 0 1 1 2 2 3",
    "CTAB.SET b 7 LEN 3 0 4 1 5 2 6",
    "CTAB.SET c 7 LEN 3 0 7 1 8 2 9",
];

/// Commands with several keys, and their data. marks.rs tests MARK and UNMARK, and mmarks.rs MMARK and
/// MUNMARK.
const CALLS: &[(&str, &[&str; 3])] = &[
    ("CINT.MDUMP a b c", &COUNTERS),
    ("CINT.MDUMP c a b a", &COUNTERS),
    ("CINT.MREAD 3 a b c", &COUNTERS),
    ("CINT.MREAD 5 c a b a", &COUNTERS),
    ("CTAB.PAGE 3 3 a 7 b 7 c 7", &TABLES),
    ("CTAB.PAGE 5 5 c 7 a 8 b 7 a 7 b 8", &TABLES),
    ("RBM.PAGE 6 a b c", &SETS),
    ("RBM.PAGE 2 c a b a", &SETS),
    ("RBM.MCARD a b c", &SETS),
    ("RBM.MCARD c a b a", &SETS),
    ("RBM.OPCARD AND a b c", &SETS),
    ("RBM.OPCARD OR a b c", &SETS),
    ("RBM.OPCARD XOR a b c", &SETS),
    ("RBM.OPCARD DIFF a b c", &SETS),
    ("RBM.OP AND d a b c", &SETS),
    ("RBM.OP OR d a b c", &SETS),
    ("RBM.OP XOR a a b c", &SETS),
    ("RBM.OP DIFF b a b c", &SETS),
    ("RBM.OP OR d a c", &SETS),
];

/// Runs `call` while `absent` is missing or expired and a hook on its event applies `action` to `target`.
fn check(
    fixture: &mut Fixture,
    call: &str,
    keys: &[&str; 3],
    absent: &str,
    event: &str,
    action: &Action,
    target: &str,
) {
    let case = format!("{call} ({event} {absent}: {} {target})", action.name);
    fixture.prepare(keys);
    match event {
        "keymiss" => drop(fixture.client.ok(&format!("DEL {absent}"))),
        _ => fixture.expire(absent),
    }
    fixture.hook(event, absent, action, target);
    let reply = fixture.run(call, &case);
    fixture.unhook();
    if event == "keymiss" || !action.creates || target != absent {
        fixture.assert_replicated(&case);
    }
    // All hooks ran before the first value was read, so the reply matches the current data.
    if !call.starts_with("RBM.OP ") {
        assert_eq!(fixture.run(call, &case), reply, "{case}");
    } else if call.contains(" d ") && !reply.starts_with("(error)") {
        let again = call.replace("RBM.OP ", "RBM.OPCARD ").replace(" d ", " ");
        assert_eq!(fixture.run(&again, &case), reply, "{case}");
        assert_eq!(fixture.run("RBM.CARD d", &case), reply, "{case}");
    }
}

#[test]
fn reads_survive_hooks_on_any_of_their_keys() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let mut fixture = Fixture::start();
    for (call, keys) in CALLS {
        for event in ["keymiss", "expired"] {
            for absent in NAMES {
                for target in NAMES {
                    for action in ACTIONS {
                        check(&mut fixture, call, keys, absent, event, action, target);
                    }
                }
            }
        }
    }
    fixture.assert_hooks_ran((CALLS.len() * ACTIONS.len()) as u64);
}

/// The hook frees a value and reuses its memory, and several keys are missing.
#[test]
fn reads_survive_hooks_that_replace_values() {
    const REPLACE: &[&str] = &[
        "DEL a",
        "DEL c",
        "SET x1 0123456789012345",
        "SET x2 01234567890123456789012345678901",
        "CINT.SET a LEN 4 0 9",
        "RBM.ADD a 5 6",
        "CINT.SET m1 LEN 2 1 7",
        "RBM.ADD m1 9",
    ];
    const REPLACE_TABLES: &[&str] = &[
        "DEL a",
        "DEL c",
        "SET x1 0123456789012345",
        "SET x2 01234567890123456789012345678901",
        "CTAB.SET a 8 LEN 4 0 9",
        "CTAB.SET m1 7 LEN 2 1 7",
    ];
    let action = |commands| Action {
        name: "replace",
        commands,
        creates: true,
    };
    let mut fixture = Fixture::start();
    for (call, keys) in [
        ("CINT.MDUMP a b m1 c m2 a", &COUNTERS),
        ("CINT.MREAD 4 a b m1 c m2 a", &COUNTERS),
        ("CTAB.PAGE 4 6 a 7 b 7 m1 7 c 7 m2 7 a 8", &TABLES),
        ("RBM.PAGE 6 a b m1 c m2 a", &SETS),
        ("RBM.MCARD a b m1 c m2 a", &SETS),
        ("RBM.OPCARD OR a b m1 c m2 a", &SETS),
        ("RBM.OPCARD DIFF b a m1 c m2 a", &SETS),
    ] {
        fixture.prepare(keys);
        let commands = if call.starts_with("CTAB.") {
            REPLACE_TABLES
        } else {
            REPLACE
        };
        fixture.hook("keymiss", "m1", &action(commands), "");
        fixture.hook("keymiss", "m2", &action(commands), "");
        let reply = fixture.run(call, call);
        fixture.unhook();
        fixture.assert_replicated(call);
        assert_eq!(fixture.run(call, call), reply, "{call}");
    }
    fixture.assert_hooks_ran(4);
}

/// Creates the keys that `KEYS` assumes.
fn fill(fixture: &mut Fixture, keys: &[&str]) {
    fixture.prepare(&[]);
    for key in keys {
        let line = match key.as_bytes()[0] {
            b'c' => format!("CINT.SET {key} LEN 3 0 1 1 2 2 3"),
            b'r' => format!("RBM.ADD {key} 1 2 3"),
            b't' => format!("CTAB.SET {key} 7 LEN 3 0 1 1 2 2 3"),
            b'x' => format!("XADD {key} 0-1 old 1"),
            _ => continue,
        };
        fixture.client.ok(&line);
    }
}

#[test]
fn every_command_survives_hooks_on_each_key() {
    let mut fixture = Fixture::start();
    for row in KEYS {
        let keys: Vec<&str> = row.keys.iter().map(|(key, _)| *key).collect();
        for (event, absent) in keys
            .iter()
            .flat_map(|&key| [("keymiss", key), ("expired", key)])
        {
            for target in &keys {
                for action in ACTIONS {
                    let case = format!("{} ({event} {absent}: {} {target})", row.line, action.name);
                    fill(&mut fixture, &keys);
                    match event {
                        "keymiss" => drop(fixture.client.ok(&format!("DEL {absent}"))),
                        _ => fixture.expire(absent),
                    }
                    fixture.hook(event, absent, action, target);
                    fixture.run(row.line, &case);
                    fixture.unhook();
                    if event == "keymiss" || !action.creates || target != &absent {
                        fixture.assert_replicated(&case);
                    }
                }
            }
        }
    }
    fixture.assert_hooks_ran((KEYS.len() * ACTIONS.len()) as u64);
}

#[test]
fn every_command_with_several_keys_is_tested() {
    let several = KEYS.iter().filter(|row| row.keys.len() > 1);
    let mut missing: BTreeSet<String> = several.map(|row| row.command()).collect();
    for (call, _) in CALLS {
        missing.remove(&name(call));
    }
    assert_eq!(
        missing,
        BTreeSet::from(["rbm.mark", "rbm.unmark", "rbm.mmark", "rbm.munmark"].map(String::from))
    );
}
