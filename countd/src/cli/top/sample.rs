//! What `countd top` reads at one moment.

use super::service::{HotRow, Service, ServiceClient};
use countd::domain::config::Config;
use countd::domain::error::StoreError;
use countd::domain::keys::Partition;
use countd::log::inspect::{Inspection, LogState, inspect};
use countd::monitor::{Info, replies};
use countd::query::audit::{self, AuditFilter};
use countd::redis::processes::{live_consumers, live_processes};
use countd::redis::store::Store;
use countd::storage::hot::HotTracker;
use futures_util::future::{join, join5};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The number of corrections that a sample reads.
pub const CORRECTIONS: usize = 100;

/// What was read at one moment. A part that could not be read is missing, and a problem says why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub ms: u64,
    /// When, in seconds of a clock that only rises.
    pub seconds: f64,
    pub logs: Option<Logs>,
    pub members: Option<Members>,
    pub hot: Vec<HotRow>,
    /// The newest corrections of counters, the newest first.
    pub corrections: Option<Vec<Correction>>,
    pub nodes: Vec<Node>,
    pub service: Option<Service>,
    pub problems: Vec<String>,
}

/// The logs of all partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logs {
    /// The entries that were counted since the data exists.
    pub counted: u64,
    /// The uncounted entries of each partition that has any.
    pub lags: BTreeMap<Partition, u64>,
    /// The partitions that need a repair.
    pub damaged: u64,
    /// Derived events that were not forwarded.
    pub outbox: u64,
    pub dead: u64,
}

/// What sends heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Members {
    pub consumers: usize,
    /// One for each role of a process.
    pub connections: usize,
}

/// A correction of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Correction {
    /// When, in milliseconds since 1970.
    pub ms: u64,
    pub source: String,
    pub etype: String,
    pub eid: String,
    pub metric: String,
    pub before: String,
    pub after: String,
}

/// A node of Redis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its address.
    pub name: String,
    /// What it tells about itself; `None` if it does not answer.
    pub state: Option<NodeState>,
}

/// What a node tells about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeState {
    /// Allocated bytes.
    pub memory: f64,
    /// The setting `maxmemory`, in bytes; 0 for no limit.
    pub max_memory: f64,
    pub clients: f64,
    pub keys: f64,
    /// Commands executed since it started.
    pub commands: f64,
    /// Seconds of CPU of the thread that runs commands, if the server tells it.
    pub main_thread: Option<f64>,
}

impl NodeState {
    fn of(reply: &str) -> NodeState {
        let info = Info::parse(reply);
        let number = |name| info.number(name).unwrap_or(0.0);
        let cpu = |name| info.number(name);
        NodeState {
            memory: number("used_memory"),
            max_memory: number("maxmemory"),
            clients: number("connected_clients"),
            keys: info.keys(),
            commands: number("total_commands_processed"),
            main_thread: cpu("used_cpu_sys_main_thread")
                .zip(cpu("used_cpu_user_main_thread"))
                .map(|(system, user)| system + user),
        }
    }
}

/// Where samples come from.
pub struct Sources {
    store: Store,
    hot: HotTracker,
    service: Option<ServiceClient>,
    began: Instant,
}

impl Sources {
    /// Reads from Redis, and from a countd if there is one.
    pub fn new(config: &Config, store: Store, service: Option<ServiceClient>) -> Sources {
        let hot = HotTracker::disabled(config.hot);
        let began = Instant::now();
        Sources {
            store,
            hot,
            service,
            began,
        }
    }

    /// Reads a sample: `INFO` of each node, a script for each 16 partitions (in a cluster for each partition), `XREVRANGE` on the audit, a few
    /// small commands, and two requests to the countd if there is one.
    pub async fn sample(&self) -> Sample {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_millis());
        let mut sample = Sample {
            ms: u64::try_from(now).unwrap_or(u64::MAX),
            seconds: self.began.elapsed().as_secs_f64(),
            ..Sample::default()
        };
        let store = &self.store;
        let partitions: Vec<Partition> = (0..store.keys().partitions()).collect();
        let service = async {
            match &self.service {
                Some(client) => client.read().await,
                None => (Ok(None), Ok(None)),
            }
        };
        let of_redis = join5(
            inspect(store, &partitions),
            read_members(store),
            self.hot.hottest(store),
            read_corrections(store),
            replies(store),
        );
        let (of_redis, (service, listed)) = join(of_redis, service).await;
        let (inspection, members, hot, corrections, nodes) = of_redis;
        let problems = &mut sample.problems;
        let of_logs = sum_logs(&inspection, store.keys().tagged());
        sample.logs = or_problem(problems, "logs", of_logs);
        sample.members = or_problem(problems, "processes", members);
        let hot = hot.map_err(StoreError::from);
        for found in or_problem(problems, "hot entities", hot).unwrap_or_default() {
            sample.hot.push(HotRow {
                etype: found.entity.etype.as_str().to_owned(),
                eid: found.entity.eid.as_str().to_owned(),
                reads: found.reads,
                writes: found.writes,
            });
        }
        sample.corrections = or_problem(problems, "audit", corrections);
        for (name, reply) in or_problem(problems, "nodes", nodes).unwrap_or_default() {
            let reply = or_problem(problems, &name, reply);
            let state = reply.map(|reply| NodeState::of(&reply));
            sample.nodes.push(Node { name, state });
        }
        sample.service = or_problem(problems, "countd", service).flatten();
        if let Some(listed) = or_problem(problems, "countd", listed).flatten() {
            sample.hot = listed;
        }
        sample
    }
}

/// The value, or `None` after adding the problem.
fn or_problem<T, E: std::fmt::Display>(
    problems: &mut Vec<String>,
    of: &str,
    result: Result<T, E>,
) -> Option<T> {
    result
        .map_err(|error| problems.push(format!("{of}: {error}")))
        .ok()
}

/// The sum of all partitions. None of it if a node is unavailable: a part of the lag would look like all of it.
fn sum_logs(
    inspection: &Inspection,
    has_dead_letters_by_partition: bool,
) -> Result<Logs, &StoreError> {
    if let Some(error) = &inspection.error {
        return Err(error);
    }
    let mut logs = Logs::default();
    for state in inspection.states.values() {
        // The position is the offset of the first entry that was not counted. Offsets begin at 1.
        let position = state.position.as_ref();
        logs.counted += position.map_or(0, |next| next.saturating_sub(1));
        logs.outbox += state.outbox_length;
        match state.log_state() {
            LogState::Healthy(0) | LogState::Disordered => {}
            LogState::Healthy(lag) => {
                logs.lags.insert(state.partition, lag);
            }
            LogState::Restarted(_) | LogState::Failed(_) => logs.damaged += 1,
        }
    }
    let mut dead = inspection.states.values().map(|state| state.dead_length);
    logs.dead = match has_dead_letters_by_partition {
        true => dead.sum(),
        false => dead.next().unwrap_or(0),
    };
    Ok(logs)
}

async fn read_members(store: &Store) -> Result<Members, StoreError> {
    let consumers = live_consumers(store).await?;
    // A process that has just followed another epoch of the layout is listed twice.
    let processes = live_processes(store).await?.into_iter();
    let processes: BTreeSet<String> = processes.map(|process| process.id).collect();
    Ok(Members {
        consumers: consumers.len(),
        connections: processes.len(),
    })
}

async fn read_corrections(store: &Store) -> Result<Vec<Correction>, StoreError> {
    let page = audit::page(store, &AuditFilter::default(), None, CORRECTIONS).await?;
    let entries = page.entries.iter().take(CORRECTIONS);
    Ok(entries
        .map(|entry| {
            let field = |name| entry.field(name).to_owned();
            Correction {
                ms: entry.ms(),
                source: field("source"),
                etype: field("etype"),
                eid: field("eid"),
                metric: field("metric"),
                before: field("before"),
                after: field("after"),
            }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use countd::log::inspect::{LogEnd, PartitionState};

    fn state(partition: Partition, position: u64, last: u64) -> PartitionState {
        PartitionState {
            partition,
            stored: Some(position.to_string().into_bytes()),
            position: Ok(position),
            end: Ok(LogEnd {
                last: (0, last),
                length: 4,
                entry: (0, last),
            }),
            outbox: None,
            outbox_length: 2,
            dead: None,
            dead_length: 5,
        }
    }

    #[test]
    fn logs_are_summed_and_only_partitions_with_a_lag_are_listed() {
        let mut inspection = Inspection::default();
        // Six uncounted entries, none, and a log that ends before its position.
        for state in [state(0, 5, 10), state(1, 8, 7), state(2, 9, 3)] {
            inspection.states.insert(state.partition, state);
        }
        let logs = sum_logs(&inspection, false).expect("complete");
        let expected = Logs {
            counted: 4 + 7 + 8,
            lags: BTreeMap::from([(0, 6)]),
            damaged: 1,
            outbox: 6,
            dead: 5,
        };
        assert_eq!(logs, expected);
        assert_eq!(sum_logs(&inspection, true).expect("complete").dead, 15);
        inspection.error = Some(StoreError::Unexpected("a node".to_owned()));
        assert!(sum_logs(&inspection, false).is_err());
    }

    #[test]
    fn the_state_of_a_node_is_read_from_info() {
        let reply = "used_memory:1000\r\nmaxmemory:4000\r\nconnected_clients:3\r\ntotal_commands_processed:70\r\n\
            used_cpu_sys_main_thread:1.5\r\nused_cpu_user_main_thread:2.5\r\ndb0:keys=9,expires=0\r\n";
        let expected = NodeState {
            memory: 1000.0,
            max_memory: 4000.0,
            clients: 3.0,
            keys: 9.0,
            commands: 70.0,
            main_thread: Some(4.0),
        };
        assert_eq!(NodeState::of(reply), expected);
        assert_eq!(NodeState::of("used_memory:7\r\n").main_thread, None);
    }
}
