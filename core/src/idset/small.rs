//! Runs the property tests again with small limits, so that encodings change often.
// Each file includes the shared support files, as in its own test binary.
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
