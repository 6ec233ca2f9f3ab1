//! `CINT.APPLY`: each event of a log counts once, however often its consumer repeats batches.

mod kills;
mod log;
mod marked;
mod reader;
mod refusals;
mod replays;
mod store;
