//! `RBM.CONTAINS` and `RBM.MCONTAINS`: test membership.

use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `RBM.CONTAINS key member`
pub struct Contains;

impl Command for Contains {
    const SPEC: Spec = Spec {
        name: c"rbm.contains",
        flags: c"readonly fast",
        categories: c"rbm read fast",
        arity: 3,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns whether a set has a member",
        complexity: c"O(log N) where N is the cardinality of the set",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"member")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let member = call.unsigned(2)?;
        let key = keys.read(1);
        let found = key.set()?.is_some_and(|set| set.contains(member));
        call.reply_int(u64::from(found));
        Ok(())
    }
}

/// `RBM.MCONTAINS key member [member ...]`
pub struct MContains;

impl Command for MContains {
    const SPEC: Spec = Spec {
        name: c"rbm.mcontains",
        flags: c"readonly fast",
        categories: c"rbm read fast",
        arity: -3,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns for each of several ids whether a set has it",
        complexity: c"O(log N) for each id, where N is the cardinality of the set",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"member").multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let members = call.ids(2)?;
        let key = keys.read(1);
        let set = key.set()?;
        let found = |member| set.as_deref().is_some_and(|set| set.contains(member));
        call.reply_ints(members.iter().map(|&member| u64::from(found(member))));
        Ok(())
    }
}
