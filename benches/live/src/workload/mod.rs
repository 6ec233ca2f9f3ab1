//! Workloads: the ids and values of the data sets, the data structures that store them, and the commands to compare.
//! Labels and regression thresholds are declared with each workload.
//!
//! Uses `driver` to load data; independent of how results are measured and formatted.

pub mod comparison;
pub mod comparisons;
pub mod counts;
pub mod dataset;
pub mod events;
pub mod id_source;
pub mod ids;
pub mod outbox;
pub mod scale;
pub mod scripts;
pub mod set_kind;
pub mod table;
pub mod template;
