//! librdkafka's mock cluster, in the process of the test. It keeps the last 5 MB of each partition, and has no files, no topic configurations
//! and no groups of administrators: tests of these need [real brokers](super::Brokers).

use super::names::TOPIC;
use super::topic::Topic;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaApiKey;

/// The number of brokers.
const BROKERS: i32 = 3;
/// The last version of the request Metadata whose responses have no IDs of topics.
const METADATA_WITHOUT_IDS: i16 = 9;
/// A version of the request Metadata whose responses have IDs of topics.
const METADATA_WITH_IDS: i16 = 12;

/// A mock cluster with the topic of the tests.
pub struct Mock {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl Mock {
    /// A cluster of three brokers whose topic has this number of partitions.
    pub fn start(partitions: i32) -> Mock {
        let cluster = MockCluster::new(BROKERS).expect("a mock cluster");
        let mock = Mock { cluster };
        mock.create_topic(TOPIC, partitions);
        mock
    }

    /// Creates another topic.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        let created = self.cluster.create_topic(name, partitions, BROKERS);
        created.expect("a topic");
    }

    /// A cluster whose brokers have no IDs of topics, as before Kafka 2.8.
    pub fn without_topic_ids(partitions: i32) -> Mock {
        let mock = Mock::start(partitions);
        mock.set_metadata_version(METADATA_WITHOUT_IDS);
        mock
    }

    /// Gives the brokers IDs of topics, as an upgrade does. Clients see them after their next connection.
    pub fn upgrade(&self) {
        self.set_metadata_version(METADATA_WITH_IDS);
    }

    fn set_metadata_version(&self, max: i16) {
        self.cluster
            .apiversion(RDKafkaApiKey::Metadata, Some(0), Some(max))
            .expect("a version");
    }

    /// The addresses of its brokers, separated by commas.
    pub fn addresses(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// The topic as another client sees it.
    pub fn topic(&self) -> Topic {
        Topic::new(&self.addresses(), &[])
    }

    /// Disconnects all clients, and refuses connections.
    pub fn go_away(&self) {
        for broker in 1..=BROKERS {
            self.cluster.broker_down(broker).expect("a broker");
        }
    }

    /// Accepts connections again.
    pub fn come_back(&self) {
        for broker in 1..=BROKERS {
            self.cluster.broker_up(broker).expect("a broker");
        }
    }
}
