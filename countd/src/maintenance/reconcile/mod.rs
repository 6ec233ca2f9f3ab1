//! Reconciliation: compares the counters of entities with the facts that they count, and corrects them.
//!
//! Consumers do it in rounds: each compares a sample of the entities of its partitions, so that every entity is compared in a bounded
//! number of rounds. A sample is compared by plain reads first, which other clients may interleave. A counter that differs there is
//! compared again by a script (`repair`), whose result is exact.

mod cards;
mod command;
mod compare;
mod context;
mod drift;
mod keys;
mod lost;
mod permissions;
mod round;
mod rows;
mod users;

pub use super::report::{MetricReport, Report};
pub use crate::repair::settle;
pub use command::{ReconcileError, Scope, reconcile};
pub use context::Context;
pub use drift::Drifting;
pub use keys::SavedKeySweep;
pub(crate) use keys::entity_of;
pub use permissions::{fact_permissions, required_permissions};
pub use round::run;
pub use rows::SavedRowSweep;
