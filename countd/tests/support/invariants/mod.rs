//! Checks all invariants (I1 to I4) of the data in Redis. It reads the keys itself, not through countd, and needs no model.
//!
//! - I1: the counter of a *once* metric is the number of its facts.
//! - I2: the counter of a metric with counts by day is the sum of its days, archived ones included, and equals its total.
//! - I3: a counter of authors is the sum of the counters of their entities, and each entity has credited its author with its counters.
//! - I4: a counter of actors or targets is the number of their facts, and the facts of users are the facts of entities, transposed.

mod content;
mod data;
mod parse;
mod rules;
mod transposed;

use super::drain::wait_until_all_drained;
use super::pause::pause;
use countd::domain::config::Config;
use countint_tests::Server;
use data::Data;

/// The number of reads. Data is read with many commands, and background tasks may move a fact meanwhile: only what is wrong in every
/// read is a violation.
const READS: usize = 4;

/// The invariants of the data of a server or of the nodes of a cluster.
pub struct Invariants<'s> {
    servers: Vec<&'s Server>,
    config: Config,
    /// Counters of users that the test has reset.
    without: Vec<&'static str>,
    /// Whether counts by day are compared with counters.
    with_days: bool,
}

impl<'s> Invariants<'s> {
    /// The invariants of data that processes with this configuration have written. Replicas are not read.
    pub fn new(servers: impl IntoIterator<Item = &'s Server>, config: &str) -> Invariants<'s> {
        let servers = servers.into_iter();
        let is_master =
            |server: &&Server| server.client().info("replication")["role"].as_str() == "master";
        Invariants {
            servers: servers.filter(is_master).collect(),
            config: Config::parse(config).expect("a valid configuration"),
            without: Vec::new(),
            with_days: true,
        }
    }

    /// Leaves out a counter of users that was reset.
    pub fn without(mut self, counter: &'static str) -> Invariants<'s> {
        self.without.push(counter);
        self
    }

    /// Leaves out I2. A counter stops at 0, and the sum of its days does not, so events that take away more than there is violate it.
    pub fn without_days(mut self) -> Invariants<'s> {
        self.with_days = false;
        self
    }

    /// Waits until the log is drained, and returns all violations.
    pub fn violations(&self) -> Vec<String> {
        let servers = || self.servers.iter().copied();
        let read = || {
            wait_until_all_drained(servers(), self.config.log.partitions);
            let mut found = rules::violations(&Data::read(servers()), &self.config, &self.without);
            found.retain(|violation| self.with_days || !violation.starts_with("I2: "));
            found
        };
        let mut found = read();
        for _ in 1..READS {
            if found.is_empty() {
                break;
            }
            pause();
            let again = read();
            found.retain(|violation| again.contains(violation));
        }
        found
    }

    /// Waits until the log is drained, and asserts that nothing violates an invariant.
    #[track_caller]
    pub fn assert(&self) {
        let found = self.violations();
        let shown = found.iter().take(30).map(String::as_str);
        assert!(
            found.is_empty(),
            "{} violations:\n{}",
            found.len(),
            shown.collect::<Vec<_>>().join("\n")
        );
    }
}

/// Asserts that nothing on a server violates an invariant.
#[track_caller]
pub fn assert_invariants(server: &Server, config: &str) {
    Invariants::new([server], config).assert();
}

/// [`assert_invariants`] for the nodes of a cluster.
#[track_caller]
pub fn assert_invariants_of_all<'s>(servers: impl IntoIterator<Item = &'s Server>, config: &str) {
    Invariants::new(servers, config).assert();
}
