//! The content of a key: its type and, for a module type, the pointer to the value.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw;

use super::api::api;
use crate::error::Error;

/// The server's handle of a registered data type.
pub struct TypeHandle(AtomicPtr<raw::RedisModuleType>);

impl TypeHandle {
    /// A handle that is null until [`TypeHandle::set`].
    #[allow(clippy::new_without_default, reason = "handles are statics")]
    pub const fn new() -> Self {
        TypeHandle(AtomicPtr::new(ptr::null_mut()))
    }

    /// Stores the handle of the type.
    ///
    /// # Safety
    /// The server has returned `handle` when the type was registered.
    pub unsafe fn set(&self, handle: *mut raw::RedisModuleType) {
        self.0.store(handle, Relaxed);
    }

    /// The server's handle.
    #[inline]
    pub(super) fn get(&self) -> *mut raw::RedisModuleType {
        self.0.load(Relaxed)
    }
}

/// The type of a key. Types of the server that the module does not use are `Other`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyType {
    /// The key does not exist.
    Missing,
    /// A String.
    String,
    /// A Hash.
    Hash,
    /// A Set.
    Set,
    /// A Stream.
    Stream,
    /// A module type, of this module or another.
    Module,
    /// Another type of the server.
    Other,
}

/// The content of a key.
#[derive(Clone, Copy)]
pub enum KeyContent {
    /// Not read yet.
    Unread,
    /// The key does not exist.
    Missing,
    /// A value of a module type.
    Module {
        /// The server's handle of the type.
        handle: *mut raw::RedisModuleType,
        /// The module's pointer to the value.
        value: *mut u8,
    },
    /// A value of one of the server's types.
    Foreign(KeyType),
}

impl KeyContent {
    /// Reads the content of an open key. A missing key that was opened for reading is null.
    ///
    /// # Safety
    /// `key` is null or the handle of an open key.
    #[inline]
    pub(super) unsafe fn of(key: *mut raw::RedisModuleKey) -> KeyContent {
        let handle = api!(RedisModule_ModuleTypeGetType(key));
        if !handle.is_null() {
            let value = api!(RedisModule_ModuleTypeGetValue(key)).cast();
            return KeyContent::Module { handle, value };
        }
        match api!(RedisModule_KeyType(key)) as isize {
            raw::REDISMODULE_KEYTYPE_EMPTY => KeyContent::Missing,
            raw::REDISMODULE_KEYTYPE_STRING => KeyContent::Foreign(KeyType::String),
            raw::REDISMODULE_KEYTYPE_HASH => KeyContent::Foreign(KeyType::Hash),
            raw::REDISMODULE_KEYTYPE_SET => KeyContent::Foreign(KeyType::Set),
            raw::REDISMODULE_KEYTYPE_STREAM => KeyContent::Foreign(KeyType::Stream),
            _ => KeyContent::Foreign(KeyType::Other),
        }
    }

    /// Whether the key does not exist.
    #[inline]
    pub fn is_missing(self) -> bool {
        matches!(self, KeyContent::Missing)
    }

    /// The type.
    pub fn key_type(self) -> KeyType {
        match self {
            KeyContent::Missing => KeyType::Missing,
            KeyContent::Module { .. } => KeyType::Module,
            KeyContent::Foreign(kind) => kind,
            KeyContent::Unread => KeyType::Other,
        }
    }

    /// The pointer to the value of the type `expected`; None if the key is missing.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds another type.
    #[inline]
    pub fn value(self, expected: &TypeHandle) -> Result<Option<NonNull<u8>>, Error> {
        match self {
            KeyContent::Module { handle, value } if handle == expected.get() => {
                Ok(NonNull::new(value))
            }
            KeyContent::Missing => Ok(None),
            _ => Err(Error::WrongType),
        }
    }
}
