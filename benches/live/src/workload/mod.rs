//! What is sent: the ids and values of the data sets, the ways to store them, and the commands that are compared.
//!
//! Uses the driver to load data; knows nothing of how results are measured or reported.

pub mod comparison;
pub mod comparisons;
pub mod counts;
pub mod dataset;
pub mod events;
pub mod ids;
pub mod pick;
pub mod scale;
pub mod scripts;
pub mod set_kind;
pub mod table;
pub mod template;
