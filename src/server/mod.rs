//! The server's module API, and nothing else: this layer knows no command and no data type of the module.
//!
//! Commands and types reach the server through what this layer offers: a call and its reply, keys and what they hold,
//! replication, keyspace events, RDB and AOF files, memory.

pub mod alloc;
pub mod aof;
pub mod api;
pub mod call;
pub mod content;
pub mod defrag;
pub mod digest;
pub mod dispatch;
pub mod foreign;
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
