//! What a scenario needs of brokers, be they a mock cluster or real ones.

use super::brokers::Brokers;
use super::mock::Mock;
use super::topic::Topic;

/// Brokers with the topic of the tests.
pub trait Cluster {
    /// The addresses for clients, separated by commas.
    fn addresses(&self) -> String;

    /// The topic as another client sees it.
    fn topic(&self) -> Topic;
}

impl Cluster for Mock {
    fn addresses(&self) -> String {
        Mock::addresses(self)
    }

    fn topic(&self) -> Topic {
        Mock::topic(self)
    }
}

impl Cluster for Brokers {
    fn addresses(&self) -> String {
        Brokers::addresses(self)
    }

    fn topic(&self) -> Topic {
        Brokers::topic(self)
    }
}

/// Brokers that several scenarios use one after the other.
impl Cluster for &Brokers {
    fn addresses(&self) -> String {
        Brokers::addresses(self)
    }

    fn topic(&self) -> Topic {
        Brokers::topic(self)
    }
}

/// Brokers that a scenario changes, and that others use after it.
impl<B: Cluster> Cluster for &mut B {
    fn addresses(&self) -> String {
        B::addresses(self)
    }

    fn topic(&self) -> Topic {
        B::topic(self)
    }
}
