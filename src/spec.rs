//! What a command is to the server: its name, flags, keys and documentation. Plain constants; `registry` hands them
//! over.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::call::{Call, Outcome};
use crate::keyspace::Keyspace;

/// A command of the module: its description and its code.
pub trait Command {
    /// The description.
    const SPEC: Spec;

    /// Whether the keys' positions vary: the flag `getkeys-api`, with which the server asks [`Command::keys`].
    const MOVING_KEYS: bool = false;

    /// Names the keys of a call, of any number of arguments, with [`Call::tell_key`].
    fn keys(_call: &Call) {}

    /// The code. All checks come before the first change, and the reply comes last.
    fn run(call: &Call, keys: &mut Keyspace) -> Outcome;
}

/// The description of a command.
pub struct Spec {
    /// The name, lower-case; also that of the keyspace event.
    pub name: &'static CStr,
    /// The server's flags: `readonly` or `write`, `deny-oom` where memory can grow, `fast` where it is O(1).
    pub flags: &'static CStr,
    /// The ACL categories, for servers that take them.
    pub categories: &'static CStr,
    /// The number of arguments, the name included; -n for at least n.
    pub arity: c_int,
    /// Where the keys are.
    pub keys: &'static [KeySpec],
    /// One line.
    pub summary: &'static CStr,
    /// In terms of the arguments.
    pub complexity: &'static CStr,
    /// The module's version that brought the command.
    pub since: &'static CStr,
    /// The arguments.
    pub args: &'static [Arg],
}

/// A range of keys and what the command does with them.
pub struct KeySpec {
    /// The position of the first one, or where to begin to look for the keyword before it.
    pub first: c_int,
    /// The word that stands before the first one, where its position varies.
    pub keyword: Option<&'static CStr>,
    /// How far the last one is from the first; -1 where the keys go on to the last argument.
    pub last: c_int,
    /// `REDISMODULE_CMD_KEY_*`.
    pub flags: u32,
}

impl KeySpec {
    const fn new(first: c_int, flags: u32) -> Self {
        KeySpec {
            first,
            keyword: None,
            last: 0,
            flags,
        }
    }

    /// Keys that are read, the last one `last` after the first.
    pub const fn reads(first: c_int, last: c_int) -> Self {
        let flags = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
        KeySpec {
            last,
            ..KeySpec::new(first, flags)
        }
    }

    /// One key of which only metadata (a length, a cardinality) is told.
    pub const fn looks_at(first: c_int) -> Self {
        KeySpec::new(first, raw::REDISMODULE_CMD_KEY_RO)
    }

    /// One key that is read and changed.
    pub const fn updates(first: c_int, access: bool) -> Self {
        let told = if access {
            raw::REDISMODULE_CMD_KEY_ACCESS
        } else {
            0
        };
        KeySpec::new(
            first,
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE | told,
        )
    }

    /// One key that data is added to.
    pub const fn inserts(first: c_int) -> Self {
        KeySpec::new(
            first,
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
        )
    }

    /// One key that data is taken from.
    pub const fn deletes(first: c_int) -> Self {
        KeySpec::new(
            first,
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
        )
    }

    /// One key whose value is replaced whatever it was.
    pub const fn overwrites(first: c_int) -> Self {
        KeySpec::new(
            first,
            raw::REDISMODULE_CMD_KEY_OW | raw::REDISMODULE_CMD_KEY_UPDATE,
        )
    }

    /// The key after a keyword, if the call has it. Where a user's data may look like the keyword, the specification
    /// cannot be exact: together with [`KeySpec::incomplete`] it makes clients and server ask the command itself.
    pub const fn after(self, keyword: &'static CStr) -> Self {
        KeySpec {
            keyword: Some(keyword),
            ..self
        }
    }

    /// Not the whole truth; `COMMAND GETKEYS` tells that.
    pub const fn incomplete(self) -> Self {
        KeySpec {
            flags: self.flags | raw::REDISMODULE_CMD_KEY_INCOMPLETE,
            ..self
        }
    }
}

/// An argument, as COMMAND DOCS tells it.
pub struct Arg {
    /// Its name.
    pub name: &'static CStr,
    /// Its kind.
    pub kind: Kind,
    /// The word that stands before it (or, for [`Kind::Word`], that it is).
    pub token: Option<&'static CStr>,
    /// `REDISMODULE_CMD_ARG_*`.
    pub flags: u32,
}

/// The kind of an argument.
pub enum Kind {
    /// A key, of the key specification with this index.
    Key(c_int),
    /// Any string.
    Text,
    /// A decimal integer.
    Integer,
    /// A word that stands for itself.
    Word,
    /// One of these.
    OneOf(&'static [Arg]),
    /// These, one after the other.
    Block(&'static [Arg]),
}

impl Arg {
    const fn new(name: &'static CStr, kind: Kind) -> Self {
        Arg {
            name,
            kind,
            token: None,
            flags: raw::REDISMODULE_CMD_ARG_NONE,
        }
    }

    /// A key of key specification `spec`.
    pub const fn key(name: &'static CStr, spec: c_int) -> Self {
        Arg::new(name, Kind::Key(spec))
    }

    /// Any string.
    pub const fn text(name: &'static CStr) -> Self {
        Arg::new(name, Kind::Text)
    }

    /// A decimal integer.
    pub const fn int(name: &'static CStr) -> Self {
        Arg::new(name, Kind::Integer)
    }

    /// A word that stands for itself.
    pub const fn word(name: &'static CStr, word: &'static CStr) -> Self {
        Arg {
            token: Some(word),
            ..Arg::new(name, Kind::Word)
        }
    }

    /// One of `choices`.
    pub const fn one_of(name: &'static CStr, choices: &'static [Arg]) -> Self {
        Arg::new(name, Kind::OneOf(choices))
    }

    /// All of `parts`, in order.
    pub const fn block(name: &'static CStr, parts: &'static [Arg]) -> Self {
        Arg::new(name, Kind::Block(parts))
    }

    /// With a word before it.
    pub const fn after(self, token: &'static CStr) -> Self {
        Arg {
            token: Some(token),
            ..self
        }
    }

    /// It may be left out.
    pub const fn optional(self) -> Self {
        Arg {
            flags: self.flags | raw::REDISMODULE_CMD_ARG_OPTIONAL,
            ..self
        }
    }

    /// It may stand several times.
    pub const fn multiple(self) -> Self {
        Arg {
            flags: self.flags | raw::REDISMODULE_CMD_ARG_MULTIPLE,
            ..self
        }
    }
}

/// `[LEN n]`
pub const LEN: Arg = Arg::int(c"len").after(c"LEN").optional();
/// `[OVERFLOW SAT|FAIL]`
pub const OVERFLOW: Arg = Arg::one_of(
    c"overflow",
    &[Arg::word(c"sat", c"SAT"), Arg::word(c"fail", c"FAIL")],
)
.after(c"OVERFLOW")
.optional();
