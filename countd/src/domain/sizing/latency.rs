//! How long requests take.

use super::figures::{Figures, FiguresError};
use super::kafka::KafkaCosts;
use super::queue::{Wait, quantile};
use super::stations::{Request, Stations};
use super::workload::{Confirmation, Machines, Workload};
use serde::Serialize;

/// With `appendfsync everysec`, a write is on the disk after up to two seconds.
const FSYNC: f64 = 2.0;
/// Round trips until the topic has a record: from countd to the leader, and from the followers to the leader. The benchmark has none of them.
const TOPIC_ROUND_TRIPS: f64 = 2.0;

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// The latency of requests, from their arrival at countd to the reply.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Of a read. `None` if a part is overloaded: then requests wait longer and longer.
    pub read: Option<Percentiles>,
    /// Of a request with actions, until it is confirmed. The time until a topic has its events is included only if it was measured.
    pub write: Option<Percentiles>,
    /// From a repeatable action to its visible count, as measured under load.
    pub visible: Percentiles,
}

impl Latency {
    /// The latency of a load.
    ///
    /// # Errors
    /// A figure is missing.
    pub fn new(
        figures: &Figures,
        workload: &Workload,
        machines: &Machines,
        stations: &Stations,
    ) -> Result<Latency, FiguresError> {
        let kafka = KafkaCosts::of(figures, workload);
        let topic = kafka.map_or([0.0; 2], |kafka| {
            topic_confirmation(kafka.confirmation, workload, machines)
        });
        let write = percentiles(stations, stations.write, machines).map(|latency| {
            let [p50, p99] = confirmation(workload.ack, machines);
            Percentiles {
                p50: latency.p50 + (p50 + topic[0]) * 1e3,
                p99: latency.p99 + (p99 + topic[1]) * 1e3,
            }
        });
        Ok(Latency {
            read: percentiles(stations, stations.read, machines),
            write,
            visible: Percentiles {
                p50: figures.get("countd.visible-p50-ms")?,
                p99: figures.get("countd.visible-p99-ms")?,
            },
        })
    }
}

/// The seconds that a write waits for its confirmation, at the median and at the 99th percentile.
fn confirmation(ack: Confirmation, machines: &Machines) -> [f64; 2] {
    match ack {
        Confirmation::Memory => [0.0; 2],
        Confirmation::Fsync => [FSYNC / 2.0, FSYNC],
        Confirmation::Replicas(_) => [machines.round_trip; 2],
    }
}

/// The seconds that a write waits for the topic, at the median and at the 99th percentile.
///
/// This is rather too long: what was `measured` includes the time of the request at countd, and a request with facts only does not wait. A
/// percentile is 0 if so many requests have only facts.
fn topic_confirmation(measured: [f64; 2], workload: &Workload, machines: &Machines) -> [f64; 2] {
    // The share of requests with a repeatable action.
    let waiting = 1.0 - workload.once.powf(workload.lines);
    let [p50, p99] = measured;
    [(0.5, p50), (0.99, p99)].map(|(share, seconds)| match waiting > 1.0 - share {
        true => seconds + TOPIC_ROUND_TRIPS * machines.round_trip,
        false => 0.0,
    })
}

/// The service times, the round trip, and the waiting times at countd and at the slowest of the masters.
fn percentiles(stations: &Stations, request: Request, machines: &Machines) -> Option<Percentiles> {
    let countd = &stations.countd;
    let [for_requests, for_background] = countd.wait()?;
    // How likely it is that countd and Redis have to wake up for it.
    let mut idle = countd.idle_share();
    let mut service = request.countd + machines.client;
    let mut waits = [for_requests, for_background, Wait::NONE, Wait::NONE];
    if request.calls > 0.0 {
        let redis = &stations.redis;
        service += request.redis + machines.round_trip;
        idle = (idle + redis.idle_share()) / 2.0;
        for (wait, of_one) in waits.iter_mut().skip(2).zip(redis.wait()?) {
            let (longest, after) = of_one.longest_of(request.calls);
            service += longest;
            *wait = after;
        }
    }
    service += request.alone_latency * idle;
    let at = |share| (service + quantile(waits, share)) * 1e3;
    Some(Percentiles {
        p50: at(0.5),
        p99: at(0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::super::kafka::testing::measured;
    use super::super::queue::{Jobs, Station};
    use super::super::workload::LogKind;
    use super::*;
    use crate::domain::sizing::workload::testing::{machines, workload};

    fn stations(per_second: f64) -> Stations {
        let request = Request::for_test(100e-6, 100e-6, 1.0);
        let jobs = || [Jobs::new(per_second, 100e-6)];
        Stations {
            redis: Station::new(1, jobs()),
            hot: 0.0,
            countd: Station::new(1, jobs()),
            clients: 0.0,
            read: request,
            write: request,
        }
    }

    #[test]
    fn an_idle_system_takes_the_service_times_and_the_round_trip() {
        let latency = percentiles(&stations(0.0), stations(0.0).read, &machines()).expect("stable");
        assert!((latency.p99 - 0.4).abs() < 1e-9, "{latency:?}");
        assert_eq!(latency.p50, latency.p99);
    }

    #[test]
    fn requests_that_come_alone_take_longer() {
        let of = |per_second: f64| {
            let mut request = stations(per_second).read;
            request.alone_latency = 1e-3;
            let found = percentiles(&stations(per_second), request, &machines());
            found.expect("stable").p50
        };
        assert!((of(0.0) - 1.4).abs() < 1e-9);
        // Half of the requests find countd busy, and half Redis.
        let busy = percentiles(&stations(5_000.0), stations(0.0).read, &machines());
        assert!((of(5_000.0) - busy.expect("stable").p50 - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_busy_system_waits_and_an_overloaded_one_has_no_latency() {
        let of = |per_second| percentiles(&stations(per_second), stations(0.0).read, &machines());
        let (half, most) = (of(5_000.0).expect("stable"), of(9_000.0).expect("stable"));
        assert!(half.p50 < half.p99 && half.p99 < most.p99 && half.p50 < most.p50);
        assert_eq!(of(10_000.0), None);
    }

    #[test]
    fn confirmations_take_a_round_trip_or_a_sync() {
        assert_eq!(confirmation(Confirmation::Memory, &machines()), [0.0, 0.0]);
        assert_eq!(
            confirmation(Confirmation::Replicas(1), &machines()),
            [200e-6, 200e-6]
        );
        assert_eq!(confirmation(Confirmation::Fsync, &machines()), [1.0, 2.0]);
    }

    #[test]
    fn requests_with_repeatable_actions_wait_for_the_topic_if_it_was_measured() {
        let text = r#"{"countd.visible-p50-ms": 359, "countd.visible-p99-ms": 463}"#;
        let figures = Figures::parse(text).expect("figures");
        let write = |figures: &Figures, log, once| {
            let load = Workload {
                log,
                once,
                ..workload()
            };
            let latency = Latency::new(figures, &load, &machines(), &stations(0.0));
            let write = latency.expect("figures").write.expect("stable");
            [write.p50, write.p99].map(|ms| (ms * 1e6).round() / 1e6)
        };
        let kafka = LogKind::Kafka;
        assert_eq!(write(&figures, kafka, 0.2), [0.4, 0.4]);
        let figures = measured(figures);
        // 2 ms and 9 ms, and two round trips of 0.2 ms.
        assert_eq!(write(&figures, kafka, 0.2), [2.8, 9.8]);
        assert_eq!(write(&figures, kafka, 0.9), [0.4, 9.8]);
        assert_eq!(write(&figures, kafka, 0.995), [0.4, 0.4]);
        assert_eq!(write(&figures, LogKind::Streams, 0.2), [0.4, 0.4]);
    }
}
