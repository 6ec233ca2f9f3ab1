//! `CTAB.CARD`: returns the number of rows.

use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CTAB.CARD key`
pub struct Card;

impl Command for Card {
    const SPEC: Spec = Spec {
        name: c"ctab.card",
        flags: c"readonly fast",
        categories: c"countint read fast",
        arity: 2,
        keys: &[KeySpec::reads_metadata(1)],
        summary: c"Returns the number of rows of a table",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0)],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let key = keys.read(1);
        call.reply_int(key.table()?.map_or(0, |object| object.table().rows()));
        Ok(())
    }
}
