//! `RBM.REM`: removes members.

use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};

/// `RBM.REM key member [member ...]`
pub struct Rem;

impl Command for Rem {
    const SPEC: Spec = Spec {
        name: c"rbm.rem",
        flags: c"write fast",
        categories: c"rbm write fast",
        arity: -3,
        keys: &[KeySpec::deletes(1)],
        summary: c"Removes members from a set and returns how many were removed",
        complexity: c"O(log N) for each member removed, where N is the cardinality of the set",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"member").multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let members = call.ids(2)?;
        let mut key = keys.write(1);
        let Some(mut set) = key.set_mut()? else {
            call.reply_int(0);
            return Ok(());
        };
        call.begin_effects();
        let removed =
            set.change(|set| members.iter().filter(|&&member| set.remove(member)).count());
        let emptied = set.is_empty();
        if emptied {
            let mut deleted = key.delete(Replicate::Verbatim);
            deleted.publish(Self::SPEC.name);
            deleted.publish_del();
        } else if removed > 0 {
            key.changed(Replicate::Verbatim).publish(Self::SPEC.name);
        }
        call.reply_int(removed as u64);
        Ok(())
    }
}
