//! `[metrics]`: the actions of users on entities, and the counters that they change.

use super::error::{ConfigError, invalid};
use super::users::UsersConfig;
use crate::domain::author_feed::AuthorFeed;
use crate::domain::ids::Name;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// The entity type of users. It has no schema.
pub const USER: &str = "user";

/// The maximum of `window_seconds`: a year.
const MAX_WINDOW: u64 = 365 * 24 * 3600;
/// The names after `x:` of streams that are not those of a metric.
const RESERVED_STREAMS: [&str; 3] = ["cnt-update", "audit", "changes"];
/// The default of `latest`.
pub const DEFAULT_LATEST: u32 = 1_000;
/// The maximum of `latest`. The first page of a timeline reads that many facts.
pub const MAX_LATEST: u32 = 5_000;

/// How often a user can perform a metric on an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nature {
    /// At most once. The fact is stored.
    Once,
    /// Any number of times. No fact is stored.
    Repeatable,
}

/// The fact store of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactKind {
    /// A set of 64-bit IDs of the module.
    #[default]
    Rbm,
    /// Bitmaps.
    Bitmap,
    /// A Set per day. Old days are compacted into one set of IDs.
    Daily,
    /// A fixed number of Sets.
    Sharded,
}

impl FactKind {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            FactKind::Rbm => "rbm",
            FactKind::Bitmap => "bitmap",
            FactKind::Daily => "daily",
            FactKind::Sharded => "sharded",
        }
    }
}

/// The order of the users who performed a metric on an entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The order of the fact store.
    #[default]
    Id,
    /// The latest users first, then the others in the order of the fact store.
    Time,
}

/// When the entity's counter changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Count {
    /// Atomically with the action.
    Now,
    /// When the consumer commits the event.
    Batched,
    /// Never: the entity has no such counter.
    Never,
}

/// The role of a user in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user who acts.
    Actor,
    /// The author of the entity.
    Author,
    /// The entity itself, which is a user.
    Target,
}

/// A user counter that a metric updates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// The counter.
    pub counter: Name,
    /// The role of the user whose counter it is.
    pub of: Role,
}

/// Where the events of a metric are kept for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// In a stream for each entity and day.
    Stream,
}

/// The configuration of a metric.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// How often a user can perform it.
    pub nature: Nature,
    /// When the entity's counter changes.
    pub count: Count,
    /// The fact store of a *once* metric.
    #[serde(default)]
    pub facts: Option<FactKind>,
    /// With a repeatable metric: a user counts once for an entity in each window of this length, in seconds.
    #[serde(default)]
    pub window_seconds: Option<u64>,
    /// Other names in requests.
    #[serde(default)]
    pub aliases: Vec<Name>,
    /// The entity types that have the metric; `None` means all.
    #[serde(default)]
    pub entities: Option<Vec<Name>>,
    /// The user counters that the metric updates.
    #[serde(default)]
    pub users: Vec<Feed>,
    /// The role of the user whom the metric makes the author of the entity.
    #[serde(default)]
    pub names_author: Option<NamesAuthor>,
    /// Whether a user's facts are kept for the user, too. The stored layout of the data has precedence.
    #[serde(default)]
    pub reverse: bool,
    /// The order of the users who performed the metric on an entity.
    #[serde(default)]
    pub order: Order,
    /// The number of newest facts whose times are kept, for each user with `reverse` and for each entity with `order = "time"`.
    #[serde(default)]
    pub latest: Option<u32>,
    /// Whether counts are kept by day.
    #[serde(default)]
    pub daily: bool,
    /// Where the events are kept for readers.
    #[serde(default)]
    pub reads: Option<Reads>,
}

/// The user whom a metric makes the author of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamesAuthor {
    /// The user who acts.
    Actor,
}

impl Metric {
    /// Validates the settings of counts by day.
    fn validate_days(&self, name: &Name) -> Result<(), ConfigError> {
        if self.daily && self.count == Count::Never {
            let problem = "a metric without a counter has no counts by day";
            return Err(invalid(format!("metrics.{name}.daily"), problem));
        }
        let setting = format!("metrics.{name}.reads");
        match self.reads {
            Some(_) if !self.daily => Err(invalid(setting, "requires daily = true")),
            Some(_) if RESERVED_STREAMS.contains(&name.as_str()) => Err(invalid(
                setting,
                "the streams of a metric with this name would be among those of countd",
            )),
            _ => Ok(()),
        }
    }

    /// Validates the settings of the times of facts.
    fn validate_times(&self, name: &Name) -> Result<(), ConfigError> {
        let setting = |field: &str| format!("metrics.{name}.{field}");
        let no_facts = "a repeatable metric has no facts";
        if self.nature == Nature::Repeatable {
            if self.reverse {
                return Err(invalid(setting("reverse"), no_facts));
            }
            if self.order == Order::Time {
                return Err(invalid(setting("order"), no_facts));
            }
        }
        match self.latest {
            Some(_) if !self.reverse && self.order == Order::Id => Err(invalid(
                setting("latest"),
                "requires reverse = true or order = \"time\"",
            )),
            Some(latest) if !(1..=MAX_LATEST).contains(&latest) => Err(invalid(
                setting("latest"),
                format!("must be 1 to {MAX_LATEST}"),
            )),
            _ => Ok(()),
        }
    }

    /// Whether entities of this type have the metric.
    pub fn applies_to(&self, etype: &Name) -> bool {
        self.entities
            .as_ref()
            .is_none_or(|types| types.contains(etype))
    }

    /// The counters of an entity's author that the metric updates.
    pub fn author_counters(&self) -> impl Iterator<Item = &Name> {
        let feeds = self.users.iter();
        feeds.filter_map(|feed| (feed.of == Role::Author).then_some(&feed.counter))
    }

    /// Whether stored data has the name of the metric: facts, counts by day, or what authors were credited with.
    pub fn is_bound_to_name(&self) -> bool {
        self.nature == Nature::Once || self.daily || self.author_counters().next().is_some()
    }

    /// The number of newest facts whose times are kept.
    pub fn latest(&self) -> u32 {
        self.latest.unwrap_or(DEFAULT_LATEST)
    }

    /// The fact store; `None` for a repeatable metric.
    pub fn fact_kind(&self) -> Option<FactKind> {
        (self.nature == Nature::Once).then(|| self.facts.unwrap_or_default())
    }
}

/// The metrics by name, and their aliases.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "BTreeMap<Name, Metric>")]
pub struct MetricsConfig {
    by_name: BTreeMap<Name, Metric>,
    aliases: HashMap<Name, Name>,
}

impl TryFrom<BTreeMap<Name, Metric>> for MetricsConfig {
    type Error = String;

    fn try_from(by_name: BTreeMap<Name, Metric>) -> Result<MetricsConfig, String> {
        let mut aliases = HashMap::new();
        for (name, metric) in &by_name {
            for alias in &metric.aliases {
                let is_taken = by_name.contains_key(alias);
                if is_taken || aliases.insert(alias.clone(), name.clone()).is_some() {
                    return Err(format!("{alias} is the name of two metrics"));
                }
            }
        }
        Ok(MetricsConfig { by_name, aliases })
    }
}

impl MetricsConfig {
    /// Looks up a metric by name or alias. Returns its name and configuration.
    pub fn get(&self, name: &str) -> Option<(&Name, &Metric)> {
        self.by_name.get_key_value(self.resolve(name))
    }

    /// All metrics, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Metric)> {
        self.by_name.iter()
    }

    /// The metrics that update counters of authors, ordered by name.
    pub fn of_authors(&self) -> impl Iterator<Item = &Name> {
        let metrics = self.by_name.iter();
        metrics.filter_map(|(name, metric)| metric.author_counters().next().map(|_| name))
    }

    /// The counter of authors that a metric feeds. `None` if only the configuration of the metric could tell, and it does not have the
    /// metric.
    pub fn author_counter<'a>(&'a self, feed: &'a AuthorFeed) -> Option<&'a Name> {
        let configured = || {
            let (_, metric) = self.get(feed.metric.as_str())?;
            metric.author_counters().next()
        };
        feed.counter.as_ref().or_else(configured)
    }

    /// The counters of authors that metrics update, ordered by metric.
    pub fn author_feeds(&self) -> impl Iterator<Item = AuthorFeed> {
        self.by_name.iter().flat_map(|(name, metric)| {
            let counters = metric.author_counters();
            counters.map(|counter| AuthorFeed {
                metric: name.clone(),
                counter: Some(counter.clone()),
            })
        })
    }

    /// The metrics whose facts are kept for users, too, ordered by name.
    pub fn reverse(&self) -> impl Iterator<Item = &Name> {
        let metrics = self.by_name.iter();
        metrics.filter_map(|(name, metric)| metric.reverse.then_some(name))
    }

    /// The metrics with counts by day, ordered by name.
    pub fn daily(&self) -> impl Iterator<Item = (&Name, &Metric)> {
        self.iter().filter(|(_, metric)| metric.daily)
    }

    /// Replaces an alias by the name of its metric; returns any other name unchanged.
    pub fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, Name::as_str)
    }

    pub(super) fn validate(
        &self,
        is_type: impl Fn(&Name) -> bool,
        users: &UsersConfig,
    ) -> Result<(), ConfigError> {
        for (name, metric) in &self.by_name {
            let counters = metric.users.iter().map(|feed| &feed.counter);
            if let Some(unknown) = counters.into_iter().find(|of| users.counter(of).is_none()) {
                let problem = format!("there is no counter {unknown} of users: see users.counters");
                return Err(invalid(format!("metrics.{name}.users"), problem));
            }
            for etype in metric.entities.iter().flatten() {
                if !is_type(etype) {
                    let problem = format!("there is no entity type {etype}");
                    return Err(invalid(format!("metrics.{name}.entities"), problem));
                }
            }
            if metric.nature == Nature::Repeatable && metric.facts.is_some() {
                let problem = "a repeatable metric has no facts";
                return Err(invalid(format!("metrics.{name}.facts"), problem));
            }
            metric.validate_times(name)?;
            metric.validate_days(name)?;
            if let Some(seconds) = metric.window_seconds {
                let setting = format!("metrics.{name}.window_seconds");
                if metric.nature == Nature::Once {
                    let problem = "a once metric counts once in any case";
                    return Err(invalid(setting, problem));
                }
                if !(1..=MAX_WINDOW).contains(&seconds) {
                    return Err(invalid(setting, format!("must be 1 to {MAX_WINDOW}")));
                }
            }
            let targets_users = metric.users.iter().any(|feed| feed.of == Role::Target);
            let only_users = metric
                .entities
                .as_ref()
                .is_some_and(|types| types.iter().all(|etype| etype.as_str() == USER));
            if targets_users && !only_users {
                let problem = "\"target\" requires entities = [\"user\"]";
                return Err(invalid(format!("metrics.{name}.users"), problem));
            }
        }
        Ok(())
    }
}
