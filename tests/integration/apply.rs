//! `CINT.APPLY`: whatever a consumer of a log repeats, the counters are the plain sum of its events.

mod kills;
mod log;
mod marked;
mod reader;
mod refusals;
mod replays;
mod store;
