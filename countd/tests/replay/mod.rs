//! `countd rebuild`: counters are computed again from the event archive and the log.

mod at_start;
mod baselines;
mod days;
mod flood;
mod interrupted;
mod load;
mod sabotage;
pub mod setup;
