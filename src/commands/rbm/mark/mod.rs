//! `RBM.MARK` and `RBM.UNMARK`: change a set, a counter and a stream in one atomic step.
//!
//! All keys, types and indexes are checked first, whether or not the member is new. Then the stream entry is appended,
//! which can fail, and then the set and the counter change, which cannot fail. The effects are replicated as one
//! transaction, with the ID of the entry.

mod counter;
mod layout;
mod operation;

use std::ffi::CStr;

use self::layout::Layout;
use crate::commands::shared::options::LEN;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

const KEYS: &[KeySpec] = &[
    KeySpec::updates(Layout::SET as i32, true).incomplete(),
    KeySpec::updates(OPTIONS, true).after(c"COUNT").incomplete(),
    KeySpec::inserts(OPTIONS).after(c"EVENT").incomplete(),
];

/// The first option.
const OPTIONS: i32 = Layout::MEMBER as i32 + 1;

const COUNT: Arg = Arg::block(
    c"count",
    &[
        Arg::key(c"counters-key", 1),
        Arg::block(c"row", &[Arg::int(c"id")])
            .after(c"ROW")
            .optional(),
        Arg::int(c"idx"),
        LEN,
        Arg::word(c"verify", c"VERIFY").optional(),
    ],
)
.after(c"COUNT")
.optional();

const EVENT: Arg = Arg::block(
    c"event",
    &[
        Arg::key(c"stream", 2),
        Arg::word(c"seq", c"SEQ").optional(),
        Arg::int(c"maxlen").after(c"MAXLEN").optional(),
        Arg::block(c"data", &[Arg::text(c"field"), Arg::text(c"value")]).multiple(),
    ],
)
.after(c"EVENT")
.optional();

const ARGS: &[Arg] = &[Arg::key(c"key", 0), Arg::int(c"member"), COUNT, EVENT];

const fn description(name: &'static CStr, flags: &'static CStr, summary: &'static CStr) -> Spec {
    Spec {
        name,
        flags,
        categories: c"rbm write fast",
        arity: -3,
        keys: KEYS,
        summary,
        complexity:
            c"O(log N) where N is the cardinality of the set, plus the complexity of XADD for an event",
        since: c"0.1.0",
        args: ARGS,
    }
}

/// `RBM.MARK key member [COUNT counters-key [ROW id] idx [LEN n] [VERIFY]] [EVENT stream [SEQ] [MAXLEN n] field value ...]`
pub struct Mark;

impl Command for Mark {
    const SPEC: Spec = description(
        c"rbm.mark",
        c"write deny-oom fast getkeys-api",
        c"Adds a member to a set and, if it was new, increments a counter and appends an event",
    );

    const MOVABLE_KEYS: bool = true;

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        operation::run(call, keys, true, Self::SPEC.name)
    }

    fn keys(call: &Call) {
        report_keys(call);
    }
}

/// `RBM.UNMARK key member [COUNT counters-key [ROW id] idx [LEN n] [VERIFY]] [EVENT stream [SEQ] [MAXLEN n] field value ...]`
pub struct Unmark;

impl Command for Unmark {
    // UNMARK frees memory, so it is not `deny-oom`: at `maxmemory`, only an UNMARK that needs more memory fails (see
    // `operation`).
    const SPEC: Spec = description(
        c"rbm.unmark",
        c"write fast getkeys-api",
        c"Removes a member from a set and, if it was a member, decrements a counter and appends an event",
    );

    const MOVABLE_KEYS: bool = true;

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        operation::run(call, keys, false, Self::SPEC.name)
    }

    fn keys(call: &Call) {
        report_keys(call);
    }
}

/// Reports the keys of a call. A malformed call has none: it does nothing.
fn report_keys(call: &Call) {
    const CHANGED: u32 = KeySpec::updates(0, true).flags;
    // No data of the stream is returned, so a user who may only write to it may append events.
    const APPENDED: u32 = KeySpec::inserts(0).flags;
    if let Ok(layout) = Layout::parse(call) {
        let stream = layout.event.as_ref().map(|event| event.stream);
        for at in layout.keys() {
            let flags = if Some(at) == stream {
                APPENDED
            } else {
                CHANGED
            };
            call.report_key(at, flags);
        }
    }
}
