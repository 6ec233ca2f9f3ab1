//! Runs the property tests again, with limits so small that encodings change all the time.
// Each file includes the shared support files, as it does when it is a test binary of its own.
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
