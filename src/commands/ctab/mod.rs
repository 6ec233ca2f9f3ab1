//! `CTAB.*`: tables of packed 40-bit counters, with a row for each id.

mod batch;
mod card;
mod del;
mod get;
mod incrby;
mod info;
mod init;
mod mapply;
mod mread;
mod page;
mod resize;
mod scan;
mod set;
mod transfer;
mod write;

pub use batch::{BatchIncr, MIncrBy};
pub use card::Card;
pub use del::Del;
pub use get::{Get, MGet};
pub use incrby::IncrBy;
pub use info::Info;
pub use init::Init;
pub use mapply::MApply;
pub use mread::MRead;
pub use page::Page;
pub use resize::Resize;
pub use scan::Scan;
pub use set::{GetSet, Set};
pub use transfer::{Export, Import};
