//! What is measured: a broker with a topic, and Redis for the counters of its events.

use crate::driver::countd::{Countd, Setting, Target};
use crate::driver::cpu;
use crate::driver::kafka::Kafka;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;

/// The number of partitions of a topic.
pub const TOPIC_PARTITIONS: u32 = 16;
/// The size of the records of Kafka's producer: that of key and value of an event.
pub const RECORD_BYTES: u64 = 190;

/// A broker, and Redis for the counters of one of its topics.
pub struct Setup<'a> {
    /// The broker.
    pub kafka: &'a Kafka,
    /// Redis, and what countd needs for it.
    pub target: Target<'a>,
    /// The topic.
    pub topic: &'a str,
    /// What countd needs for the topic.
    settings: Vec<Setting>,
}

impl Setup<'_> {
    /// Starts a subcommand of countd on the core of Redis.
    pub fn start(&self, subcommand: &str) -> Result<Countd> {
        cpu::on_server_core(|| Countd::start_with(&self.target, subcommand, &self.settings))
    }
}

/// Measures with a new topic and a new server for its counters.
pub fn with_topic(
    programs: &Programs,
    kafka: &Kafka,
    topic: &str,
    measure: impl FnOnce(&Setup) -> Result<()>,
) -> Result<()> {
    kafka.create_topic(topic, TOPIC_PARTITIONS)?;
    let dir = &Workdir::new()?;
    let server = &Server::start(programs, dir, Some(&programs.module))?;
    let target = Target::new(programs, server, dir);
    let settings = kafka.settings(topic);
    target.create_schema_with(&settings)?;
    measure(&Setup {
        kafka,
        target,
        topic,
        settings,
    })
}
