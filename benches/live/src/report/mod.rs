//! The report: the Markdown page with its charts, and the named figures that other documents quote.
//!
//! Formats the results of `measure`; starts no measurement itself.

pub mod chart;
pub mod check;
pub mod comparison;
pub mod countd;
pub mod countd_ack;
pub mod countd_bytes;
pub mod countd_cluster;
pub mod countd_hot;
pub mod countd_kafka;
pub mod countd_prefilter;
pub mod countd_reconcile;
pub mod countd_relay;
pub mod countd_replay;
pub mod countd_sizing;
pub mod countd_sizing_cluster;
pub mod countd_split;
pub mod entities;
pub mod figures;
pub mod library;
pub mod machine;
pub mod members;
pub mod method;
pub mod page;
pub mod rows;
pub mod section;
pub mod snapshots;
pub mod speed;
pub mod stalls;
pub mod svg;
pub mod table;
pub mod table_sizes;
pub mod update;
