//! What a split of a hot entity gains and what a merge costs, in a cluster of three masters.
//!
//! All servers share a core, so only CPU times of likes are comparable, not rates. With a core for each node, the busiest one limits the
//! likes of an entity.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::driver::countd::{Countd, Target};
use crate::driver::http::{Http, get, post};
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::measure::countd::clients::{run_threads, send_each, wait_until_counted};
use crate::measure::countd::cluster;
use crate::measure::countd::requests::ACTIONS;
use crate::workload::events::EntityPool;
use crate::workload::scale::Scale;

/// The number of masters.
pub const MASTERS: usize = 3;
/// The number of shards.
pub const SHARDS: u64 = 16;
/// The numbers of connections that send likes, each with one request in flight. With few of them, the groups of likes that countd commits
/// at a shard are smaller than those of an entity that is whole.
pub const CONNECTIONS: [usize; 2] = [64, 512];
/// The number of facts of a merge that takes little more time than one without facts.
pub const SMALL_MERGE: u64 = 1_000;
/// Pairs of rounds with an entity that is whole and one that is split, for each number of connections in each repeat.
const ROUNDS: usize = 2;
/// The entities of a repeat.
const ENTITIES: u64 = 4;
/// How long countd may take to follow the end of a split.
const UNTIL_FOLLOWED: Duration = Duration::from_secs(3);
/// Connections that send batches of likes.
const LOADERS: usize = 4;
/// The interval between likes during a merge.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// How long these likes are sent before the merge begins.
const PROBE_LEAD: Duration = Duration::from_millis(500);
/// The timeout for likes to be accepted again.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The first user who likes something.
const FIRST_USER: u64 = 1_000_000_000_000_000;

/// The CPU seconds for each like, counting included.
#[derive(Clone, Copy)]
pub struct Costs {
    /// Of the node of Redis that has used most.
    pub busiest: f64,
    /// Of all nodes of Redis.
    pub redis: f64,
    /// Of countd.
    pub countd: f64,
}

/// A round with each of two entities.
pub struct Pair {
    /// The number of connections.
    pub connections: usize,
    /// Likes of an entity that is whole.
    pub whole: Costs,
    /// Likes of an entity that is split.
    pub split: Costs,
}

/// A merge.
pub struct Merge {
    /// The number of facts of the shards.
    pub facts: u64,
    /// Seconds that the command takes.
    pub seconds: f64,
    /// Seconds during which likes are refused.
    pub refused_seconds: f64,
}

/// The results.
#[derive(Default)]
pub struct SplitResults {
    /// The costs of likes.
    pub pairs: Vec<Pair>,
    /// Seconds that the command of a split takes, without a grace period.
    pub split_seconds: Vec<f64>,
    /// The merges.
    pub merges: Vec<Merge>,
}

/// Takes all measurements.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<SplitResults> {
    let scale = &scale.countd;
    let mut results = SplitResults::default();
    for repeat in 0..scale.repeats {
        eprintln!("bench: countd, likes of a split entity");
        let dirs: Vec<Workdir> = (0..MASTERS)
            .map(|_| Workdir::new())
            .collect::<Result<_>>()?;
        let servers = cluster::start(programs, &dirs, true)?;
        let target = Target::new(programs, &servers[0], &dirs[0]);
        target.create_schema()?;
        let mut running = Running {
            countd: Countd::start(&target, "all")?,
            target: &target,
            servers: &servers,
            user: FIRST_USER,
        };
        // Each repeat has other entities, because the nodes of the shards depend on the ID.
        let entity = |number: u64| EntityPool::Hot.nth(ENTITIES * repeat as u64 + number);
        running.compare([entity(0), entity(1)], scale.requests, &mut results)?;
        for (eid, facts) in [(entity(2), SMALL_MERGE), (entity(3), scale.merged_facts)] {
            eprintln!("bench: countd, a merge of {facts} facts");
            results.merges.push(running.merge(eid, facts)?);
        }
    }
    Ok(results)
}

/// A cluster and a countd that serves and consumes.
struct Running<'a> {
    target: &'a Target<'a>,
    servers: &'a [Server],
    countd: Countd,
    /// The next user who likes something.
    user: u64,
}

impl Running<'_> {
    /// Splits the second entity, and compares likes of both.
    fn compare(
        &mut self,
        [whole, split]: [u64; 2],
        time: Duration,
        results: &mut SplitResults,
    ) -> Result<()> {
        // Warms up connections and caches.
        self.likes(whole, CONNECTIONS[0], time / 10)?;
        self.likes(split, CONNECTIONS[0], time / 10)?;
        results.split_seconds.push(self.split(split)?);
        sleep(UNTIL_FOLLOWED);
        // At the first like countd begins to read which users have their facts at the base. It asks the base for each like until it knows.
        self.likes(split, CONNECTIONS[0], time / 10)?;
        for connections in CONNECTIONS {
            for round in 0..ROUNDS {
                let mut likes = |eid| self.likes(eid, connections, time);
                let (whole, split) = match round % 2 {
                    0 => (likes(whole)?, likes(split)?),
                    _ => {
                        let split = likes(split)?;
                        (likes(whole)?, split)
                    }
                };
                results.pairs.push(Pair {
                    connections,
                    whole,
                    split,
                });
            }
        }
        Ok(())
    }

    /// Sends likes of new users on an entity for a time, and returns what each costs, counting included.
    fn likes(&mut self, eid: u64, connections: usize, time: Duration) -> Result<Costs> {
        let first = self.user;
        let nth = |number: u64| Cow::from(like(eid, first + number));
        let before = Usage::now(self)?;
        let done = send_each(self.countd.port, nth, connections, time)?;
        self.user += done;
        wait_until_counted(&self.countd)?;
        Ok(Usage::now(self)?.since(&before, done))
    }

    /// Splits an entity, and returns the seconds that it takes.
    fn split(&self, eid: u64) -> Result<f64> {
        let started = Instant::now();
        let command = format!("hot split note:{eid} --shards {SHARDS} --grace 0 --json");
        let printed = self.target.run(&command, &[])?;
        let seconds = started.elapsed().as_secs_f64();
        let report: Value = serde_json::from_str(&printed)?;
        let metrics = report["metrics"].as_array();
        let has_likes = metrics.is_some_and(|metrics| metrics.iter().any(|name| name == "like"));
        match report["phase"] == "split" && has_likes {
            true => Ok(seconds),
            false => Err(format!("countd hot split printed {report}").into()),
        }
    }

    /// Splits an entity, lets users like it, and merges it.
    fn merge(&mut self, eid: u64, facts: u64) -> Result<Merge> {
        self.split(eid)?;
        self.load(eid, facts)?;
        wait_until_counted(&self.countd)?;
        let (port, first, done) = (self.countd.port, self.user, AtomicBool::new(false));
        let (seconds, probed) = thread::scope(|scope| -> Result<(f64, Probed)> {
            let probe = || probe(port, (eid, first), &done).map_err(|why| why.to_string());
            let probing = scope.spawn(probe);
            sleep(PROBE_LEAD);
            let started = Instant::now();
            let command = format!("hot merge note:{eid} --json");
            let merged = self.target.run(&command, &[]);
            let seconds = started.elapsed().as_secs_f64();
            done.store(true, Relaxed);
            let probed = probing.join();
            merged?;
            Ok((seconds, probed.map_err(|_| "a client panicked")??))
        })?;
        self.user += probed.sent;
        let (expected, counted) = (facts + probed.accepted, self.count(eid)?);
        if counted != Some(expected) {
            return Err(format!("{counted:?} likes after a merge instead of {expected}").into());
        }
        Ok(Merge {
            facts,
            seconds,
            refused_seconds: probed.refused.as_secs_f64(),
        })
    }

    /// Lets new users like an entity, with requests of many actions.
    fn load(&mut self, eid: u64, likes: u64) -> Result<()> {
        let (port, first, next) = (self.countd.port, self.user, AtomicU64::new(0));
        run_threads(LOADERS, |_| {
            let mut http = Http::open(port)?;
            loop {
                let from = next.fetch_add(ACTIONS, Relaxed);
                if from >= likes {
                    return Ok(());
                }
                let mut lines = String::new();
                for user in from..likes.min(from + ACTIONS) {
                    let uid = first + user;
                    lines.push_str(&format!(
                        "{{\"metric\":\"like\",\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}\n"
                    ));
                }
                http.request(&post("/actions", &lines))?;
            }
        })?;
        self.user += likes;
        Ok(())
    }

    /// The counter of likes of an entity.
    fn count(&self, eid: u64) -> Result<Option<u64>> {
        let mut http = Http::open(self.countd.port)?;
        let body = http.request(&get(&format!("/counter/note/{eid}?metrics=like")))?;
        let counters: Value = serde_json::from_slice(body)?;
        Ok(counters["counts"]["like"].as_u64())
    }
}

/// A like.
fn like(eid: u64, uid: u64) -> Vec<u8> {
    let body = format!("{{\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}");
    post("/action/like", &body)
}

/// The CPU seconds that each part has used.
struct Usage {
    nodes: Vec<f64>,
    countd: f64,
}

impl Usage {
    fn now(running: &Running) -> Result<Usage> {
        let mut nodes = Vec::new();
        for server in running.servers {
            nodes.push(server.cpu_ns()? as f64 / 1e9);
        }
        Ok(Usage {
            nodes,
            countd: running.countd.cpu_seconds()?,
        })
    }

    /// What each of these likes has cost since `before`.
    fn since(&self, before: &Usage, likes: u64) -> Costs {
        let each = |now: f64, before: f64| (now - before) / likes as f64;
        let nodes = self.nodes.iter().zip(&before.nodes);
        let nodes: Vec<f64> = nodes.map(|(now, before)| each(*now, *before)).collect();
        Costs {
            busiest: nodes.iter().copied().fold(0.0, f64::max),
            redis: nodes.iter().sum(),
            countd: each(self.countd, before.countd),
        }
    }
}

/// What the client has seen that sends likes during a merge.
#[derive(Default)]
struct Probed {
    /// The number of likes.
    sent: u64,
    /// The number of accepted likes.
    accepted: u64,
    /// The time from a like that was refused to the next one that was accepted.
    refused: Duration,
}

/// Sends likes of users from `first` on, one after the other, until `done` is true and one is accepted.
fn probe(port: u16, (eid, first): (u64, u64), done: &AtomicBool) -> Result<Probed> {
    let mut http = Http::open(port)?;
    let mut probed = Probed::default();
    let mut refused_since = None;
    loop {
        let sent = Instant::now();
        let is_refused = http.is_refused(&like(eid, first + probed.sent), "merging")?;
        probed.sent += 1;
        if is_refused {
            if sent - *refused_since.get_or_insert(sent) > TIMEOUT {
                return Err("likes are refused long after the beginning of a merge".into());
            }
        } else {
            probed.accepted += 1;
            if let Some(since) = refused_since.take() {
                probed.refused += sent - since;
            }
            if done.load(Relaxed) {
                return Ok(probed);
            }
        }
        sleep(PROBE_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_node_is_the_one_that_has_used_most_since() {
        let usage = |nodes: [f64; 3], countd| Usage {
            nodes: nodes.to_vec(),
            countd,
        };
        let before = usage([8.0, 1.0, 2.0], 1.0);
        let costs = usage([9.0, 5.0, 4.0], 4.0).since(&before, 2);
        assert_eq!((costs.busiest, costs.redis, costs.countd), (2.0, 3.5, 1.5));
    }
}
