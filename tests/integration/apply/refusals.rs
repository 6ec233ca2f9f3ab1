//! Refused and repeated batches have no effects.

use crate::observer::{Effects, Observer};
use crate::writes::Route;
use countint_tests::reply;

const NUMBER: &str = "(error) ERR value is not an integer or out of range";
const INDEX: &str = "(error) ERR index out of range";

/// Five fields, the last of which is a fence at 10.
const SETUP: [&str; 1] = ["CINT.SET k 0 7 4 10"];

/// Calls and their replies as redis-cli prints them. Their offsets are new unless the case is about offsets.
const CALLS: &[(&str, &str)] = &[
    // Offsets past 2^40-2.
    ("CINT.APPLY k 4 1099511627775 1099511627775 0 1", NUMBER),
    ("CINT.APPLY k 4 10 1099511627775 0 1", NUMBER),
    ("CINT.APPLY k 4 10 18446744073709551615 0 1", NUMBER),
    ("CINT.APPLY k 4 -1 10 0 1", NUMBER),
    ("CINT.APPLY new 4 0 1099511627775 0 1", NUMBER),
    // from > to.
    ("CINT.APPLY k 4 11 10 0 1", NUMBER),
    ("CINT.APPLY k 4 1099511627774 0 0 1", NUMBER),
    ("CINT.APPLY new 4 1 0 0 1", NUMBER),
    // The fence is one of the fields to add to.
    ("CINT.APPLY k 4 10 10 4 1", INDEX),
    ("CINT.APPLY k 4 10 10 0 1 4 0", INDEX),
    ("CINT.APPLY k 0 10 10 1 1 0 1 2 1", INDEX),
    ("CINT.APPLY new 4 0 0 4 1", INDEX),
    ("CINT.APPLY k 5 10 10 LEN 6 5 1", INDEX),
    // The fence, or a field, is outside the object.
    ("CINT.APPLY k 5 10 10 0 1", INDEX),
    ("CINT.APPLY k 65534 10 10 0 1", INDEX),
    ("CINT.APPLY k 65535 10 10 LEN 65535 0 1", INDEX),
    ("CINT.APPLY k -1 10 10 0 1", INDEX),
    ("CINT.APPLY k 6 10 10 LEN 6 0 1", INDEX),
    ("CINT.APPLY k 4 10 10 0 1 5 1", INDEX),
    ("CINT.APPLY new 5 0 0 0 1", INDEX),
    ("CINT.APPLY new 3 0 0 LEN 3 0 1", INDEX),
    // Also on duplicate and partial batches.
    ("CINT.APPLY k 5 0 9 0 1", INDEX),
    ("CINT.APPLY k 4 0 9 5 1", INDEX),
    ("CINT.APPLY k 4 5 10 4 1", INDEX),
    ("CINT.APPLY k 4 5 10 0 x", NUMBER),
    (
        "CINT.APPLY k 4 0 9 LEN 70000 0 1",
        "(error) ERR length must",
    ),
    // Applied before, completely or in part.
    ("CINT.APPLY k 4 0 9 0 1", "(integer) 10"),
    ("CINT.APPLY k 4 9 9 0 1 1 5", "(integer) 10"),
    ("CINT.APPLY k 4 9 10 0 1", "(integer) 10"),
    ("CINT.APPLY k 4 0 1099511627774 0 1", "(integer) 10"),
    ("CINT.APPLY k 4 0 9 LEN 9 8 1", "(integer) 10"),
    ("CINT.APPLY k 4 0 99 LEN 9 8 1", "(integer) 10"),
];

#[test]
fn refused_or_repeated_batch_has_no_effects() {
    let mut observer = Observer::start();
    for (line, printed) in CALLS {
        for route in Route::ALL {
            let (reply, effects) = observer.observe(&SETUP, |writer| route.send(writer, line));
            let reply = reply::format(&reply);
            assert!(reply.starts_with(printed), "{line} ({route:?}): {reply}");
            assert_eq!(effects, Effects::default(), "{line} ({route:?})");
        }
    }
}

#[test]
fn wrong_type_and_oom_have_no_effects() {
    let mut observer = Observer::start();
    for other in ["SET k text", "RBM.ADD k 1", "XADD k 0-1 f v"] {
        let (reply, effects) =
            observer.observe(&[other], |writer| writer.run("CINT.APPLY k 4 0 0 0 1"));
        assert!(reply.starts_with("(error) WRONGTYPE"), "{other}: {reply}");
        assert_eq!(effects, Effects::default(), "{other}");
    }
    let (reply, effects) = observer.observe(&SETUP, |writer| {
        writer.ok("CONFIG SET maxmemory 1");
        let reply = writer.run("CINT.APPLY k 4 10 10 0 1");
        writer.ok("CONFIG SET maxmemory 0");
        reply
    });
    assert!(reply.starts_with("(error) OOM"), "{reply}");
    assert_eq!(effects, Effects::default());
}

/// A new batch without increments still moves the fence.
#[test]
fn new_batch_is_one_change() {
    let mut observer = Observer::start();
    let calls = [
        "CINT.APPLY k 4 10 12 0 1 1 -5 0 3",
        "CINT.APPLY k 4 10 12 0 0",
        "CINT.APPLY k 4 11 11 0 1 0 -1",
        "CINT.APPLY k 6 0 0 LEN 7 5 1",
        "CINT.APPLY k 4 1099511627774 1099511627774 0 1099511627776",
    ];
    for call in calls {
        for route in Route::ALL {
            let (_, effects) = observer.observe(&SETUP, |writer| route.send(writer, call));
            assert_eq!(
                effects,
                Effects::one_change(call, &["cint.apply"]),
                "{call}"
            );
        }
    }
}
