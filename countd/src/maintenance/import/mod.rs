//! `countd import`: facts, counts and authors from files, and facts and counts from the keys of a live Redis.
//!
//! An import has a name, under which its state is stored. A run with the same name continues where an earlier one ended. Facts take the
//! path of actions; a repeated fact changes nothing. Counts are applied together with the number of their part (files) or the ID of
//! their entity (live sources), so that they are applied once. At the end, the source is read again and compared with countd.

mod applied;
mod authors;
mod counts;
mod error;
mod facts;
mod format;
mod job;
mod lines;
mod options;
mod progress;
mod record;
mod retry;
mod run;
mod source;
mod totals;
mod verify;

pub use counts::{Agreement, Mode};
pub use error::ImportError;
pub use format::{Format, Kind};
pub use job::forget;
pub use options::{Import, Source, Summary};
pub use record::Defaults;
pub use run::run;
pub use source::{Endian, FieldMap, FileSource, KeyPattern, LiveSource, Packed, Shape};

use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;

/// The permissions that imports require, in addition to the permissions of actions and reads.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    job::required_permissions().and(counts::required_permissions(backend))
}
