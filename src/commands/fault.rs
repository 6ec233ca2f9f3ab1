//! `COUNTINT.PANIC BEFORE|AFTER`, in builds for tests only: shows what a panic costs.

use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::spec::{Arg, Command, Spec};

/// `COUNTINT.PANIC BEFORE|AFTER`: panics before or after the first change.
pub struct Panic;

impl Command for Panic {
    const SPEC: Spec = Spec {
        name: c"countint.panic",
        flags: c"write",
        categories: c"countint write slow dangerous",
        arity: 2,
        keys: &[],
        summary: c"Panics, in builds for tests",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::one_of(
            c"when",
            &[
                Arg::word(c"before", c"BEFORE"),
                Arg::word(c"after", c"AFTER"),
            ],
        )],
    };

    fn run(call: &Call, _keys: &mut Keyspace) -> Outcome {
        if call.is(1, "AFTER") {
            call.begin();
        } else if !call.is(1, "BEFORE") {
            return Err(Error::Syntax);
        }
        panic!("asked for by COUNTINT.PANIC")
    }
}
