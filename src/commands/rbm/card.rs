//! `RBM.CARD` and `RBM.MCARD`: return cardinalities.

use crate::commands::shared::buffers;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `RBM.CARD key`
pub struct Card;

impl Command for Card {
    const SPEC: Spec = Spec {
        name: c"rbm.card",
        flags: c"readonly fast",
        categories: c"rbm read fast",
        arity: 2,
        keys: &[KeySpec::reads_metadata(1)],
        summary: c"Returns the cardinality of a set",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0)],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let key = keys.read(1);
        call.reply_int(key.set()?.map_or(0, |set| set.len()));
        Ok(())
    }
}

/// `RBM.MCARD key [key ...]`
pub struct MCard;

impl Command for MCard {
    const SPEC: Spec = Spec {
        name: c"rbm.mcard",
        flags: c"readonly fast",
        categories: c"rbm read fast",
        arity: -2,
        keys: &[KeySpec::reads_metadata_of_all(1)],
        summary: c"Returns the cardinality of each of several sets",
        complexity: c"O(K) where K is the number of keys",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0).multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let mut cards = buffers::values(call.len() - 1)?;
        // All keys are looked up before any set is read: a hook may change a set while keys are opened.
        let values = keys.values(1..call.len());
        for n in 0..values.len() {
            cards.push(values.set(n)?.map_or(0, |set| set.len()));
        }
        call.reply_ints(cards.iter().copied());
        Ok(())
    }
}
