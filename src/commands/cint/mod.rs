//! `CINT.*`: packed 40-bit counters.

mod adopt;
mod apply;
mod batchincr;
mod dump;
mod get;
mod incrby;
mod init;
mod mdump;
mod mread;
mod resize;
mod set;
mod transfer;
mod write;

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
