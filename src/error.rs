//! What a command can answer instead of a result.

use std::ffi::CStr;

use countint_core::countint::CountError;
use countint_core::counttab::ImportError;
use countint_core::idset::SetError;

/// Why a command did nothing. The texts are part of the contract: clients compare them, and none echoes user input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The number of arguments fits no form of the command.
    Arity,
    /// The key holds another type.
    WrongType,
    /// An unknown, repeated or incomplete option.
    Syntax,
    /// An argument is no canonical decimal in its range.
    NotAnInteger,
    /// A length outside 1 ..= 65535.
    Length,
    /// An idx outside the object.
    IndexOutOfRange,
    /// `OVERFLOW FAIL` and a result outside 0 ..= 2^40-1.
    Overflow,
    /// The key to be created is there already.
    KeyExists,
    /// The key to be worked on is missing, and nothing says how to create it.
    NoSuchKey,
    /// Shrinking would drop a count.
    FieldNotZero,
    /// Bytes that are not what the command takes.
    Payload,
    /// A cursor that no scan gave.
    Cursor,
    /// The reply would be longer than a bulk string may be.
    ReplyTooLong,
    /// Keys of one call that must not be the same.
    SameKeys,
    /// Rows of another length than the table's.
    LengthsDiffer,
    /// Rows of a table that has seen another part of its logs.
    FencesDiffer,
    /// A row that is to be added is there already.
    IdExists,
    /// The server would not run a command for us, and did not say why.
    Refused,
    /// The allocator has no more memory.
    OutOfMemory,
    /// The server holds more than `maxmemory`, and this call would add to it.
    MemoryFull,
}

impl Error {
    /// The reply's text. [`Error::Arity`] has none: the server words it, with the command's name.
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
            Error::SameKeys => c"ERR keys must differ",
            Error::LengthsDiffer => c"ERR lengths differ",
            Error::FencesDiffer => c"ERR fences differ",
            Error::IdExists => c"ERR id already exists",
            Error::Refused => c"ERR the server refused a part of the command",
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
