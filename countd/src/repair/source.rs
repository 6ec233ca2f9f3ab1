//! What counters are computed from when they are checked or rebuilt.

use crate::domain::config::{
    BUILT_IN_COUNTERS, Config, Count, FactKind, Metric, Role, UserCounter,
};
use crate::domain::ids::Name;
use crate::redis::layout::{Authors, StoredLayout};

/// What a counter of an entity is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The number of facts. Fact and counter change in one step.
    Facts(FactKind),
    /// The number of facts. The counter changes when the consumer commits the event.
    FactsBatched(FactKind),
    /// The total and the days of the counter, which change in the same steps.
    Days,
    /// Nothing: the counter cannot be computed.
    None,
}

/// What a counter of a user is computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserSource {
    /// The facts of these metrics on the user.
    Target(Vec<Name>),
    /// The facts that are kept for the user, of these metrics.
    Reverse(Vec<Name>),
    /// What the user was credited with as the author of entities.
    Credits,
    /// Nothing: the counter cannot be computed.
    None,
}

/// The sources of all counters.
pub struct Sources<'a> {
    config: &'a Config,
    layout: &'a StoredLayout,
}

impl<'a> Sources<'a> {
    /// The sources of the counters of this configuration and data.
    pub fn new(config: &'a Config, layout: &'a StoredLayout) -> Sources<'a> {
        Sources { config, layout }
    }

    /// The source of an entity's counter of a metric.
    pub fn of_entity(&self, metric: &Name) -> Source {
        let Some((name, metric)) = self.config.metrics.get(metric.as_str()) else {
            return Source::None;
        };
        let facts = metric
            .fact_kind()
            .filter(|_| !self.layout.is_external(name));
        match (facts, metric.count) {
            (Some(kind), Count::Now) => Source::Facts(kind),
            (Some(kind), Count::Batched) => Source::FactsBatched(kind),
            (None, Count::Now | Count::Batched) if metric.daily => Source::Days,
            (_, Count::Never) | (None, _) => Source::None,
        }
    }

    /// The metrics whose facts on users are counted by counters of users, and their fact stores.
    pub fn of_followers(&self) -> Vec<(Name, FactKind)> {
        let mut metrics = Vec::new();
        for name in self.config.users.names() {
            let counter = self.config.users.counter(&name);
            if let Some(UserSource::Target(names)) = counter.map(|counter| self.of_user(&counter)) {
                metrics.extend(names.into_iter().filter_map(|name| {
                    let kind = self.config.metrics.get(name.as_str())?.1.fact_kind()?;
                    Some((name, kind))
                }));
            }
        }
        metrics
    }

    /// The source of a user's counter. A counter that several roles feed, or repeatable metrics, has none. Neither has one that can be reset.
    pub fn of_user(&self, counter: &UserCounter) -> UserSource {
        if usize::from(counter.index()) >= BUILT_IN_COUNTERS.len() {
            return UserSource::None;
        }
        let mut feeders: Vec<(&Name, &Metric, Role)> = Vec::new();
        for (name, metric) in self.config.metrics.iter() {
            for feed in &metric.users {
                if feed.counter == *counter.name() {
                    feeders.push((name, metric, feed.of));
                }
            }
        }
        let Some((_, _, role)) = feeders.first().copied() else {
            return UserSource::None;
        };
        // Whatever changes the counters of entities, the commit credits their authors with it.
        let is_credit = feeders.iter().all(|(.., of)| *of == Role::Author);
        if is_credit && matches!(self.layout.authors, Authors::Registry { .. }) {
            return UserSource::Credits;
        }
        let is_computed = |(name, metric, of): &(&Name, &Metric, Role)| {
            *of == role && metric.fact_kind().is_some() && !self.layout.is_external(name)
        };
        if !feeders.iter().all(is_computed) {
            return UserSource::None;
        }
        let names = || feeders.iter().map(|(name, ..)| (*name).clone()).collect();
        let has_reverse = |(name, ..): &(&Name, &Metric, Role)| self.layout.has_reverse(name);
        match role {
            Role::Target => UserSource::Target(names()),
            Role::Actor if feeders.iter().all(has_reverse) => UserSource::Reverse(names()),
            _ => UserSource::None,
        }
    }
}
