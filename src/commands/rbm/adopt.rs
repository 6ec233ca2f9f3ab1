//! `RBM.ADOPT`: a Set of decimal ids becomes an id set in place.

use countint_core::decimal;
use countint_core::idset::IdSet;
use redis_module::raw;

use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replicate::Replicate;
use crate::spec::{Arg, Command, KeySpec, Spec};
use crate::types::idset;

/// `RBM.ADOPT key`
pub struct Adopt;

impl Command for Adopt {
    const SPEC: Spec = Spec {
        name: c"rbm.adopt",
        flags: c"write deny-oom",
        categories: c"rbm write slow",
        arity: 2,
        keys: &[KeySpec::updates(1, false)],
        summary: c"Turns a Set of decimal ids into an id set in place",
        complexity: c"O(N log N) where N is the cardinality of the set",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0)],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let key = keys.write(1);
        if !matches!(key.set(), Ok(Some(_))) {
            match key.kind() {
                raw::REDISMODULE_KEYTYPE_SET => {}
                raw::REDISMODULE_KEYTYPE_EMPTY => return Err(Error::NoSuchKey),
                _ => return Err(Error::WrongType),
            }
            let mut ids = Vec::new();
            ids.try_reserve_exact(key.element_count())
                .map_err(|_| Error::OutOfMemory)?;
            let mut foreign = false;
            key.for_each_element(|element| match decimal::parse_u64(element) {
                Some(id) => ids.push(id),
                None => foreign = true,
            });
            if foreign {
                return Err(Error::Payload);
            }
            ids.sort_unstable();
            let set = idset::weighed(|| Ok::<_, Error>(ids.iter().copied().collect::<IdSet>()))?;
            let expiry = key.expiry();
            key.adopt_set(set, expiry, Replicate::Verbatim)
                .publish(Self::SPEC.name);
        }
        call.reply_ok();
        Ok(())
    }
}
