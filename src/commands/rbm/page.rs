//! `RBM.PAGE`: whether an id is a member of each of several sets.

use crate::commands::shared::buffers;
use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// The position of the first key.
const FIRST: usize = 2;

/// `RBM.PAGE member key [key ...]`
pub struct Page;

impl Command for Page {
    const SPEC: Spec = Spec {
        name: c"rbm.page",
        flags: c"readonly",
        categories: c"rbm read slow",
        arity: -3,
        keys: &[KeySpec::reads(FIRST as _, -1)],
        summary: c"Returns for each of several sets whether it has an id, as one string of the digits 0 and 1",
        complexity: c"O(K*log N) where K is the number of keys and N the cardinality of a set",
        since: c"0.1.0",
        args: &[Arg::int(c"member"), Arg::key(c"key", 0).multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let member = call.unsigned(1)?;
        let mut page = buffers::bytes();
        let count = call.len() - FIRST;
        page.try_reserve(count).map_err(|_| Error::OutOfMemory)?;
        // All keys are looked up before any set is read: a hook may change a set while keys are opened.
        let values = keys.values(FIRST..call.len());
        for n in 0..values.len() {
            let found = values.set(n)?.is_some_and(|set| set.contains(member));
            page.push(b'0' + u8::from(found));
        }
        call.reply_bytes(&page);
        Ok(())
    }
}
