//! Brokers that a test takes away for a while.

use super::brokers::Brokers;
use super::cluster::Cluster;
use super::mock::Mock;
use super::topic::Topic;

/// Brokers that can be away: nothing can be appended to the topic meanwhile.
pub trait Outage: Cluster {
    /// Takes the brokers away.
    fn go_away(&mut self);

    /// Brings them back.
    fn come_back(&mut self);
}

impl Outage for Mock {
    fn go_away(&mut self) {
        Mock::go_away(self);
    }

    fn come_back(&mut self) {
        Mock::come_back(self);
    }
}

/// Three real brokers, of which two go away: the one that is left has too few in-sync replicas for `min.insync.replicas`, and is no majority
/// that could elect a controller.
pub struct TwoOfThree {
    /// The brokers.
    pub brokers: Brokers,
    loss: Loss,
    /// The node that is left in the next outage. Each is in turn.
    left: usize,
}

/// How brokers go away.
#[derive(Clone, Copy)]
enum Loss {
    /// With SIGKILL: connections are refused.
    Kill,
    /// With SIGSTOP: connections stay open, and requests are not answered.
    Suspend,
}

impl TwoOfThree {
    /// Brokers that are killed, and start again.
    pub fn killed(brokers: Brokers) -> TwoOfThree {
        let (loss, left) = (Loss::Kill, 0);
        TwoOfThree {
            brokers,
            loss,
            left,
        }
    }

    /// Brokers that are suspended, and continue.
    pub fn suspended(brokers: Brokers) -> TwoOfThree {
        let (loss, left) = (Loss::Suspend, 0);
        TwoOfThree {
            brokers,
            loss,
            left,
        }
    }

    /// The two nodes that go away.
    fn away(&self) -> [usize; 2] {
        [(self.left + 1) % 3, (self.left + 2) % 3]
    }
}

impl Cluster for TwoOfThree {
    fn addresses(&self) -> String {
        self.brokers.addresses()
    }

    fn topic(&self) -> Topic {
        self.brokers.topic()
    }
}

impl Outage for TwoOfThree {
    fn go_away(&mut self) {
        for node in self.away() {
            match self.loss {
                Loss::Kill => self.brokers.kill(node),
                Loss::Suspend => self.brokers.signal(node, "STOP"),
            }
        }
    }

    fn come_back(&mut self) {
        let away = self.away();
        match self.loss {
            Loss::Kill => self.brokers.launch_together(&away),
            Loss::Suspend => {
                for node in away {
                    self.brokers.signal(node, "CONT");
                }
            }
        }
        self.left = (self.left + 1) % 3;
    }
}
