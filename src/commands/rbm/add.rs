//! `RBM.ADD`: adds members.

use countint_core::idset::IdSet;

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};
use crate::types::idset;

/// `RBM.ADD key member [member ...]`
pub struct Add;

impl Command for Add {
    const SPEC: Spec = Spec {
        name: c"rbm.add",
        flags: c"write deny-oom fast",
        categories: c"rbm write fast",
        arity: -3,
        keys: &[KeySpec::inserts(1)],
        summary: c"Adds members to a set and returns how many were new",
        complexity: c"O(log N) for each member added, where N is the cardinality of the set",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"member").multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let members = call.ids(2)?;
        let mut key = keys.write(1);
        let insert = |set: &mut IdSet| members.iter().filter(|&&member| set.insert(member)).count();
        let added = match key.set_mut()? {
            Some(mut set) => {
                call.begin_effects();
                let added = set.change(insert) as u64;
                if added > 0 {
                    key.changed(Replicate::Verbatim).publish(Self::SPEC.name);
                }
                added
            }
            None => {
                let set = idset::build(|| {
                    let mut set = IdSet::new();
                    insert(&mut set);
                    Ok::<_, Error>(set)
                })?;
                let added = set.len();
                key.store(set, Replicate::Verbatim).publish(Self::SPEC.name);
                added
            }
        };
        call.reply_int(added);
        Ok(())
    }
}
