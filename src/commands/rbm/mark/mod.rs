//! `RBM.MARK` and `RBM.UNMARK`: a fact, its count and its event as one step.
//!
//! All keys, types and indexes are checked first, whether or not the member is new. Then comes the stream entry, which
//! can still fail, then the set and the counter, which cannot. What is replicated are the effects: the server wraps
//! them in one transaction, and the entry carries its id.

mod counter;
mod layout;
mod step;
mod xadd;

use std::ffi::CStr;

use redis_module::raw;

use self::layout::Layout;
use crate::call::{Call, Outcome};
use crate::keyspace::Keyspace;
use crate::spec::{self, Arg, Command, KeySpec, Spec};

const KEYS: &[KeySpec] = &[
    KeySpec::updates(Layout::SET as i32, true).incomplete(),
    KeySpec::updates(OPTIONS, true).after(c"COUNT").incomplete(),
    KeySpec::inserts(OPTIONS).after(c"EVENT").incomplete(),
];

/// Where the options begin.
const OPTIONS: i32 = Layout::MEMBER as i32 + 1;

const COUNT: Arg = Arg::block(
    c"count",
    &[
        Arg::key(c"counters-key", 1),
        Arg::block(c"row", &[Arg::int(c"id")])
            .after(c"ROW")
            .optional(),
        Arg::int(c"idx"),
        spec::LEN,
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
            c"O(log N) where N is the cardinality of the set, plus that of XADD for an event",
        since: c"0.1.0",
        args: ARGS,
    }
}

/// `RBM.MARK key member [COUNT counters-key [ROW id] idx [LEN n]] [EVENT stream [SEQ] [MAXLEN n] field value ...]`
pub struct Mark;

impl Command for Mark {
    const SPEC: Spec = description(
        c"rbm.mark",
        c"write deny-oom fast getkeys-api",
        c"Adds a member to a set and, if it was new, counts it and appends an event",
    );

    const MOVING_KEYS: bool = true;

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        step::run(call, keys, true, Self::SPEC.name)
    }

    fn keys(call: &Call) {
        tell_keys(call);
    }
}

/// `RBM.UNMARK key member [COUNT counters-key [ROW id] idx [LEN n]] [EVENT stream [SEQ] [MAXLEN n] field value ...]`
pub struct Unmark;

impl Command for Unmark {
    // Taking back a fact frees memory, so only its event is refused when memory is full (see `step`).
    const SPEC: Spec = description(
        c"rbm.unmark",
        c"write fast getkeys-api",
        c"Removes a member from a set and, if it was there, takes it off a counter and appends an event",
    );

    const MOVING_KEYS: bool = true;

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        step::run(call, keys, false, Self::SPEC.name)
    }

    fn keys(call: &Call) {
        tell_keys(call);
    }
}

/// Answers the server's question for the keys. A malformed call has none: it will do nothing.
fn tell_keys(call: &Call) {
    const CHANGED: u32 = raw::REDISMODULE_CMD_KEY_RW
        | raw::REDISMODULE_CMD_KEY_ACCESS
        | raw::REDISMODULE_CMD_KEY_UPDATE;
    // Nothing of what the stream holds is told: who may only write to it may have events appended.
    const APPENDED: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT;
    if let Ok(layout) = Layout::parse(call) {
        let stream = layout.event.as_ref().map(|event| event.stream);
        for at in layout.keys() {
            let flags = if Some(at) == stream {
                APPENDED
            } else {
                CHANGED
            };
            call.tell_key(at, flags);
        }
    }
}
