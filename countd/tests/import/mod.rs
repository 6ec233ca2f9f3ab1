//! `countd import`: files, live sources, kills, and what it refuses.

mod access;
mod arguments;
mod authors;
mod files;
mod invalid;
mod kills;
mod page;
mod resumes;
pub(crate) mod setup;
mod shapes;
