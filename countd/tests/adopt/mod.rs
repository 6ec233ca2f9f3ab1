//! `countd storage adopt`: data that was created without the module is converted to its types while clients use it.

mod clients;
mod failover;
mod kills;
mod places;
mod reads;
mod refusals;
mod setup;
