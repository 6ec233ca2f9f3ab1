//! `countd schema migrate`: types get another schema while clients use them.

mod data;
mod events;
pub mod kills;
mod progress;
mod refusals;
pub mod setup;
mod stages;
mod suspended;
