//! `RBM.INFO`: returns the encoding and size of a set.

use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};
use crate::types::data_type::DataType;

/// `RBM.INFO key`
pub struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"rbm.info",
        flags: c"readonly fast",
        categories: c"rbm read fast",
        arity: 2,
        keys: &[KeySpec::reads_metadata(1)],
        summary: c"Returns the encoding, cardinality and memory of a set",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0)],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let key = keys.read(1);
        let Some(set) = key.set()? else {
            call.reply_null();
            return Ok(());
        };
        call.reply_map(3);
        call.reply_bytes(b"encoding");
        call.reply_bytes(set.encoding().as_bytes());
        call.reply_bytes(b"cardinality");
        call.reply_int(set.len());
        call.reply_bytes(b"bytes");
        call.reply_int(set.bytes() as u64);
        Ok(())
    }
}
