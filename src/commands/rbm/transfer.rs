//! `RBM.EXPORT` and `RBM.IMPORT`: the portable 64-bit Roaring format.

use countint_core::idset::IdSet;

use super::order::range;
use crate::error::Error;
use crate::server::reply::MAX_BULK;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};
use crate::types::idset;

/// `RBM.EXPORT key [min max]`
pub struct Export;

impl Command for Export {
    const SPEC: Spec = Spec {
        name: c"rbm.export",
        flags: c"readonly",
        categories: c"rbm read slow",
        arity: -2,
        keys: &[KeySpec::reads(1, 0)],
        summary:
            c"Returns a set, or the part of it in a range, in the portable 64-bit Roaring format",
        complexity: c"O(N) where N is the number of members returned",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::block(c"range", &[Arg::int(c"min"), Arg::int(c"max")]).optional(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let range = match call.len() {
            2 => None,
            4 => Some(range(call)?),
            _ => return Err(Error::Arity),
        };
        let key = keys.read(1);
        let Some(set) = key.set()? else {
            call.reply_null();
            return Ok(());
        };
        let bytes = match range {
            None => set.export(),
            Some((min, max)) => set.export_range(min, max),
        };
        if bytes.len() > MAX_BULK {
            return Err(Error::ReplyTooLong);
        }
        call.reply_bytes(&bytes);
        Ok(())
    }
}

/// `RBM.IMPORT key bytes`
pub struct Import;

impl Command for Import {
    const SPEC: Spec = Spec {
        name: c"rbm.import",
        flags: c"write deny-oom",
        categories: c"rbm write slow",
        arity: 3,
        keys: &[KeySpec::inserts(1)],
        summary: c"Adds the members of a portable 64-bit Roaring bitmap to a set and returns how many were new",
        complexity: c"O(N) where N is the number of members of the set and of the bitmap together",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::text(c"bytes")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let mut key = keys.write(1);
        let existing = key.set_mut()?;
        let incoming = idset::build(|| IdSet::from_portable(call.arg(2)))?;
        let added = match existing {
            Some(mut set) => {
                call.begin_effects();
                let added = set.absorb(incoming);
                if added > 0 {
                    key.changed(Replicate::Verbatim).publish(Self::SPEC.name);
                }
                added
            }
            None => {
                let added = incoming.len();
                if added > 0 {
                    key.store(incoming, Replicate::Verbatim)
                        .publish(Self::SPEC.name);
                }
                added
            }
        };
        call.reply_int(added);
        Ok(())
    }
}
