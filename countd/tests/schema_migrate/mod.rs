//! `countd schema migrate`: types get another schema while clients use them.

mod data;
mod events;
mod kills;
mod progress;
mod refusals;
mod setup;
mod stages;
mod suspended;
