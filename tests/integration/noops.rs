//! A call that changes nothing has no effects: nothing is replicated, notified, invalidated or counted. A change has each
//! effect once.

use crate::observer::{Effects, Observer};
use crate::writes::{CHANGES, NOOPS, Route, name, registered};
use countint_tests::{Server, reply};
use std::collections::BTreeSet;

#[test]
fn noop_has_no_effects() {
    let mut observer = Observer::start();
    for idle in NOOPS {
        for route in Route::ALL {
            let (reply, effects) =
                observer.observe(idle.setup, |writer| route.send(writer, idle.line));
            let context = format!("{:?} > {} ({route:?})", idle.setup, idle.line);
            assert_eq!(effects, Effects::default(), "{context}");
            // Transactions and scripts have their own error for a wrong number of arguments.
            let reply = reply::format(&reply);
            if route == Route::Plain || !idle.reply.contains("number of arguments") {
                assert!(reply.starts_with(idle.reply), "{context}: {reply}");
            }
        }
    }
}

#[test]
fn change_has_each_effect_once() {
    let mut observer = Observer::start();
    for change in CHANGES {
        for route in Route::ALL {
            let (reply, effects) =
                observer.observe(change.setup, |writer| route.send(writer, change.line));
            let context = format!("{:?} > {} ({route:?})", change.setup, change.line);
            let reply = reply::format(&reply);
            assert!(!reply.contains("(error)"), "{context}: {reply}");
            let expected = Effects::one_change(change.sent(), change.events);
            assert_eq!(effects, expected, "{context}");
        }
    }
}

/// With `countint.default-len 0`, a call that would create an object has no effects.
#[test]
fn refused_creation_has_no_effects() {
    let mut observer = Observer::start();
    observer.writer.ok("CONFIG SET countint.default-len 0");
    let calls = [
        "CINT.INCRBY k 0 1",
        "CINT.BATCHINCR k 0 1",
        "CINT.SET k 0 1",
        "CINT.GETSET k 0 1",
        "CINT.APPLY k 4 0 0 0 1",
        "CTAB.INCRBY k 1 0 1",
        "CTAB.BATCHINCR k 1 0 1",
        "CTAB.MINCRBY k 1 0 1",
        "CTAB.SET k 1 0 1",
        "CTAB.GETSET k 1 0 1",
        "CTAB.MAPPLY k 4 0 0 1 0 1",
        "RBM.MARK k 1 COUNT c 0",
        "RBM.MARK k 1 COUNT c ROW 7 0",
        "RBM.MMARK k 1 2 COUNT c 0",
    ];
    for call in calls {
        let (reply, effects) = observer.observe(&[], |writer| writer.run(call));
        assert_eq!(reply, "(error) ERR no such key", "{call}");
        assert_eq!(effects, Effects::default(), "{call}");
    }
}

/// A transaction or script of several calls, some of which change nothing.
#[test]
fn transaction_has_the_effects_of_its_changes_only() {
    let mut observer = Observer::start();
    let calls = [
        "CINT.SET k 0 1",
        "CINT.INCRBY k 0 1",
        "CINT.INCRBY k 0 0",
        "CINT.INCRBY k 9 1",
    ];
    let (_, effects) = observer.observe(&["CINT.SET k 0 1"], |writer| {
        writer.ok("MULTI");
        for call in calls {
            writer.ok(call);
        }
        writer.ok("EXEC")
    });
    assert_eq!(
        effects,
        Effects::one_change("CINT.INCRBY k 0 1", &["cint.incrby"])
    );
}

#[test]
fn the_tables_have_every_write_command() {
    let server = Server::start();
    let registered = registered(&mut server.client(), "write");
    let changing: BTreeSet<String> = CHANGES.iter().map(|change| name(change.line)).collect();
    let idle: BTreeSet<String> = NOOPS.iter().map(|idle| name(idle.line)).collect();
    assert_eq!(changing, registered);
    assert_eq!(idle, registered);
}
