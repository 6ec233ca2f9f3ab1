//! `RBM.MARK` and `RBM.UNMARK`: change a set, a counter and a stream in one atomic step. `RBM.MMARK` and `RBM.MUNMARK` do so for
//! several members, with one event.
//!
//! All keys, types and indexes are checked first, whether or not the members are new. Then the stream entry is appended,
//! which can fail, and then the set and the counter change, which cannot fail. The effects are replicated as one
//! transaction, with the ID of the entry.

mod counter;
mod layout;
mod operation;

use std::ffi::CStr;

use self::layout::Layout;
use self::operation::Variant;
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

/// The arguments of MARK and UNMARK.
const ONE: &[Arg] = &[Arg::key(c"key", 0), Arg::int(c"member"), COUNT, EVENT];

/// The arguments of MMARK and MUNMARK.
const SEVERAL: &[Arg] = &[
    Arg::key(c"key", 0),
    Arg::int(c"member").multiple(),
    COUNT,
    EVENT,
];

/// The description of MARK or UNMARK.
const fn description(variant: &Variant, flags: &'static CStr, summary: &'static CStr) -> Spec {
    Spec {
        name: variant.event,
        flags,
        categories: c"rbm write fast",
        arity: -3,
        keys: KEYS,
        summary,
        complexity:
            c"O(log N) where N is the cardinality of the set, plus the complexity of XADD for an event",
        since: c"0.1.0",
        args: ONE,
    }
}

/// The description of MMARK or MUNMARK.
const fn description_of_many(
    variant: &Variant,
    flags: &'static CStr,
    summary: &'static CStr,
) -> Spec {
    Spec {
        complexity: c"O(log N) for each member, where N is the cardinality of the set, plus the complexity of XADD for an event",
        args: SEVERAL,
        ..description(variant, flags, summary)
    }
}

const MARK: Variant = Variant {
    add: true,
    many: false,
    event: c"rbm.mark",
};

const UNMARK: Variant = Variant {
    add: false,
    many: false,
    event: c"rbm.unmark",
};

const MMARK: Variant = Variant {
    add: true,
    many: true,
    event: c"rbm.mmark",
};

const MUNMARK: Variant = Variant {
    add: false,
    many: true,
    event: c"rbm.munmark",
};

/// The flags of commands that add.
const ADDS: &CStr = c"write deny-oom fast getkeys-api";

/// The flags of commands that remove. They free memory, so they are not `deny-oom`: at `maxmemory`, only a call that needs
/// more memory fails (see `operation`).
const REMOVES: &CStr = c"write fast getkeys-api";

/// `RBM.MARK key member [COUNT counters-key [ROW id] idx [LEN n] [VERIFY]] [EVENT stream [SEQ] [MAXLEN n] field value ...]`
pub struct Mark;

impl Command for Mark {
    const SPEC: Spec = description(
        &MARK,
        ADDS,
        c"Adds a member to a set and, if it was new, increments a counter and appends an event",
    );

    const MOVABLE_KEYS: bool = true;

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        operation::run(call, keys, &MARK)
    }

    fn keys(call: &Call) {
        report_keys(call, &MARK);
    }
}

/// `RBM.UNMARK key member [COUNT counters-key [ROW id] idx [LEN n] [VERIFY]] [EVENT stream [SEQ] [MAXLEN n] field value ...]`
pub struct Unmark;

impl Command for Unmark {
    const SPEC: Spec = description(
        &UNMARK,
        REMOVES,
        c"Removes a member from a set and, if it was a member, decrements a counter and appends an event",
    );

    const MOVABLE_KEYS: bool = true;

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        operation::run(call, keys, &UNMARK)
    }

    fn keys(call: &Call) {
        report_keys(call, &UNMARK);
    }
}

/// `RBM.MMARK key member [member ...] [COUNT counters-key [ROW id] idx [LEN n] [VERIFY]]
/// [EVENT stream [SEQ] [MAXLEN n] field value ...]`
pub struct MMark;

impl Command for MMark {
    const SPEC: Spec = description_of_many(
        &MMARK,
        ADDS,
        c"Adds members to a set, increments a counter by the number of new ones and appends one event with them",
    );

    const MOVABLE_KEYS: bool = true;

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        operation::run(call, keys, &MMARK)
    }

    fn keys(call: &Call) {
        report_keys(call, &MMARK);
    }
}

/// `RBM.MUNMARK key member [member ...] [COUNT counters-key [ROW id] idx [LEN n] [VERIFY]]
/// [EVENT stream [SEQ] [MAXLEN n] field value ...]`
pub struct MUnmark;

impl Command for MUnmark {
    const SPEC: Spec = description_of_many(
        &MUNMARK,
        REMOVES,
        c"Removes members from a set, decrements a counter by the number removed and appends one event with them",
    );

    const MOVABLE_KEYS: bool = true;

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        operation::run(call, keys, &MUNMARK)
    }

    fn keys(call: &Call) {
        report_keys(call, &MUNMARK);
    }
}

/// Reports the keys of a call. A malformed call has none: it does nothing.
fn report_keys(call: &Call, variant: &Variant) {
    const CHANGED: u32 = KeySpec::updates(0, true).flags;
    // No data of the stream is returned, so a user who may only write to it may append events.
    const APPENDED: u32 = KeySpec::inserts(0).flags;
    if let Ok(layout) = Layout::parse(call, variant.many) {
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
