//! `RBM.MMARK` and `RBM.MUNMARK` with hooks on the `XADD` of their entry. The members of the entry are always those that changed.

use super::fixture::{ACTIONS, Action, Fixture};

/// A set of 2 and 3, a counter that is 2, and a stream.
const SETUP: &[&str] = &[
    "RBM.ADD s 2 3",
    "CINT.SET c LEN 3 0 10 2 2",
    "XADD x * old 1",
];

const MMARK: &str = "RBM.MMARK s 1 2 5 1 COUNT c 2 EVENT x op 1";
const MUNMARK: &str = "RBM.MUNMARK s 2 1 3 COUNT c 2 EVENT x op -1";

const KEYS: [&str; 3] = ["s", "c", "x"];

/// The members of the call that changed according to its reply, with commas; None if the reply is an error.
fn changed(line: &str, reply: &str) -> Option<String> {
    if reply.starts_with("(error)") {
        return None;
    }
    let members = line.split(' ').skip(2).take_while(|word| *word != "COUNT");
    let flags = reply.lines().take_while(|line| !line.starts_with("2)"));
    let changed = members
        .zip(flags)
        .filter(|(_, flag)| flag.ends_with("(integer) 1"));
    Some(
        changed
            .map(|(member, _)| member)
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// Asserts that the set and the entries of the call agree with its reply.
fn check(fixture: &mut Fixture, line: &str, reply: &str, case: &str) {
    let entries = fixture.run("XRANGE x - +", case);
    match changed(line, reply).filter(|members| !members.is_empty()) {
        Some(members) => {
            let member = if line == MMARK {
                "(integer) 1"
            } else {
                "(integer) 0"
            };
            for id in members.split(',') {
                let contains = fixture.run(&format!("RBM.CONTAINS s {id}"), case);
                assert_eq!(contains, member, "{case}: {id}");
            }
            let entry = format!("\"{members}\"");
            assert!(entries.contains(&entry), "{case}: {reply}: {entries}");
            assert_eq!(entries.matches("members").count(), 1, "{case}: {entries}");
            let counter = fixture.run("CINT.GET c 2", case);
            assert!(
                reply.ends_with(&format!("\n2) {counter}")),
                "{case}: {reply}: {counter}"
            );
        }
        None => assert!(!entries.contains("members"), "{case}: {entries}"),
    }
}

#[test]
fn entry_has_the_changed_members_with_hooks_on_its_xadd() {
    let mut fixture = Fixture::start();
    for line in [MMARK, MUNMARK] {
        for target in KEYS {
            for action in ACTIONS {
                let case = format!("{line} (xadd: {} {target})", action.name);
                fixture.prepare(SETUP);
                fixture.hook("xadd", "x", action, target);
                let reply = fixture.run(line, &case);
                fixture.unhook();
                let touched = target == "x" || action.name.starts_with("flush");
                match touched {
                    true => fixture.assert_values_replicated("s c", &case),
                    false => {
                        fixture.assert_replicated(&case);
                        check(&mut fixture, line, &reply, &case);
                    }
                }
            }
        }
    }
    fixture.assert_hooks_ran((2 * KEYS.len() * ACTIONS.len()) as u64);
}

/// A hook that does something to members of the call.
const fn hook(commands: &'static [&'static str]) -> Action {
    Action {
        name: "members",
        commands,
        creates: true,
    }
}

/// The hook marks a member of the call first: the entry is replaced by one without it.
#[test]
fn entry_is_replaced_if_a_hook_marks_one_of_its_members() {
    let mut fixture = Fixture::start();
    fixture.prepare(SETUP);
    let mark = hook(&["RBM.MARK s 5 COUNT c 2 EVENT y op 1"]);
    fixture.hook("xadd", "x", &mark, "");
    let reply = fixture.run(MMARK, "mark");
    let flags = "1) 1) (integer) 1\n   2) (integer) 0\n   3) (integer) 0\n   4) (integer) 0";
    assert_eq!(reply, format!("{flags}\n2) (integer) 4"));
    fixture.unhook();
    fixture.assert_replicated("mark");
    check(&mut fixture, MMARK, &reply, "mark");
    assert_eq!(fixture.run("XLEN x", "mark"), "(integer) 2");
    assert_eq!(fixture.run("XLEN y", "mark"), "(integer) 1");

    // All members: nothing is left to change.
    fixture.prepare(SETUP);
    fixture.hook("xadd", "x", &hook(&["RBM.ADD s 1 5"]), "");
    let reply = fixture.run(MMARK, "all");
    assert_eq!(
        reply,
        format!(
            "{}\n2) (integer) 2",
            flags.replace("(integer) 1", "(integer) 0")
        )
    );
    fixture.unhook();
    fixture.assert_replicated("all");
    assert_eq!(fixture.run("XLEN x", "all"), "(integer) 1");
}

/// The hook adds or removes a member each time that the entry is appended.
#[test]
fn endless_interference_of_a_hook_is_an_error() {
    let mut fixture = Fixture::start();
    for line in [MMARK, MUNMARK] {
        fixture.prepare(SETUP);
        fixture.run("RBM.ADD flip 2", line);
        let before = fixture.run("CINT.DUMP c", line);
        fixture.hook("xadd", "x", &hook(&["RBM.OP XOR s s flip"]), "");
        let reply = fixture.run(line, line);
        let error = "(error) ERR a keyspace hook of another module keeps changing the members";
        assert_eq!(reply, error, "{line}");
        fixture.unhook();
        fixture.assert_replicated(line);
        check(&mut fixture, line, &reply, line);
        assert_eq!(fixture.run("CINT.DUMP c", line), before, "{line}");
        assert_eq!(fixture.run("XLEN x", line), "(integer) 1", "{line}");
    }
}

/// The hooks of `new` run when the set has been stored: if the counter cannot change any more, the members are removed again.
#[test]
fn members_are_removed_again_if_a_hook_on_new_spoils_the_counter() {
    let mut fixture = Fixture::start();
    fixture.prepare(&["CINT.SET c LEN 3 2 2"]);
    fixture.hook("new", "s", &hook(&["SET c hook"]), "");
    let reply = fixture.run(MMARK, "new");
    assert!(reply.starts_with("(error) WRONGTYPE"), "{reply}");
    fixture.unhook();
    fixture.assert_replicated("new");
    assert_eq!(fixture.run("EXISTS s", "new"), "(integer) 0");
    assert_eq!(fixture.run("XLEN x", "new"), "(integer) 0");
}
