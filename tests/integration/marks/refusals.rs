//! Refused calls change nothing and have no effects.

use crate::observer::{Effects, Observer};
use crate::writes::Route;
use countint_tests::{Server, reply};

const WRONG_TYPE: &str =
    "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
const INDEX: &str = "(error) ERR index out of range";
const SAME: &str = "(error) ERR keys must differ";
const SMALLER: &str =
    "(error) ERR The ID specified in XADD is equal or smaller than the target stream top item";
const EXHAUSTED: &str =
    "(error) ERR The stream has exhausted the last possible ID, unable to add more items";
const OOM: &str = "(error) OOM command not allowed when used memory > 'maxmemory'.";

const LAST_ID: &str = "XADD x 0-18446744073709551615 f v";
const LAST_ID_OF_ALL: &str = "XADD x 18446744073709551615-18446744073709551615 f v";

/// A setup command, the arguments after the key and the member, and the error. `k` is a set of 2, `c` has five fields, row 7
/// of the table `t` has five fields, and `m` is a stream with ids from the clock.
const REFUSED: &[(&str, &str, &str)] = &[
    ("PING", "COUNT c 5", INDEX),
    ("PING", "COUNT c 5 LEN 5", INDEX),
    ("PING", "COUNT c 6 LEN 6 EVENT x f v", INDEX),
    ("PING", "COUNT nosuch 5 EVENT x f v", INDEX),
    ("PING", "COUNT nosuch 65535 EVENT x f v", INDEX),
    ("PING", "COUNT c -1 EVENT x SEQ f v", INDEX),
    ("SET s text", "COUNT s 0 EVENT x f v", WRONG_TYPE),
    ("RBM.ADD s 1", "COUNT s 0 EVENT x f v", WRONG_TYPE),
    ("PING", "COUNT t ROW 9 5", INDEX),
    ("PING", "COUNT t ROW 7 5 LEN 5", INDEX),
    ("PING", "COUNT t ROW 9 6 LEN 6 EVENT x f v", INDEX),
    ("PING", "COUNT nosuch ROW 9 5 EVENT x f v", INDEX),
    ("PING", "COUNT nosuch ROW 9 65535 EVENT x f v", INDEX),
    ("PING", "COUNT t ROW 7 -1 EVENT x SEQ f v", INDEX),
    ("PING", "COUNT c ROW 7 0", WRONG_TYPE),
    ("PING", "COUNT t 0 EVENT x f v", WRONG_TYPE),
    ("RBM.ADD s 1", "COUNT s ROW 1 0 EVENT x f v", WRONG_TYPE),
    ("PING", "COUNT k ROW 1 0", SAME),
    ("PING", "COUNT t ROW 7 0 EVENT t f v", SAME),
    (
        "PING",
        "COUNT t ROW 7 6 LEN 7 EVENT m SEQ MAXLEN 0 f v",
        SMALLER,
    ),
    ("SET s text", "EVENT s f v", WRONG_TYPE),
    ("CINT.SET s 0 1", "COUNT c 0 EVENT s f v", WRONG_TYPE),
    (
        "LPUSH s 1",
        "COUNT c 0 EVENT s SEQ MAXLEN 5 f v",
        WRONG_TYPE,
    ),
    ("PING", "COUNT k 0", SAME),
    ("PING", "EVENT k f v", SAME),
    ("PING", "COUNT k 0 EVENT x f v", SAME),
    ("PING", "COUNT c 0 EVENT c f v", SAME),
    ("PING", "COUNT c 0 EVENT k f v", SAME),
    ("PING", "EVENT m SEQ f v", SMALLER),
    ("PING", "COUNT c 0 EVENT m SEQ f v", SMALLER),
    ("PING", "COUNT c 6 LEN 7 EVENT m SEQ MAXLEN 0 f v", SMALLER),
    (LAST_ID, "COUNT c 0 EVENT x SEQ f v", "(error) ERR "), // servers differ in what they call it
    (LAST_ID_OF_ALL, "COUNT c 0 EVENT x f v", EXHAUSTED),
    (LAST_ID_OF_ALL, "COUNT c 0 EVENT x SEQ f v", EXHAUSTED),
    (
        LAST_ID_OF_ALL,
        "COUNT c 6 LEN 7 EVENT x MAXLEN 0 f v",
        EXHAUSTED,
    ),
];

/// Calls that would change the set if they were not refused.
const CALLS: [&str; 4] = [
    "RBM.MARK k 1",
    "RBM.UNMARK k 2",
    "RBM.MMARK k 1 2 3",
    "RBM.MUNMARK k 2 3",
];

#[test]
fn refused_mark_has_no_effects() {
    let mut observer = Observer::start();
    for (other, arguments, refusal) in REFUSED {
        for call in CALLS {
            // UNMARK does not decrement a missing counter, so only an impossible idx is an error. It makes no counter longer,
            // but validates LEN.
            if call.contains("UNMARK")
                && (arguments.contains("nosuch 5") || arguments.contains("nosuch ROW 9 5"))
            {
                continue;
            }
            let setup = [
                "RBM.ADD k 2",
                "CINT.SET c 0 7",
                "CTAB.SET t 7 0 7",
                "XADD m 5-1 f v",
                other,
            ];
            let line = format!("{call} {arguments}");
            for route in Route::ALL {
                let (reply, effects) = observer.observe(&setup, |writer| route.send(writer, &line));
                let context = format!("{other} > {line} ({route:?})");
                let reply = reply::format(&reply);
                assert!(reply.starts_with(refusal), "{context}: {reply}");
                assert_eq!(effects, Effects::default(), "{context}");
            }
        }
    }
}

#[test]
fn wrong_type_has_no_effects() {
    let mut observer = Observer::start();
    let others = ["SET k text", "SADD k 1", "CINT.SET k 0 1", "XADD k 0-1 f v"];
    let arguments = ["", "COUNT c 0", "EVENT x SEQ f v", "COUNT c 0 EVENT x f v"];
    for other in others {
        for (command, arguments) in arguments.iter().flat_map(|arguments| {
            let commands = [
                "RBM.MARK k 1",
                "RBM.UNMARK k 1",
                "RBM.MMARK k 1 2",
                "RBM.MUNMARK k 1 2",
            ];
            commands.map(|command| (command, arguments))
        }) {
            let line = format!("{command} {arguments}");
            let (reply, effects) = observer.observe(&[other], |writer| writer.run(&line));
            assert_eq!(reply, WRONG_TYPE, "{other} > {line}");
            assert_eq!(effects, Effects::default(), "{other} > {line}");
        }
    }
}

#[test]
fn oom_has_no_effects() {
    let mut observer = Observer::start();
    let setup = [
        "RBM.ADD k 2",
        "CINT.SET c 0 7",
        "CTAB.SET t 7 0 7",
        "XADD x 0-1 f v",
    ];
    let refused = [
        "RBM.MARK k 1",
        "RBM.MARK k 1 COUNT c 0",
        "RBM.MARK k 1 COUNT c 0 EVENT x SEQ f v",
        "RBM.MARK k 1 COUNT c 6 LEN 7 EVENT x f v",
        "RBM.UNMARK k 2 EVENT x SEQ f v",
        "RBM.UNMARK k 2 COUNT c 0 EVENT x SEQ f v",
        "RBM.UNMARK k 2 COUNT c 6 LEN 7 EVENT x MAXLEN 0 f v",
        "RBM.UNMARK k 2 COUNT c 0 EVENT new f v",
        "RBM.UNMARK k 2 COUNT c 0 LEN 6",
        "RBM.MARK k 1 COUNT t ROW 8 0",
        "RBM.UNMARK k 2 COUNT t ROW 7 0 LEN 6",
        "RBM.MMARK k 1 2 3",
        "RBM.MMARK k 1 3 COUNT c 0 EVENT x SEQ f v",
        "RBM.MUNMARK k 2 3 EVENT x SEQ f v",
        "RBM.MUNMARK k 2 3 COUNT c 0 LEN 6",
    ];
    for line in refused {
        for route in Route::ALL {
            let (reply, effects) = observer.observe(&setup, |writer| {
                writer.ok("CONFIG SET maxmemory 1");
                let reply = reply::format(&route.send(writer, line));
                writer.ok("CONFIG SET maxmemory 0");
                reply
            });
            let aborted = reply.starts_with("(error) EXECABORT");
            let context = format!("{line} ({route:?}): {reply}");
            assert!(
                reply == OOM || aborted && route == Route::Transaction,
                "{context}"
            );
            assert_eq!(effects, Effects::default(), "{context}");
        }
    }
    // Removals are not refused.
    let (reply, effects) = observer.observe(&setup, |writer| {
        writer.ok("CONFIG SET maxmemory 1");
        let reply = writer.run("RBM.UNMARK k 2 COUNT c 0");
        writer.ok("CONFIG SET maxmemory 0");
        reply
    });
    assert_eq!(reply, "1) (integer) 1\n2) (integer) 6");
    assert_eq!(effects.dirty, 2);
    // Nor is an UNMARK with a LEN for a missing row.
    let (reply, effects) = observer.observe(&setup, |writer| {
        writer.ok("CONFIG SET maxmemory 1");
        let reply = writer.run("RBM.UNMARK k 2 COUNT t ROW 8 5 LEN 6");
        writer.ok("CONFIG SET maxmemory 0");
        reply
    });
    assert_eq!(reply, "1) (integer) 1\n2) (nil)");
    assert_eq!(effects.dirty, 1);
}

/// A cluster of one node, which serves every slot.
#[test]
fn keys_in_different_slots_have_no_effects() {
    let server = Server::builder().config("cluster-enabled yes").start();
    let mut client = server.client();
    client.ok("CLUSTER ADDSLOTSRANGE 0 16383");
    countint_tests::wait_until("the node serves", || {
        reply::text(client.ok("CLUSTER INFO")).contains("cluster_state:ok")
    });
    let cross_slot = [
        "COUNT {b}c 0",
        "EVENT {b}x f v",
        "COUNT {a}c 0 EVENT {b}x f v",
        "COUNT {b}c 0 EVENT {b}x SEQ f v",
        "COUNT {b}c 0 EVENT {a}x SEQ MAXLEN 5 COUNT {a}c",
    ];
    let refused = "(error) CROSSSLOT Keys in request don't hash to the same slot";
    for command in [
        "RBM.MARK {a}k 1",
        "RBM.UNMARK {a}k 1",
        "RBM.MMARK {a}k 1 2",
        "RBM.MUNMARK {a}k 1 2",
    ] {
        for arguments in cross_slot {
            let line = format!("{command} {arguments}");
            client.expect(&line, refused);
            client.ok("MULTI");
            client.expect(&line, refused);
            assert!(client.run("EXEC").starts_with("(error) EXECABORT"));
        }
    }
    client.expect("DBSIZE", "(integer) 0");
    // A field name of an event is not a key.
    let call = "1 COUNT {a}c 0 EVENT {a}x SEQ COUNT {b}c EVENT {c}x";
    client.expect(
        &format!("RBM.MARK {{a}}k {call}"),
        "1) (integer) 1\n2) (integer) 1",
    );
    client.expect(
        &format!("RBM.UNMARK {{a}}k {call}"),
        "1) (integer) 1\n2) (integer) 0",
    );
    client.expect("XLEN {a}x", "(integer) 2");
}
