//! `countd storage adopt`: data that was created without the module is converted to its types while clients use it.

mod beside;
mod clients;
mod failover;
pub mod kills;
mod late;
mod places;
mod reads;
mod refusals;
pub mod setup;
mod suspended;
