//! `CINT.INIT`: a new object of zeros.

use countint_core::countint::CountInt;

use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replicate::Replicate;
use crate::spec::{Arg, Command, KeySpec, Spec};

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

/// Stores what `make` gives at a key that must be missing, and replies OK.
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
    key.store_counters(make()?, Replicate::Verbatim)
        .publish(event);
    call.reply_ok();
    Ok(())
}
