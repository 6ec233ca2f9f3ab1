//! What can be done to an entity, and what follows from it.

use super::{ConfigError, invalid};
use crate::domain::ids::Name;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// How often a user does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nature {
    /// At most once; the fact that he did is kept.
    Once,
    /// Any number of times.
    Repeatable,
}

/// How it is kept who did it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactKind {
    /// In a set of 64-bit ids of the module.
    #[default]
    Rbm,
    /// As bits.
    Bitmap,
    /// In a Set for each day; old days are folded into one of ids.
    Daily,
    /// In a Set for each of some shards.
    Sharded,
}

impl FactKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FactKind::Rbm => "rbm",
            FactKind::Bitmap => "bitmap",
            FactKind::Daily => "daily",
            FactKind::Sharded => "sharded",
        }
    }
}

/// When the entity's counter changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Count {
    /// In the same step as the action.
    Now,
    /// When the consumer gets to the event.
    Batched,
    /// It has no counter there.
    Never,
}

/// The counters of a user, in the order of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UserCounter {
    /// Users that he follows.
    Followings,
    /// Users who follow him.
    Followers,
    /// What he published.
    Posts,
    /// Likes of what he published.
    LikesReceived,
    /// Favourites of what he published.
    FavsReceived,
}

impl UserCounter {
    /// All of them, in the order of their fields.
    pub const ALL: [UserCounter; 5] = [
        UserCounter::Followings,
        UserCounter::Followers,
        UserCounter::Posts,
        UserCounter::LikesReceived,
        UserCounter::FavsReceived,
    ];

    /// The index of its field.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            UserCounter::Followings => "followings",
            UserCounter::Followers => "followers",
            UserCounter::Posts => "posts",
            UserCounter::LikesReceived => "likesReceived",
            UserCounter::FavsReceived => "favsReceived",
        }
    }
}

/// Which user an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Who acts.
    Actor,
    /// Whom the action names as the author of the entity.
    Author,
    /// The user that the entity is.
    Target,
}

/// A counter of a user that a metric feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// The counter.
    pub counter: UserCounter,
    /// Whose.
    pub of: Role,
}

/// One metric.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// How often a user does it.
    pub nature: Nature,
    /// When it is counted.
    pub count: Count,
    /// How it is kept who did it, if a user does it at most once.
    #[serde(default)]
    pub facts: Option<FactKind>,
    /// Other names in requests.
    #[serde(default)]
    pub aliases: Vec<Name>,
    /// The only types of entity that have it; `None` for all.
    #[serde(default)]
    pub entities: Option<Vec<Name>>,
    /// Counters of users that it feeds.
    #[serde(default)]
    pub users: Vec<Feed>,
}

impl Metric {
    /// Whether entities of this type have it.
    pub fn applies_to(&self, etype: &Name) -> bool {
        self.entities
            .as_ref()
            .is_none_or(|some| some.contains(etype))
    }

    /// How it is kept who did it; `None` for one that is repeatable.
    pub fn kept(&self) -> Option<FactKind> {
        (self.nature == Nature::Once).then(|| self.facts.unwrap_or_default())
    }
}

/// All metrics by name, and their aliases.
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
                let taken = by_name.contains_key(alias);
                if taken || aliases.insert(alias.clone(), name.clone()).is_some() {
                    return Err(format!("{alias} is the name of two metrics"));
                }
            }
        }
        Ok(MetricsConfig { by_name, aliases })
    }
}

impl MetricsConfig {
    /// The metric of this name or alias, with its name.
    pub fn get(&self, name: &str) -> Option<(&Name, &Metric)> {
        self.by_name.get_key_value(self.resolve(name))
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Metric)> {
        self.by_name.iter()
    }

    /// The name behind an alias; anything else as it is.
    pub fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, Name::as_str)
    }

    pub(super) fn check(&self, is_type: impl Fn(&Name) -> bool) -> Result<(), ConfigError> {
        for (name, metric) in &self.by_name {
            for etype in metric.entities.iter().flatten() {
                if !is_type(etype) {
                    let problem = format!("there is no type of entity {etype}");
                    return Err(invalid(format!("metrics.{name}.entities"), problem));
                }
            }
            if metric.nature == Nature::Repeatable && metric.facts.is_some() {
                let problem = "nobody keeps who did what is repeatable";
                return Err(invalid(format!("metrics.{name}.facts"), problem));
            }
            let targets_users = metric.users.iter().any(|feed| feed.of == Role::Target);
            let only_users = metric
                .entities
                .as_ref()
                .is_some_and(|types| types.iter().all(|etype| etype.as_str() == super::USER));
            if targets_users && !only_users {
                let problem = "\"target\" wants entities = [\"user\"]";
                return Err(invalid(format!("metrics.{name}.users"), problem));
            }
        }
        Ok(())
    }
}
