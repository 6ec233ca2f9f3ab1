//! `COUNTINT.PANIC BEFORE|AFTER|SCAN key`: panics, in builds for tests only.

use crate::error::Error;
use crate::server::{Arg, Call, Command, Keyspace, Outcome, Spec};

/// `COUNTINT.PANIC BEFORE|AFTER|SCAN key`: panics before or after the first change, or in the callback for the elements
/// of a Set.
pub struct Panic;

impl Command for Panic {
    const SPEC: Spec = Spec {
        name: c"countint.panic",
        flags: c"write",
        categories: c"countint write slow dangerous",
        arity: -2,
        keys: &[],
        summary: c"Panics, in builds for tests",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::one_of(
            c"when",
            &[
                Arg::word(c"before", c"BEFORE"),
                Arg::word(c"after", c"AFTER"),
                Arg::text(c"key").after(c"SCAN"),
            ],
        )],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        if call.is(1, "AFTER") {
            call.begin_effects();
        } else if call.is(1, "SCAN") && call.len() == 3 {
            keys.read(2)
                .for_each_element(|_| panic!("asked for by COUNTINT.PANIC"));
        } else if !call.is(1, "BEFORE") {
            return Err(Error::Syntax);
        }
        panic!("asked for by COUNTINT.PANIC")
    }
}
