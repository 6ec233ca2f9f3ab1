//! Visits all keys with facts and timelines.

use super::state::State;
use super::sweep::Transposition;
use crate::domain::config::FactKind;
use crate::domain::error::StoreError;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::{KeyName, Partition, ReverseKey};
use crate::maintenance::pace::Pace;
use crate::maintenance::visits::{Observer, Visits, node_sizes};
use crate::redis::run_id::run_id;
use crate::redis::script::CounterBackend;
use futures_util::{StreamExt, TryStreamExt, stream};
use redis::aio::ConnectionManager;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::{Mutex, watch};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 COUNT 1"];

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 500;
/// A key without facts takes this fraction of the time of a fact.
const KEYS_PER_FACT: usize = 10;
/// The number of keys that are compared at the same time. Most timelines are short: their round trips would take most of the time.
const MAX_IN_FLIGHT: usize = 16;

/// How a key stores IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// An id set of the module.
    Ids,
    /// A Set.
    Set,
    /// The bits of a chunk with this number.
    Bits(u64),
    /// A table with a row for each ID.
    Table,
    /// A sorted set.
    Scored,
}

/// What the IDs at a key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The users who performed a metric on an entity.
    Facts(Name, Entity),
    /// The entities on which a user performed a metric.
    Timeline(ReverseKey),
}

/// A sweep through the keys of a node.
struct Visit<'a> {
    server: ConnectionManager,
    lowest: Partition,
    metrics: &'a BTreeSet<Name>,
    pace: Mutex<Pace>,
}

impl Transposition {
    /// Compares the facts and timelines of all nodes. Returns false if `stop` turns true first.
    pub(super) async fn visit_all(
        &self,
        state: &State,
        stop: &watch::Receiver<bool>,
        observer: Observer<'_>,
    ) -> Result<bool, StoreError> {
        let (metrics, mut types) = (self.metrics(), state.types.clone());
        if metrics.is_empty() {
            return Ok(true);
        }
        let nodes = self.store.node_map();
        let mut lowest: BTreeMap<usize, Partition> = BTreeMap::new();
        for partition in (0..self.store.keys().partitions()).rev() {
            lowest.insert(nodes.node_of(partition), partition);
        }
        let mut visits = self.visits(observer).await?;
        for (node, server) in self.store.servers()?.into_iter().enumerate() {
            let Some(lowest) = lowest.get(&node) else {
                (0..self.passes()).for_each(|_| visits.end_part());
                continue;
            };
            let visit = Visit {
                server,
                lowest: *lowest,
                metrics: &metrics,
                pace: Mutex::new(Pace::new(self.config.reconcile.facts_per_second)),
            };
            if !self
                .visit_node((visit, &mut visits), state, &mut types, stop)
                .await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The progress of a sweep that begins or continues.
    async fn visits<'a>(&self, observer: Observer<'a>) -> Result<Visits<'a>, StoreError> {
        let sizes = async {
            let nodes = node_sizes(&self.store).await?.into_iter();
            let sizes = nodes.flat_map(|size| (0..self.passes()).map(move |_| size));
            Ok(sizes.collect())
        };
        let step = ("comparing all facts of users", "facts and timelines");
        Visits::begin(observer, step, sizes).await
    }

    /// The number of passes over the keys of a node.
    fn passes(&self) -> u64 {
        // Compaction may move facts from a key that was not visited yet to one that was. The second pass finds them there.
        if self.has_daily() { 2 } else { 1 }
    }

    async fn visit_node(
        &self,
        (mut visit, visits): (Visit<'_>, &mut Visits<'_>),
        state: &State,
        types: &mut BTreeSet<(Name, Name)>,
        stop: &watch::Receiver<bool>,
    ) -> Result<bool, StoreError> {
        let run = run_id(&mut visit.server).await?;
        let field = Transposition::cursor_field(visit.lowest);
        let saved = state.cursors.get(&field).map_or("", String::as_str);
        let (mut pass, mut cursor) = resume(saved, &run);
        (0..pass.min(self.passes())).for_each(|_| visits.end_part());
        while pass < self.passes() {
            // An adoption converts keys while they are compared.
            if *stop.borrow() || self.store.backend().is_mixed() {
                return Ok(false);
            }
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(SCAN_COUNT);
            let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(&mut visit.server).await?;
            let visited = found.len() as u64;
            let keys = found.into_iter();
            let keys: Vec<_> = keys
                .filter_map(|key| self.key(key, visit.metrics))
                .collect();
            for (_, _, subject) in &keys {
                if let Subject::Facts(metric, entity) = subject {
                    types.insert((metric.clone(), entity.etype.clone()));
                }
            }
            let mut comparisons = Vec::with_capacity(keys.len());
            for (key, form, subject) in &keys {
                comparisons.push(self.compare_key(key, *form, subject, (&visit.pace, stop)));
            }
            let compared = stream::iter(comparisons).buffer_unordered(MAX_IN_FLIGHT);
            let are_compared: Vec<bool> = compared.try_collect().await?;
            if are_compared.contains(&false) {
                return Ok(false);
            }
            visit.pace.get_mut().add(SCAN_COUNT / KEYS_PER_FACT).await;
            visits.add(visited, keys.len() as u64);
            cursor = next;
            if cursor == 0 {
                pass += 1;
                visits.end_part();
            }
            let saved = format!("{run}/{pass}/{cursor}");
            self.save_cursor(visit.lowest, saved, types).await?;
        }
        Ok(true)
    }

    fn has_daily(&self) -> bool {
        let mut metrics = self.config.metrics.iter();
        metrics.any(|(_, metric)| metric.fact_kind() == Some(FactKind::Daily))
    }

    /// What a key holds. `None` for keys without facts of these metrics.
    fn key(&self, key: Vec<u8>, metrics: &BTreeSet<Name>) -> Option<(String, Form, Subject)> {
        let (keys, backend) = (self.store.keys(), self.store.backend());
        let has_module = backend == CounterBackend::Module;
        let ids = if has_module { Form::Ids } else { Form::Set };
        let key = String::from_utf8(key).ok()?;
        if let Some(timeline) = keys.reverse_of(&key) {
            let form = match (timeline.is_newest, timeline.is_plain) {
                (true, false) if has_module => Form::Table,
                (true, _) => Form::Scored,
                (false, false) => ids,
                (false, true) => Form::Set,
            };
            let is_kept = metrics.contains(&timeline.metric);
            return is_kept.then_some((key, form, Subject::Timeline(timeline)));
        }
        let KeyName::Facts { metric, entity } = KeyName::parse(&keys, key.as_bytes())? else {
            return None;
        };
        let mut parts = key.split(':');
        let form = match (parts.next()?, parts.nth(3)) {
            ("rbm", _) => ids,
            // Indexes.
            ("s", Some("days")) | ("bm", Some("chunks")) => return None,
            ("bm", Some(chunk)) => Form::Bits(chunk.parse().ok()?),
            _ => Form::Set,
        };
        let subject = Subject::Facts(metric.clone(), entity);
        metrics.contains(&metric).then_some((key, form, subject))
    }
}

/// The pass and the cursor at which a saved sweep of a node continues. A cursor is valid in one run of the server.
fn resume(saved: &str, run: &str) -> (u64, u64) {
    let parts: Vec<&str> = saved.split('/').collect();
    match parts[..] {
        [of, pass, cursor] => {
            let pass = pass.parse().unwrap_or(0);
            let cursor = cursor.parse().unwrap_or(0);
            // A pass that has ended does not depend on the run.
            (pass, if of == run { cursor } else { 0 })
        }
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_in_one_run_of_the_server() {
        assert_eq!(resume("", "a"), (0, 0));
        assert_eq!(resume("a/1/17", "a"), (1, 17));
        assert_eq!(resume("b/1/17", "a"), (1, 0));
        assert_eq!(resume("b/2/0", "a"), (2, 0));
    }
}
