//! `CINT.INIT`: creates an object of zeros.

use countint_core::countint::CountInt;

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};

/// `CINT.INIT key len`
pub struct Init;

impl Command for Init {
    const SPEC: Spec = Spec {
        name: c"cint.init",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: 3,
        keys: &[KeySpec::inserts(1)],
        summary: c"Creates an object with all counters at 0",
        complexity: c"O(N) where N is the number of counters",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"len")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let len = call.length(2)?;
        create(call, keys, Self::SPEC.name, || Ok(CountInt::new(len)?))
    }
}

/// Stores the object that `make` returns at a missing key, and replies OK.
pub fn create(
    call: &Call,
    keys: &mut Keyspace,
    event: &std::ffi::CStr,
    make: impl FnOnce() -> Result<CountInt, Error>,
) -> Outcome {
    let key = keys.write(1);
    if key.fields()?.is_some() {
        return Err(Error::KeyExists);
    }
    key.store(make()?, Replicate::Verbatim).publish(event);
    call.reply_ok();
    Ok(())
}
