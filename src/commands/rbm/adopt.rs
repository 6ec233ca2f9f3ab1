//! `RBM.ADOPT`: turns a Set of decimal ids into an id set, at the same key.

use countint_core::decimal;
use countint_core::idset::IdSet;

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, KeyType, Keyspace, Outcome, Replicate, Spec};
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
            match key.key_type() {
                KeyType::Set => {}
                KeyType::Missing => return Err(Error::NoSuchKey),
                _ => return Err(Error::WrongType),
            }
            let mut ids = Vec::new();
            ids.try_reserve_exact(key.element_count())
                .map_err(|_| Error::OutOfMemory)?;
            let mut invalid = false;
            key.for_each_element(|element| match decimal::parse_u64(element) {
                Some(id) => ids.push(id),
                None => invalid = true,
            });
            if invalid {
                return Err(Error::Payload);
            }
            ids.sort_unstable();
            let set = idset::build(|| Ok::<_, Error>(ids.iter().copied().collect::<IdSet>()))?;
            let expiry = key.expiry();
            key.store_with_expiry(set, expiry, Replicate::Verbatim)
                .publish(Self::SPEC.name);
        }
        call.reply_ok();
        Ok(())
    }
}
