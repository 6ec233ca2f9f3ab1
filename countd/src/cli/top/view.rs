//! What `countd top` shows: rates between two samples, and figures of the later one.

use super::sample::{Correction, Logs, Members, Node, NodeState, Sample};
use super::service::{HotRow, Service};
use countd::domain::keys::Partition;
use serde::Serialize;

/// The time over which corrections are counted, in milliseconds.
const CORRECTED_MS: u64 = 3_600_000;

/// What is shown. A part that could not be read is null, and so is a rate before there are two samples, or after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// When the later sample was taken, in milliseconds since 1970.
    pub time: u64,
    /// The time between the samples; null if there is one.
    pub seconds: Option<f64>,
    pub log: Option<LogView>,
    /// The partitions with uncounted entries, the one with the most first.
    pub partitions: Vec<PartitionView>,
    pub processes: Option<Members>,
    /// The hot entities, the one with the most requests first.
    pub hot: Vec<HotRow>,
    pub corrections: Option<CorrectionsView>,
    pub nodes: Vec<NodeView>,
    /// The countd of `--url`.
    pub service: Option<ServiceView>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// The logs of all partitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogView {
    pub appended_per_second: Option<f64>,
    pub counted_per_second: Option<f64>,
    /// Entries that were counted since the data exists.
    pub counted: u64,
    /// Uncounted entries, without those of damaged partitions.
    pub lag: u64,
    pub damaged_partitions: u64,
    pub outbox: u64,
    pub dead_letters: u64,
}

/// A partition with uncounted entries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionView {
    pub partition: Partition,
    pub lag: u64,
    /// How much more uncounted entries there are each second. Negative while the backlog shrinks.
    pub growth_per_second: Option<f64>,
}

/// Corrections of counters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CorrectionsView {
    /// Corrections of the last hour, at most those that a sample reads (100).
    pub last_hour: usize,
    /// The newest corrections, the newest first.
    pub newest: Vec<Correction>,
}

/// A node of Redis.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    pub node: String,
    /// Whether it answers. Without an answer all numbers are 0.
    pub up: bool,
    pub memory_bytes: f64,
    /// 0 for no limit.
    pub memory_max_bytes: f64,
    pub commands_per_second: Option<f64>,
    /// The share of a core that the thread takes which runs commands.
    pub main_thread: Option<f64>,
    pub clients: f64,
    pub keys: f64,
}

/// A countd.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceView {
    pub requests_per_second: Option<f64>,
    /// Requests that failed with a status from 500 on.
    pub failures_per_second: Option<f64>,
    pub appended_per_second: Option<f64>,
    pub applied_per_second: Option<f64>,
    pub compared_per_second: Option<f64>,
    pub corrections: f64,
    /// Comparisons of counters with facts since it started, and how many of them found a difference.
    pub compared: f64,
    pub differing: f64,
    pub unconverged: f64,
    pub lag_seconds: Option<f64>,
    pub memory_bytes: Option<f64>,
}

/// The number of corrections that are shown.
const NEWEST: usize = 10;

/// Computes rates between two values of a counter.
#[derive(Clone, Copy)]
struct Rates {
    seconds: Option<f64>,
}

impl Rates {
    /// The rise per second. `None` if the counter has fallen, because what counts has started again.
    fn of(self, before: Option<f64>, now: f64) -> Option<f64> {
        let (before, seconds) = before.zip(self.seconds)?;
        (now >= before).then(|| rounded((now - before) / seconds))
    }
}

/// A rate with one decimal.
fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

impl View {
    /// What a sample shows, with the rates since an earlier one.
    pub fn of(before: Option<&Sample>, now: &Sample) -> View {
        let seconds = before.map(|before| now.seconds - before.seconds);
        let seconds = seconds.filter(|seconds| *seconds > 0.0);
        let rates = Rates { seconds };
        let logs_before = before.and_then(|before| before.logs.as_ref());
        let logs = now.logs.as_ref();
        let mut hot = now.hot.clone();
        hot.sort_by(|a, b| (b.reads + b.writes).total_cmp(&(a.reads + a.writes)));
        View {
            time: now.ms,
            seconds: seconds.map(|seconds| (seconds * 1e3).round() / 1e3),
            log: logs.map(|logs| of_logs(rates, logs_before, logs)),
            partitions: logs.map_or(Vec::new(), |logs| of_partitions(rates, logs_before, logs)),
            processes: now.members.clone(),
            hot,
            corrections: now.corrections.as_ref().map(|all| CorrectionsView {
                last_hour: all
                    .iter()
                    .filter(|correction| correction.ms + CORRECTED_MS > now.ms)
                    .count(),
                newest: all.iter().take(NEWEST).cloned().collect(),
            }),
            nodes: now
                .nodes
                .iter()
                .map(|node| of_node(rates, before, node))
                .collect(),
            service: now.service.as_ref().map(|service| {
                let before = before.and_then(|before| before.service.as_ref());
                of_service(rates, before, service)
            }),
            problems: now.problems.clone(),
        }
    }
}

fn of_logs(rates: Rates, before: Option<&Logs>, now: &Logs) -> LogView {
    let lag = |logs: &Logs| logs.lags.values().sum::<u64>();
    let appended = |logs: &Logs| (logs.counted + lag(logs)) as f64;
    LogView {
        appended_per_second: rates.of(before.map(appended), appended(now)),
        counted_per_second: rates.of(before.map(|logs| logs.counted as f64), now.counted as f64),
        counted: now.counted,
        lag: lag(now),
        damaged_partitions: now.damaged,
        outbox: now.outbox,
        dead_letters: now.dead,
    }
}

fn of_partitions(rates: Rates, before: Option<&Logs>, now: &Logs) -> Vec<PartitionView> {
    let views = now.lags.iter().map(|(partition, lag)| {
        let before = before.map(|logs| logs.lags.get(partition).copied().unwrap_or(0));
        let growth = before.zip(rates.seconds);
        let growth =
            growth.map(|(before, seconds)| rounded((*lag as f64 - before as f64) / seconds));
        PartitionView {
            partition: *partition,
            lag: *lag,
            growth_per_second: growth,
        }
    });
    let mut views: Vec<PartitionView> = views.collect();
    views.sort_by_key(|view| std::cmp::Reverse(view.lag));
    views
}

fn of_node(rates: Rates, before: Option<&Sample>, now: &Node) -> NodeView {
    let before = before.and_then(|sample| {
        let mut nodes = sample.nodes.iter();
        nodes.find(|node| node.name == now.name)?.state.as_ref()
    });
    let is_up = now.state.is_some();
    let state = now.state.clone().unwrap_or_default();
    let main_thread = |state: &NodeState| state.main_thread;
    let cpu = state.main_thread.zip(before.and_then(main_thread));
    NodeView {
        node: now.name.clone(),
        up: is_up,
        memory_bytes: state.memory,
        memory_max_bytes: state.max_memory,
        commands_per_second: match is_up {
            true => rates.of(before.map(|state| state.commands), state.commands),
            false => None,
        },
        main_thread: cpu.zip(rates.seconds).and_then(|((now, before), seconds)| {
            let share = (now - before) / seconds;
            (share >= 0.0).then(|| (share * 1e3).round() / 1e3)
        }),
        clients: state.clients,
        keys: state.keys,
    }
}

fn of_service(rates: Rates, before: Option<&Service>, now: &Service) -> ServiceView {
    let rate = |value: fn(&Service) -> f64| rates.of(before.map(value), value(now));
    ServiceView {
        requests_per_second: rate(|service| service.requests),
        failures_per_second: rate(|service| service.failures),
        appended_per_second: rate(|service| service.appended),
        applied_per_second: rate(|service| service.applied),
        compared_per_second: rate(|service| service.compared),
        corrections: now.corrections,
        compared: now.compared,
        differing: now.differing,
        unconverged: now.unconverged,
        lag_seconds: now.lag_seconds,
        memory_bytes: now.memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn sample(seconds: f64, counted: u64, lags: &[(Partition, u64)], commands: f64) -> Sample {
        Sample {
            ms: 10_000_000 + (seconds * 1e3) as u64,
            seconds,
            logs: Some(Logs {
                counted,
                lags: lags.iter().copied().collect::<BTreeMap<_, _>>(),
                ..Logs::default()
            }),
            nodes: vec![Node {
                name: "a:1".to_owned(),
                state: Some(NodeState {
                    commands,
                    main_thread: Some(commands / 1000.0),
                    ..NodeState::default()
                }),
            }],
            service: Some(Service {
                requests: commands,
                ..Service::default()
            }),
            ..Sample::default()
        }
    }

    #[test]
    fn rates_are_the_rise_between_two_samples() {
        let before = sample(1.0, 100, &[(3, 10), (4, 50)], 1000.0);
        let now = sample(3.0, 140, &[(3, 30), (9, 4)], 1500.0);
        let view = View::of(Some(&before), &now);
        assert_eq!(view.seconds, Some(2.0));
        let log = view.log.expect("logs");
        // 160 entries were appended before, and 174 now.
        assert_eq!(log.appended_per_second, Some(7.0));
        assert_eq!(log.counted_per_second, Some(20.0));
        assert_eq!((log.counted, log.lag), (140, 34));
        let partitions = view.partitions.iter();
        let partitions: Vec<_> = partitions
            .map(|view| (view.partition, view.lag, view.growth_per_second))
            .collect();
        assert_eq!(partitions, [(3, 30, Some(10.0)), (9, 4, Some(2.0))]);
        assert_eq!(view.nodes[0].commands_per_second, Some(250.0));
        assert_eq!(view.nodes[0].main_thread, Some(0.25));
        let service = view.service.expect("a countd");
        assert_eq!(service.requests_per_second, Some(250.0));
    }

    #[test]
    fn the_first_sample_has_no_rates() {
        let view = View::of(None, &sample(1.0, 100, &[(3, 10)], 1000.0));
        let log = view.log.expect("logs");
        assert_eq!((view.seconds, log.appended_per_second), (None, None));
        assert_eq!(log.lag, 10);
        assert_eq!(view.partitions[0].growth_per_second, None);
        assert_eq!(view.nodes[0].commands_per_second, None);
    }

    #[test]
    fn counters_that_have_started_again_have_no_rate() {
        let before = sample(1.0, 100, &[], 1000.0);
        let now = sample(2.0, 150, &[], 10.0);
        let view = View::of(Some(&before), &now);
        assert_eq!(view.nodes[0].commands_per_second, None);
        assert_eq!(view.nodes[0].main_thread, None);
        let service = view.service.expect("a countd");
        assert_eq!(service.requests_per_second, None);
        let log = view.log.expect("logs");
        assert_eq!(log.counted_per_second, Some(50.0));
    }

    #[test]
    fn what_could_not_be_read_is_missing() {
        let mut now = sample(2.0, 1, &[], 1.0);
        (now.logs, now.nodes[0].state, now.service) = (None, None, None);
        now.problems.push("logs: away".to_owned());
        let view = View::of(Some(&sample(1.0, 1, &[(1, 1)], 1.0)), &now);
        assert_eq!((&view.log, view.partitions.len()), (&None, 0));
        assert!(!view.nodes[0].up && view.nodes[0].commands_per_second.is_none());
        assert_eq!(view.problems, ["logs: away"]);
        let json = serde_json::to_value(&view).expect("JSON");
        assert!(json["log"].is_null() && json["service"].is_null());
        assert_eq!(json["nodes"][0]["memoryMaxBytes"], 0.0);
    }

    #[test]
    fn hot_entities_are_ordered_and_corrections_of_the_last_hour_are_counted() {
        let mut now = sample(2.0, 1, &[], 1.0);
        for (eid, reads) in [("1", 5.0), ("2", 9.0)] {
            now.hot.push(HotRow {
                etype: "note".to_owned(),
                eid: eid.to_owned(),
                reads,
                writes: 0.0,
            });
        }
        let correction = |ms| Correction {
            ms,
            source: "reconcile".to_owned(),
            etype: "note".to_owned(),
            eid: "1".to_owned(),
            metric: "like".to_owned(),
            before: "1".to_owned(),
            after: "2".to_owned(),
        };
        now.corrections = Some(vec![
            correction(now.ms - 5),
            correction(now.ms - CORRECTED_MS),
        ]);
        let view = View::of(None, &now);
        assert_eq!(view.hot[0].eid, "2");
        let corrections = view.corrections.expect("corrections");
        assert_eq!((corrections.last_hour, corrections.newest.len()), (1, 2));
    }
}
