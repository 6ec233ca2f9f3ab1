//! The errors of commands.

use std::ffi::CStr;

use countint_core::countint::CountError;
use countint_core::counttab::ImportError;
use countint_core::idset::SetError;

/// The error of a command, which has changed nothing. The texts are part of the API: clients compare them. No text
/// contains user input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The number of arguments is wrong.
    Arity,
    /// The key holds another type.
    WrongType,
    /// An unknown, repeated or incomplete option.
    Syntax,
    /// An argument is not a canonical decimal in its range.
    NotAnInteger,
    /// A length outside 1 ..= 65535.
    Length,
    /// An idx outside the object.
    IndexOutOfRange,
    /// `OVERFLOW FAIL` and a result outside 0 ..= 2^40-1.
    Overflow,
    /// The key to create exists already.
    KeyExists,
    /// The key is missing, and the command does not create it.
    NoSuchKey,
    /// A counter that would be dropped is not 0.
    FieldNotZero,
    /// A payload in a wrong format.
    Payload,
    /// An invalid cursor.
    Cursor,
    /// The reply would exceed the maximum length of a bulk string.
    ReplyTooLong,
    /// `VERIFY`, and a counter of 0 of a set that is not empty.
    NoCounter,
    /// Two keys that must differ are equal.
    SameKeys,
    /// The imported rows have another length than the table's.
    LengthsDiffer,
    /// The imported fences differ from the table's.
    FencesDiffer,
    /// An imported row exists already.
    IdExists,
    /// The server refused an inner command without an error message.
    Refused,
    /// A keyspace hook of another module changes the members of a mark each time that its entry is appended.
    Interference,
    /// An allocation failed.
    OutOfMemory,
    /// The server uses more than `maxmemory`, and the command would need more.
    MemoryFull,
}

impl Error {
    /// The text of the reply. The server replaces that of [`Error::Arity`] by one with the command's name.
    pub fn message(self) -> &'static CStr {
        match self {
            Error::Arity => c"ERR wrong number of arguments",
            Error::WrongType => {
                c"WRONGTYPE Operation against a key holding the wrong kind of value"
            }
            Error::Syntax => c"ERR syntax error",
            Error::NotAnInteger => c"ERR value is not an integer or out of range",
            Error::Length => c"ERR length must be between 1 and 65535",
            Error::IndexOutOfRange => c"ERR index out of range",
            Error::Overflow => c"ERR increment would overflow",
            Error::KeyExists => c"ERR key already exists",
            Error::NoSuchKey => c"ERR no such key",
            Error::FieldNotZero => c"ERR field is not zero",
            Error::Payload => c"ERR invalid payload",
            Error::Cursor => c"ERR invalid cursor",
            Error::ReplyTooLong => c"ERR string exceeds maximum allowed size (512MB)",
            Error::NoCounter => c"NOCOUNTER the counter is 0 although the set has members",
            Error::SameKeys => c"ERR keys must differ",
            Error::LengthsDiffer => c"ERR lengths differ",
            Error::FencesDiffer => c"ERR fences differ",
            Error::IdExists => c"ERR id already exists",
            Error::Refused => c"ERR the server refused a part of the command",
            Error::Interference => {
                c"ERR a keyspace hook of another module keeps changing the members"
            }
            Error::OutOfMemory => c"OOM the allocator has no more memory",
            Error::MemoryFull => c"OOM command not allowed when used memory > 'maxmemory'.",
        }
    }
}

impl From<CountError> for Error {
    fn from(error: CountError) -> Self {
        match error {
            CountError::IndexOutOfRange => Error::IndexOutOfRange,
            CountError::ValueOutOfRange => Error::NotAnInteger,
            CountError::Overflow => Error::Overflow,
            CountError::Length => Error::Length,
            CountError::FieldNotZero => Error::FieldNotZero,
            CountError::Payload => Error::Payload,
            CountError::OutOfMemory => Error::OutOfMemory,
        }
    }
}

impl From<SetError> for Error {
    fn from(error: SetError) -> Self {
        match error {
            SetError::Payload => Error::Payload,
            SetError::OutOfMemory => Error::OutOfMemory,
        }
    }
}

impl From<ImportError> for Error {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Payload => Error::Payload,
            ImportError::OutOfMemory => Error::OutOfMemory,
            ImportError::Length => Error::LengthsDiffer,
            ImportError::Fences => Error::FencesDiffer,
            ImportError::Exists => Error::IdExists,
        }
    }
}
