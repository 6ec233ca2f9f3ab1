//! The invariants.

use super::data::{ById, Data, twice};
use super::transposed;
use countd::domain::config::{Config, Count, FactKind, Metric, Role, USER};
use std::collections::{BTreeMap, BTreeSet};

/// All violations. `without` are counters of users that are left out.
pub fn violations(data: &Data, config: &Config, without: &[&str]) -> Vec<String> {
    let rules = Rules { data, config };
    let mut found = data.damages.clone();
    rules.facts(&mut found);
    rules.days(&mut found);
    rules.credits(&mut found);
    rules.users(without, &mut found);
    transposed::facts_of_users(data, config, &mut found);
    found.sort_unstable();
    found
}

struct Rules<'d> {
    data: &'d Data,
    config: &'d Config,
}

/// The counters of a metric of the entities of a type.
struct Counters<'d> {
    by_id: Option<&'d ById<Vec<u64>>>,
    idx: usize,
}

impl Counters<'_> {
    /// A counter that is missing, or beyond the end of an object, is 0.
    fn get(&self, eid: &str) -> u64 {
        let counters = self.by_id.and_then(|by_id| by_id.get(eid));
        let count = counters.and_then(|counters| counters.get(self.idx));
        count.copied().unwrap_or(0)
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        let all = self.by_id.into_iter().flat_map(BTreeMap::keys);
        all.map(String::as_str)
    }
}

impl<'d> Rules<'d> {
    /// The counters of a metric, by entity type.
    fn counters_of(&self, name: &str, metric: &Metric) -> Vec<(&'d str, Counters<'d>)> {
        let mut found = Vec::new();
        if metric.count == Count::Never {
            return found;
        }
        for (etype, entity) in &self.config.entities {
            let schema = self.data.schemas.get(entity.schema.as_str());
            let idx = schema.and_then(|schema| schema.get(name));
            if let Some(idx) = idx.filter(|_| metric.applies_to(etype)) {
                let kind = (entity.schema.to_string(), etype.to_string());
                let by_id = self.data.counters.get(&kind);
                found.push((etype.as_str(), Counters { by_id, idx: *idx }));
            }
        }
        found
    }

    /// Whether events without facts were counted for a metric.
    fn is_external(&self, metric: &str) -> bool {
        self.data.layout.contains_key(&format!("external:{metric}"))
    }

    /// I1, and that each fact is stored once and found by its index.
    fn facts(&self, found: &mut Vec<String>) {
        for ((metric, etype), of) in &self.data.facts {
            let kind = self.config.metrics.get(metric);
            let kind = kind.and_then(|(_, metric)| metric.fact_kind());
            for (eid, facts) in of {
                let what = format!("I1: {metric} of {etype} {eid}");
                for twice in twice(&facts.users) {
                    found.push(format!("{what}: the fact of user {twice} is stored twice"));
                }
                let is_indexed = |part: &str| match kind {
                    Some(FactKind::Daily) => part != "old",
                    Some(FactKind::Bitmap) => true,
                    _ => false,
                };
                let parts = facts.parts.iter().filter(|part| is_indexed(part.as_str()));
                let (parts, index) = (set(parts), set(&facts.index));
                if parts != index {
                    found.push(format!("{what}: the index is {index:?}, not {parts:?}"));
                }
            }
        }
        for (name, metric) in self.config.metrics.iter() {
            if metric.fact_kind().is_none() || self.is_external(name.as_str()) {
                continue;
            }
            for (etype, counters) in self.counters_of(name.as_str(), metric) {
                let facts = self.data.facts.get(&(name.to_string(), etype.to_owned()));
                let with_facts = facts.into_iter().flat_map(BTreeMap::keys);
                let ids: BTreeSet<&str> = with_facts
                    .map(String::as_str)
                    .chain(counters.ids())
                    .collect();
                for eid in ids {
                    let facts = facts.and_then(|facts| facts.get(eid));
                    let facts = facts.map_or(0, |facts| set(&facts.users).len());
                    let count = counters.get(eid);
                    if count != facts as u64 {
                        found.push(format!(
                            "I1: {name} of {etype} {eid} is {count}, with {facts} facts"
                        ));
                    }
                }
            }
        }
    }

    /// I2.
    fn days(&self, found: &mut Vec<String>) {
        for (name, metric) in self.config.metrics.daily() {
            for (etype, counters) in self.counters_of(name.as_str(), metric) {
                let kind = (name.to_string(), etype.to_owned());
                let (days, totals) = (self.data.days.get(&kind), self.data.totals.get(&kind));
                let with_days = days.into_iter().flat_map(BTreeMap::keys);
                let with_totals = totals.into_iter().flat_map(BTreeMap::keys);
                let all = with_days.chain(with_totals).map(String::as_str);
                let ids: BTreeSet<&str> = all.chain(counters.ids()).collect();
                for eid in ids {
                    let count = counters.get(eid);
                    let sum = days.and_then(|days| days.get(eid)).copied().unwrap_or(0);
                    let total = totals.and_then(|totals| totals.get(eid));
                    let total = total.copied().unwrap_or(0);
                    if i64::try_from(count) != Ok(sum) || count != total {
                        found.push(format!(
                            "I2: {name} of {etype} {eid} is {count}, its days {sum}, its total {total}"
                        ));
                    }
                }
            }
        }
    }

    /// Whether authors are credited with the counters of their entities.
    fn has_registry(&self) -> bool {
        self.data
            .layout
            .get("authors")
            .is_some_and(|of| of == "registry")
    }

    /// The part of I3 in the slot of an entity: its author was credited with its counters.
    fn credits(&self, found: &mut Vec<String>) {
        let columns = self.data.layout.get("author_metrics").cloned();
        let columns = columns.unwrap_or_default();
        for (column, feed) in columns.split_whitespace().enumerate() {
            let (name, counter) = feed.split_once('>').unwrap_or((feed, ""));
            let Some((name, metric)) = self.config.metrics.get(name) else {
                continue;
            };
            let is_fed = metric.author_counters().any(|of| of.as_str() == counter);
            if !is_fed || !self.has_registry() {
                continue;
            }
            for (etype, counters) in self.counters_of(name.as_str(), metric) {
                let authors = self.data.authors.get(etype).into_iter().flatten();
                for (eid, author) in authors.filter(|(_, author)| !author.uid.is_empty()) {
                    let credited = author.credited.get(column).copied().unwrap_or(0);
                    let count = counters.get(eid);
                    if credited != count {
                        let uid = &author.uid;
                        found.push(format!(
                            "I3: {name} of {etype} {eid} is {count}, and {counter} of user {uid} was credited with {credited}"
                        ));
                    }
                }
            }
        }
    }

    /// What each user's counter must be; `None` if it cannot be computed.
    fn expected(&self, counter: &str) -> Option<ById<u64>> {
        let mut expected: ById<u64> = BTreeMap::new();
        let mut add = |uid: &str, count: u64| {
            if count > 0 {
                *expected.entry(uid.to_owned()).or_default() += count;
            }
        };
        for (name, metric) in self.config.metrics.iter() {
            let feeds = metric.users.iter();
            for feed in feeds.filter(|feed| feed.counter.as_str() == counter) {
                if feed.of == Role::Author {
                    if !self.has_registry() {
                        return None;
                    }
                    for (etype, counters) in self.counters_of(name.as_str(), metric) {
                        for (eid, author) in self.data.authors.get(etype).into_iter().flatten() {
                            if !author.uid.is_empty() {
                                add(&author.uid, counters.get(eid));
                            }
                        }
                    }
                    continue;
                }
                if metric.fact_kind().is_none() || self.is_external(name.as_str()) {
                    return None;
                }
                let of = self.data.facts.iter();
                let of = of.filter(|((metric, _), _)| metric == name.as_str());
                for ((_, etype), of) in of {
                    for (eid, facts) in of {
                        let users = set(&facts.users);
                        if feed.of == Role::Actor {
                            users.iter().for_each(|uid| add(uid, 1));
                        } else if etype == USER {
                            add(eid, users.len() as u64);
                        }
                    }
                }
            }
        }
        Some(expected)
    }

    /// I3 and the counters of I4.
    fn users(&self, without: &[&str], found: &mut Vec<String>) {
        let counters = self.config.users.names();
        for (idx, counter) in counters.iter().enumerate() {
            let Some(expected) = self.expected(counter.as_str()) else {
                continue;
            };
            if without.contains(&counter.as_str()) {
                continue;
            }
            let ids: BTreeSet<&String> = expected.keys().chain(self.data.users.keys()).collect();
            for uid in ids {
                let expected = expected.get(uid).copied().unwrap_or(0);
                let counters = self.data.users.get(uid);
                let count = counters.and_then(|counters| counters.get(idx));
                let count = count.copied().unwrap_or(0);
                if count != expected {
                    let rule = match self.is_received(counter.as_str()) {
                        true => "I3",
                        false => "I4",
                    };
                    found.push(format!(
                        "{rule}: {counter} of user {uid} is {count}, not {expected}"
                    ));
                }
            }
        }
    }

    fn is_received(&self, counter: &str) -> bool {
        let mut metrics = self.config.metrics.iter();
        metrics.any(|(_, metric)| metric.author_counters().any(|of| of.as_str() == counter))
    }
}

fn set<'i>(ids: impl IntoIterator<Item = &'i String>) -> BTreeSet<&'i str> {
    ids.into_iter().map(String::as_str).collect()
}
