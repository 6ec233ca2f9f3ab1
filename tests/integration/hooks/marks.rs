//! `RBM.MARK` and `RBM.UNMARK` with hooks on each of their events and on that of their `XADD`. The fact and its count stay
//! atomic: either both are changed, or neither is and the entry is removed again.

use super::fixture::{ACTIONS, Action, Fixture, WRITE};

/// A call on the set `s`, the counters `c` and the stream `x`.
struct Call {
    setup: &'static [&'static str],
    line: &'static str,
    /// Reads the counter.
    counter: &'static str,
    /// The reply without hooks.
    reply: &'static str,
}

impl Call {
    fn marks(&self) -> bool {
        self.line.starts_with("RBM.MARK")
    }

    fn creates(&self, key: &str) -> bool {
        !self
            .setup
            .iter()
            .any(|line| line.split(' ').nth(1) == Some(key))
    }
}

const MARKED_ONCE: &str = "1) (integer) 1\n2) (integer) 1";

/// Field 2 (which fits in no shorter object) goes from 0 to 1, or back.
const CALLS: &[Call] = &[
    Call {
        setup: &["RBM.ADD s 2 3", "CINT.SET c LEN 3 0 10", "XADD x * old 1"],
        line: "RBM.MARK s 1 COUNT c 2 EVENT x op 1",
        counter: "CINT.GET c 2",
        reply: MARKED_ONCE,
    },
    Call {
        setup: &["RBM.ADD s 2 3", "CINT.SET c LEN 3 0 10", "XADD x 0-1 old 1"],
        line: "RBM.MARK s 1 COUNT c 2 LEN 5 EVENT x SEQ MAXLEN 100 op 1",
        counter: "CINT.GET c 2",
        reply: MARKED_ONCE,
    },
    Call {
        setup: &[],
        line: "RBM.MARK s 1 COUNT c 2 LEN 3 EVENT x SEQ op 1",
        counter: "CINT.GET c 2",
        reply: MARKED_ONCE,
    },
    Call {
        setup: &["CINT.INIT c 7"],
        line: "RBM.MARK s 1 COUNT c 6 EVENT x op 1",
        counter: "CINT.GET c 6",
        reply: MARKED_ONCE,
    },
    Call {
        setup: &["RBM.ADD s 2 3", "CTAB.SET c 7 LEN 3 0 10"],
        line: "RBM.MARK s 1 COUNT c ROW 7 2 EVENT x op 1",
        counter: "CTAB.GET c 7 2",
        reply: MARKED_ONCE,
    },
    Call {
        setup: &[],
        line: "RBM.MARK s 1 COUNT c ROW 7 2 LEN 3 EVENT x op 1",
        counter: "CTAB.GET c 7 2",
        reply: MARKED_ONCE,
    },
    Call {
        setup: &[
            "RBM.ADD s 1 2",
            "CINT.SET c LEN 3 0 10 2 1",
            "XADD x * old 1",
        ],
        line: "RBM.UNMARK s 1 COUNT c 2 EVENT x op -1",
        counter: "CINT.GET c 2",
        reply: "1) (integer) 1\n2) (integer) 0",
    },
    Call {
        setup: &["RBM.ADD s 1", "CINT.INIT c 3"],
        line: "RBM.UNMARK s 1 COUNT c 2 LEN 5 EVENT x SEQ op -1",
        counter: "CINT.GET c 2",
        reply: "1) (integer) 1\n2) (integer) 0",
    },
    Call {
        setup: &["RBM.ADD s 1 2", "CTAB.SET c 7 LEN 3 0 10 2 1"],
        line: "RBM.UNMARK s 1 COUNT c ROW 7 2 EVENT x op -1",
        counter: "CTAB.GET c 7 2",
        reply: "1) (integer) 1\n2) (integer) 0",
    },
];

const KEYS: [&str; 3] = ["s", "c", "x"];

const WRONG_TYPE: &str =
    "(error) WRONGTYPE Operation against a key holding the wrong kind of value";

fn overwrites(action: &Action) -> bool {
    action.name.starts_with("overwrite")
}

fn removes(action: &Action) -> bool {
    ["delete", "rename", "flush"]
        .iter()
        .any(|word| action.name.starts_with(word))
}

/// The expected reply when the hook applied `action` to `target` after the entry was appended and before any other
/// change.
fn expected(call: &Call, action: &Action, target: &str) -> String {
    let flushed = action.name.starts_with("flush");
    let set_gone = flushed || (target == "s" && removes(action));
    let counter_gone = flushed || (target == "c" && removes(action));
    // On a missing key the first command of WRITE creates a CountInt.
    let counters_at = |key| action.name == WRITE.name && target == key && call.creates(key);
    let spoilt = (overwrites(action) && target != "x")
        || counters_at("s")
        || (counters_at("c") && call.line.contains("ROW"));
    if spoilt {
        return WRONG_TYPE.to_owned();
    }
    if call.marks() {
        // A deleted counter is created again, with the cardinality of the set; other actions do not change this field.
        let has_members = call.setup.contains(&"RBM.ADD s 2 3");
        return match counter_gone && has_members && !set_gone {
            true => "1) (integer) 1\n2) (integer) 3".to_owned(),
            false => call.reply.to_owned(),
        };
    }
    let value = if counter_gone { "(nil)" } else { "(integer) 0" };
    match set_gone {
        false => format!("1) (integer) 1\n2) {value}"),
        // The hook removed the fact first.
        true if counter_gone => "1) (integer) 0\n2) (nil)".to_owned(),
        true => format!("1) (integer) 0\n2) {}", before(call)),
    }
}

/// The counter before an UNMARK.
fn before(call: &Call) -> &'static str {
    match call.setup.iter().any(|line| line.ends_with(" 2 1")) {
        true => "(integer) 1",
        false => "(integer) 0",
    }
}

/// Asserts that the set, the counter and the entry agree with the reply.
fn check_one_step(
    fixture: &mut Fixture,
    call: &Call,
    reply: &str,
    stream_touched: bool,
    case: &str,
) {
    let entries = fixture.run("XRANGE x - +", case);
    if let Some(value) = reply.strip_prefix("1) (integer) 1\n2) ") {
        let member = if call.marks() {
            "(integer) 1"
        } else {
            "(integer) 0"
        };
        assert_eq!(fixture.run("RBM.CONTAINS s 1", case), member, "{case}");
        let counter = fixture.run(call.counter, case);
        assert_eq!(counter, value, "{case}");
        assert!(
            stream_touched || entries.contains("\"op\""),
            "{case}: {entries}"
        );
    } else {
        assert!(
            stream_touched || !entries.contains("\"op\""),
            "{case}: {entries}"
        );
    }
}

/// The values at the set and the counter.
fn values(fixture: &mut Fixture, case: &str) -> String {
    fixture.run("DEBUG DIGEST-VALUE s c", case)
}

#[test]
fn mark_is_atomic_with_hooks_on_its_xadd() {
    let mut fixture = Fixture::start();
    for call in CALLS {
        for target in KEYS {
            for action in ACTIONS {
                let case = format!(
                    "{:?} > {} (xadd: {} {target})",
                    call.setup, call.line, action.name
                );
                let expected = expected(call, action, target);
                // The state after the hook's action.
                fixture.prepare(call.setup);
                for command in action.commands {
                    fixture.run(&command.replace("{k}", target), &case);
                }
                let left = values(&mut fixture, &case);

                fixture.prepare(call.setup);
                fixture.hook("xadd", "x", action, target);
                let reply = fixture.run(call.line, &case);
                fixture.unhook();
                let touched = target == "x" || action.name.starts_with("flush");
                match touched {
                    true => fixture.assert_values_replicated("s c", &case),
                    false => fixture.assert_replicated(&case),
                }
                assert_eq!(reply, expected, "{case}");
                check_one_step(&mut fixture, call, &reply, touched, &case);
                if !reply.starts_with("1) (integer) 1") {
                    assert_eq!(values(&mut fixture, &case), left, "{case}");
                }
            }
        }
    }
    fixture.assert_hooks_ran((CALLS.len() * KEYS.len() * ACTIONS.len()) as u64);
}

/// All changes are complete when the event is published.
#[test]
fn mark_survives_hooks_on_its_own_event() {
    let mut fixture = Fixture::start();
    for call in CALLS {
        let event = if call.marks() {
            "rbm.mark"
        } else {
            "rbm.unmark"
        };
        for (event, key) in [(event, "s"), (event, "c"), ("del", "s")] {
            for target in KEYS {
                for action in ACTIONS {
                    let case = format!(
                        "{:?} > {} ({event} {key}: {} {target})",
                        call.setup, call.line, action.name
                    );
                    fixture.prepare(call.setup);
                    fixture.hook(event, key, action, target);
                    assert_eq!(fixture.run(call.line, &case), call.reply, "{case}");
                    fixture.unhook();
                    fixture.assert_replicated(&case);
                }
            }
        }
    }
    fixture.assert_hooks_ran((2 * CALLS.len() * KEYS.len() * ACTIONS.len()) as u64);
}

/// Missing and expired keys are opened before the command decides.
#[test]
fn mark_is_atomic_with_hooks_on_keymiss_and_expired() {
    let mut fixture = Fixture::start();
    for call in CALLS {
        for (event, key) in [
            ("keymiss", "s"),
            ("keymiss", "c"),
            ("keymiss", "x"),
            ("expired", "s"),
            ("expired", "c"),
            ("expired", "x"),
        ] {
            for target in KEYS {
                for action in ACTIONS {
                    let case = format!(
                        "{:?} > {} ({event} {key}: {} {target})",
                        call.setup, call.line, action.name
                    );
                    fixture.prepare(call.setup);
                    if event == "expired" {
                        if call.creates(key) {
                            continue;
                        }
                        fixture.expire(key);
                    }
                    fixture.hook(event, key, action, target);
                    let reply = fixture.run(call.line, &case);
                    fixture.unhook();
                    // For the server's order of an expired key's DEL see writes.rs.
                    if event == "keymiss" || !action.creates || target != key {
                        fixture.assert_replicated(&case);
                    }
                    if !reply.starts_with("(error) ERR index") {
                        check_one_step(&mut fixture, call, &reply, false, &case);
                    }
                }
            }
        }
    }
    fixture.assert_hooks_ran(CALLS.len() as u64);
}

/// The server publishes `new` while it stores a new set or new counters.
#[test]
fn mark_is_atomic_with_hooks_on_new() {
    let mut fixture = Fixture::start();
    for call in CALLS.iter().filter(|call| call.marks()) {
        for key in KEYS.into_iter().filter(|key| call.creates(key)) {
            // Removing a key while the server stores it crashes the server.
            for target in KEYS.into_iter().filter(|&target| target != key) {
                for action in ACTIONS
                    .iter()
                    .filter(|action| !action.name.starts_with("flush"))
                {
                    let case = format!(
                        "{:?} > {} (new {key}: {} {target})",
                        call.setup, call.line, action.name
                    );
                    fixture.prepare(call.setup);
                    fixture.hook("new", key, action, target);
                    let reply = fixture.run(call.line, &case);
                    fixture.unhook();
                    fixture.assert_replicated(&case);
                    // The hook may have removed `s` when the counters were stored after it.
                    if key != "c" {
                        check_one_step(&mut fixture, call, &reply, target == "x", &case);
                        assert_eq!(reply, expected(call, action, target), "{case}");
                    }
                }
            }
        }
    }
    fixture.assert_hooks_ran(50);
}

/// The hook marks the same member first, so the outer mark is a duplicate and its entry is removed again.
#[test]
fn nested_mark_of_the_same_member_counts_once() {
    let mark = Action {
        name: "mark",
        commands: &["RBM.MARK s 1 COUNT c 2 LEN 3 EVENT y op 1"],
        creates: true,
    };
    let mut fixture = Fixture::start();
    fixture.prepare(&["RBM.ADD s 2"]);
    fixture.hook("xadd", "x", &mark, "");
    let reply = fixture.run("RBM.MARK s 1 COUNT c 2 LEN 3 EVENT x op 1", "mark");
    assert_eq!(reply, "1) (integer) 0\n2) (integer) 2");
    fixture.unhook();
    fixture.assert_replicated("mark");
    assert_eq!(fixture.run("XLEN x", "mark"), "(integer) 0");
    assert_eq!(fixture.run("XLEN y", "mark"), "(integer) 1");
    assert_eq!(fixture.run("CINT.GET c 2", "mark"), "(integer) 2");
}

/// The entry's removal publishes an event after all other changes.
#[test]
fn mark_survives_hooks_on_its_xdel() {
    let mut fixture = Fixture::start();
    let spoil = Action {
        name: "spoil",
        commands: &["SET c hook"],
        creates: true,
    };
    for action in ACTIONS {
        for target in KEYS {
            let call = &CALLS[0];
            let case = format!("xdel: {} {target}", action.name);
            fixture.prepare(call.setup);
            fixture.hook("xadd", "x", &spoil, "");
            fixture.hook("xdel", "x", action, target);
            assert_eq!(fixture.run(call.line, &case), WRONG_TYPE, "{case}");
            fixture.unhook();
            match target == "x" || action.name.starts_with("flush") {
                true => fixture.assert_values_replicated("s c", &case),
                false => fixture.assert_replicated(&case),
            }
        }
    }
    fixture.assert_hooks_ran((2 * ACTIONS.len() * KEYS.len()) as u64);
}
