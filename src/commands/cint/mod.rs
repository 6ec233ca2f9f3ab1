//! `CINT.*`: packed 40-bit counters.

mod adopt;
pub(super) mod apply;
pub(super) mod batchincr;
mod dump;
mod get;
mod incrby;
mod init;
mod mdump;
mod mread;
pub(super) mod options;
mod resize;
pub(super) mod set;
mod transfer;
pub(super) mod write;

pub use adopt::Adopt;
pub use apply::Apply;
pub use batchincr::BatchIncr;
pub use dump::{Dump, Len};
pub use get::{Get, MGet};
pub use incrby::IncrBy;
pub use init::Init;
pub use mdump::MDump;
pub use mread::MRead;
pub use resize::Resize;
pub use set::{GetSet, Set};
pub use transfer::{Export, Import};
