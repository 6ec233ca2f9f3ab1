//! The server's module API. This layer is independent of the module's commands and data types.
//!
//! It offers calls and replies, keys and their contents, replication, keyspace events, RDB and AOF files, and memory.

pub mod alloc;
pub mod aof;
pub mod api;
pub mod builtin_types;
pub mod call;
pub mod content;
pub mod defrag;
pub mod digest;
pub mod dispatch;
pub mod guard;
pub mod info;
pub mod key;
pub mod keyspace;
pub mod log;
pub mod notify;
pub mod rdb;
pub mod register;
pub mod replicate;
pub mod reply;
pub mod setting;
pub mod spec;
pub mod stream;
pub mod string;
pub mod values;

pub use call::{Call, Outcome};
pub use content::KeyType;
pub use key::{Key, KeyMut};
pub use keyspace::Keyspace;
pub use replicate::Replicate;
pub use spec::{Arg, Command, KeySpec, Spec};
pub use values::Values;
