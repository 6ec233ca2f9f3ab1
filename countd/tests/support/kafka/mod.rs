//! Kafka for the tests: librdkafka's mock cluster in the test process, real brokers as processes, and a topic as another client sees it.

mod brokers;
mod cluster;
mod counted;
mod expected;
mod mock;
mod names;
mod outage;
mod programs;
mod sent;
mod topic;

pub use brokers::{Brokers, PASSWORD, Security, USER};
pub use cluster::Cluster;
pub use counted::{copies, wait_until_counted, wait_until_published};
pub use expected::expected;
pub use mock::Mock;
pub use names::TOPIC;
pub use outage::{Outage, TwoOfThree};
pub use sent::SentReads;
pub use topic::{Record, Topic};

/// The sections `[log]`, `[kafka]` and `[consumer]` of a configuration. `more` are further lines of `[kafka]`, and
/// sections after them.
pub fn config(brokers: &str, partitions: u16, more: &str) -> String {
    let brokers: Vec<String> = brokers
        .split(',')
        .map(|broker| format!("\"{broker}\""))
        .collect();
    format!(
        "[log]\nkind = \"kafka\"\npartitions = {partitions}\nretain = 100\n[kafka]\nbrokers = [{}]\ntopic = \"{TOPIC}\"\n{more}\n\
         [consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n",
        brokers.join(", ")
    )
}
