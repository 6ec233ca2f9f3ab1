//! Bytes on networks, estimated from the formats of requests, commands and events.

use super::figures::{Figures, FiguresError};
use super::workload::{LogKind, Machines, Workload};

/// Request line and headers of a request, with a token and a trace ID.
const REQUEST_HEAD: f64 = 300.0;
/// Status line and headers of a response.
const RESPONSE_HEAD: f64 = 200.0;
/// An action in a request, and its result.
const ACTION: f64 = 90.0;
const RESULT: f64 = 30.0;
/// An entity of a page in a request, and its counters; statuses take as much again.
const ITEM: f64 = 45.0;
const COUNTS: f64 = 110.0;
/// A command on one entity in addition to its arguments, and a reply with counters.
const COMMAND: f64 = 60.0;
const REPLY: f64 = 60.0;
/// The increments of an event in a commit.
const INCREMENT: f64 = 40.0;

/// Bytes per second in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Received.
    pub received: f64,
    /// Sent.
    pub sent: f64,
}

impl Traffic {
    /// The direction with more.
    pub fn busier(self) -> f64 {
        self.received.max(self.sent)
    }
}

/// The traffic of all masters, or of all machines of countd, together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Networks {
    /// Of the masters.
    pub redis: Traffic,
    /// Of the machines of countd: clients, Redis and brokers.
    pub countd: Traffic,
    /// Bytes of events per second that go to the topic.
    pub produced: f64,
}

/// The traffic of a load.
///
/// # Errors
/// A figure is missing.
pub fn networks(
    figures: &Figures,
    workload: &Workload,
    machines: &Machines,
) -> Result<Networks, FiguresError> {
    let event = figures.get("countd.event-bytes")?;
    let (facts, repeatable) = (workload.actions * workload.once, workload.repeatable());
    // Events that go through a stream of Redis are written once, read once, and sent to each replica.
    let streamed = match workload.log {
        LogKind::Streams => workload.actions,
        LogKind::Kafka => facts,
    };
    let entities = workload.reads * workload.page;
    let statuses = if workload.statuses { 2.0 } else { 1.0 };
    let written = streamed * (COMMAND + event) + repeatable * INCREMENT;
    let redis = Traffic {
        received: written + entities * COMMAND * statuses,
        sent: streamed * (REPLY + event)
            + entities * REPLY * statuses
            + written * f64::from(machines.replicas),
    };
    let requests = workload.reads + workload.actions / workload.lines;
    let clients = Traffic {
        received: requests * REQUEST_HEAD + workload.actions * ACTION + entities * ITEM,
        sent: requests * RESPONSE_HEAD + workload.actions * RESULT + entities * COUNTS * statuses,
    };
    let produced = match workload.log {
        LogKind::Streams => 0.0,
        LogKind::Kafka => workload.actions * event,
    };
    // Of what masters send, replicas get their part from the masters.
    let read = redis.sent - written * f64::from(machines.replicas);
    let countd = Traffic {
        received: clients.received + read + produced,
        sent: clients.sent + redis.received + produced,
    };
    Ok(Networks {
        redis,
        countd,
        produced,
    })
}

#[cfg(test)]
mod tests {
    use super::super::workload::testing::{machines, workload};
    use super::*;

    #[test]
    fn events_go_through_the_log_and_to_replicas() {
        let figures = Figures::parse(r#"{"countd.event-bytes": 170}"#).expect("figures");
        let load = Workload {
            reads: 0.0,
            once: 0.0,
            ..workload()
        };
        let found = networks(&figures, &load, &machines()).expect("traffic");
        // 1,000 events of 230 bytes and 40 of increments; read with 230 bytes, and sent to a replica.
        assert_eq!(
            found.redis,
            Traffic {
                received: 270e3,
                sent: 500e3
            }
        );
        assert_eq!(
            found.countd,
            Traffic {
                received: 390e3 + 230e3,
                sent: 230e3 + 270e3
            }
        );
        assert_eq!(found.produced, 0.0);
        let load = Workload {
            log: LogKind::Kafka,
            ..load
        };
        let found = networks(&figures, &load, &machines()).expect("traffic");
        assert_eq!(
            found.redis,
            Traffic {
                received: 40e3,
                sent: 40e3
            }
        );
        assert_eq!(found.produced, 170e3);
    }
}
