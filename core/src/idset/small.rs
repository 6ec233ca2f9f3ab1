//! The property tests once more, with limits so small that every change of form happens all the time.
// Each of them brings what they share along, as a test binary of its own does.
#![allow(clippy::duplicate_mod)]

#[path = "../../tests/idset_algebra.rs"]
mod algebra;
#[path = "../../tests/idset_blobs.rs"]
mod blobs;
#[path = "../../tests/idset_model.rs"]
mod model;
#[path = "../../tests/idset_portable.rs"]
mod portable;
#[path = "../../tests/idset_runs.rs"]
mod runs;
