//! The topic of repeatable events, for data whose log is Kafka (`log.kind = "kafka"`).
//!
//! An entity's partition of the topic is that of its counters modulo the number of the topic's partitions, as Kafka's default partitioner
//! chooses it. The position of each partition is stored with its counters; offsets that Kafka stores are published and never read.

mod client;
mod describe;
mod error;
mod guard;
mod history;
mod inspect;
mod offsets;
mod producer;
mod producing_client;
mod reader;
mod record;
mod records;
mod scan;
mod topic;
mod unconfirmed;
mod watermarks;

#[cfg(test)]
mod tests;

pub use describe::TopicDescription;
pub use error::TopicError;
pub use history::TopicHistory;
pub use inspect::{Inspection, TopicRisk, inspect_topic};
pub use offsets::{Committer, Ends, end_offsets, offsets_of};
pub use producer::{OutgoingRecord, Producer};
pub use reader::{Reader, ReaderError};
pub use record::{
    BorrowedRecord, HISTORY, INDEX, KIND, OUTCOME, Origin, Record, SEQUENCE, SOURCE, short_history,
};
pub use records::Records;
pub use scan::{Copied, Scanned, Scanner};
pub use topic::{Topic, TopicIdentity, topic_of};
pub use watermarks::Watermarks;
