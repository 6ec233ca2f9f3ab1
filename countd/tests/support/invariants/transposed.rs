//! The facts of users are the facts of entities, transposed.

use super::data::{Data, twice};
use countd::domain::config::Config;
use std::collections::{BTreeMap, BTreeSet};

/// Compares the facts of users with those of entities, for all metrics whose facts are kept for users from the start or since a backfill.
pub fn facts_of_users(data: &Data, config: &Config, found: &mut Vec<String>) {
    let from_start = data.layout.get("reverse_metrics").cloned();
    let from_start = from_start.unwrap_or_default();
    for name in config.metrics.reverse() {
        let backfilled = data.layout.get(&format!("reverse:{name}"));
        let is_kept = from_start.split_whitespace().any(|of| of == name.as_str())
            || backfilled.is_some_and(|state| state == "on");
        if !is_kept {
            continue;
        }
        let is_of_metric = |kind: &(String, String)| kind.0 == name.as_str();
        let kinds = data.facts.keys().chain(data.reverse.keys());
        let kinds: BTreeSet<_> = kinds.filter(|kind| is_of_metric(kind)).collect();
        for kind in kinds {
            let expected = transposed(data, kind);
            let kept = data.reverse.get(kind);
            let users = kept.into_iter().flat_map(BTreeMap::keys);
            let users: BTreeSet<&str> = users
                .map(String::as_str)
                .chain(expected.keys().copied())
                .collect();
            for uid in users {
                let none = BTreeSet::new();
                let expected = expected.get(uid).unwrap_or(&none);
                let eids = kept.and_then(|kept| kept.get(uid));
                let eids = eids.map(Vec::as_slice).unwrap_or_default();
                let what = format!("I4: {name} of user {uid} for {}", kind.1);
                for twice in twice(eids) {
                    found.push(format!("{what} has {twice} twice"));
                }
                let eids: BTreeSet<&str> = eids.iter().map(String::as_str).collect();
                for missing in expected.difference(&eids) {
                    found.push(format!("{what} lacks {missing}"));
                }
                for more in eids.difference(expected) {
                    found.push(format!("{what} has {more} without a fact"));
                }
            }
        }
    }
}

/// The entities of a metric and type by user.
fn transposed<'d>(data: &'d Data, kind: &(String, String)) -> BTreeMap<&'d str, BTreeSet<&'d str>> {
    let mut by_user: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (eid, facts) in data.facts.get(kind).into_iter().flatten() {
        for uid in &facts.users {
            by_user.entry(uid).or_default().insert(eid);
        }
    }
    by_user
}
