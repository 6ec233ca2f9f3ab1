//! Kafka for the tests: librdkafka's mock cluster in the test process, real brokers as processes, and a topic as another client sees it.

mod brokers;
mod cluster;
mod config;
mod counted;
mod expected;
mod log;
mod mock;
mod names;
mod outage;
mod programs;
mod sent;
mod topic;

pub use brokers::{Brokers, PASSWORD, Security, USER};
pub use cluster::Cluster;
pub use config::{config, with_topic};
pub use counted::{copies, wait_until_counted, wait_until_published};
pub use expected::{expected, expected_with_copies};
pub use log::Log;
pub use mock::Mock;
pub use names::TOPIC;
pub use outage::{Outage, TwoOfThree};
pub use sent::SentReads;
pub use topic::{Record, Topic};
