//! `RBM.CARD`: returns the cardinality.

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
