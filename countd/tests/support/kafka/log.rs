//! The log of a test that runs with streams and with a topic.

use super::cluster::Cluster;
use super::config::with_topic;
use super::counted::wait_until_server_counted;
use super::topic::Topic;
use crate::support::wait_until_all_drained;
use countint_tests::Server;

/// Streams in Redis, or a topic.
pub struct Log {
    /// The configuration of all processes.
    pub config: String,
    topic: Option<Topic>,
}

impl Log {
    /// The streams of a configuration.
    pub fn streams(config: &str) -> Log {
        Log {
            config: config.to_owned(),
            topic: None,
        }
    }

    /// The topic of these brokers, with all other settings of a configuration whose log is in streams.
    pub fn topic_of(brokers: &impl Cluster, config: &str) -> Log {
        Log {
            config: with_topic(config, &brokers.addresses()),
            topic: Some(brokers.topic()),
        }
    }

    /// The topic.
    ///
    /// # Panics
    /// The log is in streams.
    pub fn topic(&self) -> &Topic {
        self.topic.as_ref().expect("a topic")
    }

    /// Waits until all events are counted.
    #[track_caller]
    pub fn drain(&self, server: &Server, partitions: u16) {
        self.drain_all(std::slice::from_ref(server), partitions);
    }

    /// [`drain`](Log::drain) for the nodes of a cluster. With a topic, there is only one server.
    #[track_caller]
    pub fn drain_all(&self, servers: &[Server], partitions: u16) {
        // What its records change of users and authors goes through the streams.
        if let Some(topic) = &self.topic {
            assert_eq!(servers.len(), 1);
            wait_until_server_counted(&servers[0], topic, partitions);
        }
        wait_until_all_drained(servers, partitions);
    }
}
