//! The property tests once more, with limits so small that every change of form happens all the time.

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
