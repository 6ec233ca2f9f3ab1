//! `RBM.MIN`, `RBM.MAX`, `RBM.RANK`, `RBM.SELECT` and `RBM.COUNT`: queries by the order of the members.

use std::ffi::CStr;

use countint_core::idset::IdSet;

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

const KEYS: &[KeySpec] = &[KeySpec::reads(1, 0)];

/// The complexity of reading the first or last member.
const COMPLEXITY_OF_ENDS: &CStr = c"O(1)";
/// The complexity of counting members: it sums the sizes of groups of about 10,000 members.
const COMPLEXITY_OF_COUNTING: &CStr =
    c"O(log N + N / 10,000) where N is the cardinality of the set";

/// The description of a command that reads one set.
const fn reads_set(
    name: &'static CStr,
    summary: &'static CStr,
    complexity: &'static CStr,
    arity: i32,
    args: &'static [Arg],
) -> Spec {
    Spec {
        name,
        flags: c"readonly",
        categories: c"rbm read slow",
        arity,
        keys: KEYS,
        summary,
        complexity,
        since: c"0.1.0",
        args,
    }
}

/// Replies with the member that `pick` returns for the set at the key, or nil.
fn reply_picked(
    call: &Call,
    keys: &mut Keyspace,
    pick: impl FnOnce(&IdSet) -> Option<u64>,
) -> Outcome {
    let key = keys.read(1);
    match key.set()?.and_then(|set| pick(&set)) {
        Some(member) => call.reply_decimal(member),
        None => call.reply_null(),
    }
    Ok(())
}

/// `RBM.MIN key`
pub struct Min;

impl Command for Min {
    const SPEC: Spec = reads_set(
        c"rbm.min",
        c"Returns the smallest member of a set",
        COMPLEXITY_OF_ENDS,
        2,
        &[Arg::key(c"key", 0)],
    );

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        reply_picked(call, keys, IdSet::min)
    }
}

/// `RBM.MAX key`
pub struct Max;

impl Command for Max {
    const SPEC: Spec = reads_set(
        c"rbm.max",
        c"Returns the largest member of a set",
        COMPLEXITY_OF_ENDS,
        2,
        &[Arg::key(c"key", 0)],
    );

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        reply_picked(call, keys, IdSet::max)
    }
}

/// `RBM.SELECT key rank`
pub struct Select;

impl Command for Select {
    const SPEC: Spec = reads_set(
        c"rbm.select",
        c"Returns the member with a given rank, 0 being the smallest",
        COMPLEXITY_OF_COUNTING,
        3,
        &[Arg::key(c"key", 0), Arg::int(c"rank")],
    );

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let rank = call.unsigned(2)?;
        reply_picked(call, keys, |set| set.select(rank))
    }
}

/// `RBM.RANK key member`
pub struct Rank;

impl Command for Rank {
    const SPEC: Spec = reads_set(
        c"rbm.rank",
        c"Returns how many members are smaller than a member",
        COMPLEXITY_OF_COUNTING,
        3,
        &[Arg::key(c"key", 0), Arg::int(c"member")],
    );

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let member = call.unsigned(2)?;
        let key = keys.read(1);
        match key.set()?.filter(|set| set.contains(member)) {
            Some(set) => call.reply_int(set.rank(member)),
            None => call.reply_null(),
        }
        Ok(())
    }
}

/// `RBM.COUNT key min max`
pub struct Count;

impl Command for Count {
    const SPEC: Spec = reads_set(
        c"rbm.count",
        c"Returns how many members lie in a range",
        COMPLEXITY_OF_COUNTING,
        4,
        &[Arg::key(c"key", 0), Arg::int(c"min"), Arg::int(c"max")],
    );

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (min, max) = range(call)?;
        let key = keys.read(1);
        call.reply_int(key.set()?.map_or(0, |set| set.count(min, max)));
        Ok(())
    }
}

/// Arguments 2 and 3 as an inclusive range of members.
pub fn range(call: &Call) -> Result<(u64, u64), Error> {
    Ok((call.unsigned(2)?, call.unsigned(3)?))
}
