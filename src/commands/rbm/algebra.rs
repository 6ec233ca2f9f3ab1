//! `RBM.OP` and `RBM.OPCARD`: set operations.

use countint_core::idset::{IdSet, SetOp};

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};
use crate::types::idset;

const OPERATION: Arg = Arg::one_of(
    c"operation",
    &[
        Arg::word(c"and", c"AND"),
        Arg::word(c"or", c"OR"),
        Arg::word(c"xor", c"XOR"),
        Arg::word(c"diff", c"DIFF"),
    ],
);

/// The argument that names the destination.
const DEST: usize = 2;

/// `RBM.OP AND|OR|XOR|DIFF dest key [key ...]`
pub struct Op;

impl Command for Op {
    const SPEC: Spec = Spec {
        name: c"rbm.op",
        flags: c"write deny-oom",
        categories: c"rbm write slow",
        arity: -4,
        keys: &[KeySpec::overwrites(2), KeySpec::reads(3, -1)],
        summary: c"Stores the intersection, union, symmetric difference or difference of sets",
        complexity: c"O(N) where N is the number of members of all sources together",
        since: c"0.1.0",
        args: &[
            OPERATION,
            Arg::key(c"dest", 0),
            Arg::key(c"key", 1).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let operation = operation(call)?;
        // If the destination has expired, its event is published before the sources are read: a hook may change them, and
        // replicas receive this call after what the hook has written.
        drop(keys.write(DEST));
        let result = with_sources(call, keys, 3, |sources| {
            idset::build(|| Ok::<_, Error>(IdSet::combine(operation, sources)))
        })??;
        let cardinality = result.len();
        store(keys, result);
        call.reply_int(cardinality);
        Ok(())
    }
}

/// `RBM.OPCARD AND|OR|XOR|DIFF key [key ...]`
pub struct OpCard;

impl Command for OpCard {
    const SPEC: Spec = Spec {
        name: c"rbm.opcard",
        flags: c"readonly",
        categories: c"rbm read slow",
        arity: -3,
        keys: &[KeySpec::reads(2, -1)],
        summary: c"Returns the cardinality of the intersection, union, symmetric difference or difference of sets",
        complexity: c"O(N) where N is the number of members of all sources together",
        since: c"0.1.0",
        args: &[OPERATION, Arg::key(c"key", 0).multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let operation = operation(call)?;
        let cardinality = with_sources(call, keys, 2, |sources| {
            IdSet::combine_len(operation, sources)
        })?;
        call.reply_int(cardinality);
        Ok(())
    }
}

fn operation(call: &Call) -> Result<SetOp, Error> {
    let words = [
        ("AND", SetOp::And),
        ("OR", SetOp::Or),
        ("XOR", SetOp::Xor),
        ("DIFF", SetOp::Diff),
    ];
    words
        .iter()
        .find(|(word, _)| call.is(1, word))
        .map(|&(_, operation)| operation)
        .ok_or(Error::Syntax)
}

/// Runs `work` on the sets at the keys from argument `first` on; a missing one is empty.
fn with_sources<R>(
    call: &Call,
    keys: &mut Keyspace,
    first: usize,
    work: impl FnOnce(&[&IdSet]) -> R,
) -> Result<R, Error> {
    let empty = IdSet::new();
    let values = keys.values(first..call.len());
    let held = (0..values.len())
        .map(|n| values.set(n))
        .collect::<Result<Vec<_>, Error>>()?;
    let sources: Vec<&IdSet> = held
        .iter()
        .map(|set| set.as_deref().unwrap_or(&empty))
        .collect();
    Ok(work(&sources))
}

/// Stores the result at the destination; an empty result deletes it.
fn store(keys: &mut Keyspace, result: IdSet) {
    let dest = keys.write(DEST);
    if result.is_empty() {
        if !dest.is_missing() {
            dest.delete(Replicate::Verbatim).publish_del();
        }
        return;
    }
    let same = matches!(dest.set(), Ok(Some(held)) if *held == result) && dest.expiry().is_none();
    if !same {
        dest.store(result, Replicate::Verbatim)
            .publish(Op::SPEC.name);
    }
}
