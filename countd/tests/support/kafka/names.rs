//! Names in the topic.

/// The topic of the tests.
pub const TOPIC: &str = "cnt-update";

/// The header of a copy of an event that is counted from a stream: the partition of the stream.
pub const SOURCE: &str = "countd-source";
/// The header of a copy: its offset in the stream.
pub const SEQUENCE: &str = "countd-seq";
/// The header of a copy: the number of the event in its entry. A group of actions has several.
pub const INDEX: &str = "countd-index";
/// The header of a copy of what is not an event: a change of counters without one.
pub const KIND: &str = "countd-kind";
/// The header of a copy of an event that was not counted.
pub const OUTCOME: &str = "countd-outcome";
