//! The description of a command: name, flags, keys and documentation. Plain constants, which `register` passes to the
//! server.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::call::{Call, Outcome};
use super::keyspace::Keyspace;

/// A command of the module: its description and its code.
pub trait Command {
    /// The description.
    const SPEC: Spec;

    /// Whether the positions of the keys vary. With the flag `getkeys-api`, the server calls [`Command::keys`].
    const MOVABLE_KEYS: bool = false;

    /// Reports the keys of a call with [`Call::report_key`]. The call may have any number of arguments.
    fn keys(_call: &Call) {}

    /// Runs the command. All checks come before the first change, and the reply comes last.
    fn run(call: &Call, keys: &mut Keyspace) -> Outcome;
}

/// The description of a command.
pub struct Spec {
    /// The name in lower case; also the keyspace event.
    pub name: &'static CStr,
    /// The server's flags: `readonly` or `write`, `deny-oom` if memory can grow, `fast` if it is O(1) or O(log N).
    pub flags: &'static CStr,
    /// The ACL categories, for servers with categories for modules.
    pub categories: &'static CStr,
    /// The number of arguments, including the name; -n for at least n.
    pub arity: c_int,
    /// The positions of the keys.
    pub keys: &'static [KeySpec],
    /// One line, without a full stop.
    pub summary: &'static CStr,
    /// The time complexity, such as `O(1)`.
    pub complexity: &'static CStr,
    /// The version of the module that added the command.
    pub since: &'static CStr,
    /// The arguments.
    pub args: &'static [Arg],
}

/// A range of keys, and how the command uses them.
pub struct KeySpec {
    /// The position of the first key, or where the search for the keyword starts.
    pub first: c_int,
    /// The keyword before the first key, if its position varies.
    pub keyword: Option<&'static CStr>,
    /// The distance of the last key from the first; -1 if the keys extend to the last argument.
    pub last: c_int,
    /// The distance between keys.
    pub step: c_int,
    /// `REDISMODULE_CMD_KEY_*`.
    pub flags: u32,
}

impl KeySpec {
    const fn new(first: c_int, flags: u32) -> Self {
        KeySpec {
            first,
            keyword: None,
            last: 0,
            step: 1,
            flags,
        }
    }

    /// Keys that are read; the last is `last` arguments after the first.
    pub const fn reads(first: c_int, last: c_int) -> Self {
        let flags = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
        KeySpec {
            last,
            ..KeySpec::new(first, flags)
        }
    }

    /// A key of which only metadata, such as a length or cardinality, is returned.
    pub const fn reads_metadata(first: c_int) -> Self {
        KeySpec::new(first, raw::REDISMODULE_CMD_KEY_RO)
    }

    /// Keys of which only metadata is returned, from this one to the last argument.
    pub const fn reads_metadata_of_all(first: c_int) -> Self {
        KeySpec {
            last: -1,
            ..KeySpec::reads_metadata(first)
        }
    }

    /// A key whose value is changed, and returned if `access`.
    pub const fn updates(first: c_int, access: bool) -> Self {
        let returned = if access {
            raw::REDISMODULE_CMD_KEY_ACCESS
        } else {
            0
        };
        KeySpec::new(
            first,
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE | returned,
        )
    }

    /// A key to which data is added.
    pub const fn inserts(first: c_int) -> Self {
        KeySpec::new(
            first,
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
        )
    }

    /// A key from which data is deleted.
    pub const fn deletes(first: c_int) -> Self {
        KeySpec::new(
            first,
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
        )
    }

    /// A key whose value is overwritten.
    pub const fn overwrites(first: c_int) -> Self {
        KeySpec::new(
            first,
            raw::REDISMODULE_CMD_KEY_OW | raw::REDISMODULE_CMD_KEY_UPDATE,
        )
    }

    /// The key after an optional keyword. If data of the user can equal the keyword, the specification is also
    /// [`KeySpec::incomplete`], so that clients and the server ask the command itself.
    pub const fn after(self, keyword: &'static CStr) -> Self {
        KeySpec {
            keyword: Some(keyword),
            ..self
        }
    }

    /// Every `step`th argument is a key.
    pub const fn every(self, step: c_int) -> Self {
        KeySpec { step, ..self }
    }

    /// A specification that may miss keys; `COMMAND GETKEYS` is exact.
    pub const fn incomplete(self) -> Self {
        KeySpec {
            flags: self.flags | raw::REDISMODULE_CMD_KEY_INCOMPLETE,
            ..self
        }
    }
}

/// An argument, as in `COMMAND DOCS`.
pub struct Arg {
    /// Its name.
    pub name: &'static CStr,
    /// Its kind.
    pub kind: Kind,
    /// The keyword before the argument, or for [`Kind::Word`] the argument itself.
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
    /// A keyword.
    Word,
    /// One of several arguments.
    OneOf(&'static [Arg]),
    /// Several arguments in order.
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

    /// A key of the key specification with index `spec`.
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

    /// A keyword.
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

    /// Adds a keyword before the argument.
    pub const fn after(self, token: &'static CStr) -> Self {
        Arg {
            token: Some(token),
            ..self
        }
    }

    /// The argument is optional.
    pub const fn optional(self) -> Self {
        Arg {
            flags: self.flags | raw::REDISMODULE_CMD_ARG_OPTIONAL,
            ..self
        }
    }

    /// The argument may be repeated.
    pub const fn multiple(self) -> Self {
        Arg {
            flags: self.flags | raw::REDISMODULE_CMD_ARG_MULTIPLE,
            ..self
        }
    }
}
