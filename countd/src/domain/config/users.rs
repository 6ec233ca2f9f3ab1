//! `[users]`: the counters of users.

use super::error::{ConfigError, invalid};
use super::storage::Storage;
use crate::domain::ids::Name;
use serde::Deserialize;

/// The counters that all users have, in the order of their fields. The counters of the configuration follow them.
pub const BUILT_IN_COUNTERS: [&str; 5] = [
    "followings",
    "followers",
    "posts",
    "likesReceived",
    "favsReceived",
];

/// The maximum number of counters of users, built-in ones included: that of a schema.
const MAX_COUNTERS: usize = crate::domain::error::MAX_NAMES;

/// A counter of users. The order is that of the fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserCounter {
    index: u16,
    name: Name,
}

impl UserCounter {
    /// The counter with this index and name.
    pub fn new(index: u16, name: Name) -> UserCounter {
        UserCounter { index, name }
    }

    /// The index of the field.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// The name in the API, the configuration and derived events.
    pub fn name(&self) -> &Name {
        &self.name
    }
}

/// `[users]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsersConfig {
    /// How the counters of users are stored.
    pub storage: Storage,
    /// The counters of users after the built-in ones, in the order of their fields.
    pub counters: Vec<Name>,
    /// The counters that users may reset themselves.
    pub resettable: Vec<Name>,
}

impl UsersConfig {
    /// All counters, in the order of their fields.
    pub fn names(&self) -> Vec<Name> {
        let built_in = BUILT_IN_COUNTERS.iter().map(|name| Name::new(*name));
        built_in
            .flatten()
            .chain(self.counters.iter().cloned())
            .collect()
    }

    /// The number of counters.
    pub fn counter_count(&self) -> usize {
        BUILT_IN_COUNTERS.len() + self.counters.len()
    }

    /// The counter with this name. Its index is that of the stored schema, which begins with these counters or is the beginning of
    /// them.
    pub fn counter(&self, name: &Name) -> Option<UserCounter> {
        let built_in = BUILT_IN_COUNTERS.iter().copied();
        let mut names = built_in.chain(self.counters.iter().map(Name::as_str));
        let index = names.position(|other| other == name.as_str())?;
        Some(UserCounter::new(index.try_into().ok()?, name.clone()))
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.counter_count() > MAX_COUNTERS {
            let max = MAX_COUNTERS - BUILT_IN_COUNTERS.len();
            return Err(invalid("users.counters", format!("at most {max}")));
        }
        for (at, name) in self.counters.iter().enumerate() {
            if BUILT_IN_COUNTERS.contains(&name.as_str()) {
                let problem = format!("all users have {name}: list only further counters");
                return Err(invalid("users.counters", problem));
            }
            if self.counters[..at].contains(name) {
                return Err(invalid("users.counters", format!("duplicate name {name}")));
            }
        }
        let unknown = |name: &&Name| !self.counters.contains(name);
        match self.resettable.iter().find(unknown) {
            Some(name) => {
                let problem = format!("{name} is not in users.counters");
                Err(invalid("users.resettable", problem))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::config::Config;

    fn error(users: &str) -> String {
        let config = Config::parse(&format!("[users]\n{users}\n"));
        config.expect_err("an invalid configuration").to_string()
    }

    #[test]
    fn configured_counters_follow_the_built_in_ones() {
        let config = "[users]\ncounters = [\"unread\", \"coins\"]\nresettable = [\"unread\"]\n";
        let users = Config::parse(config).expect("valid").users;
        let names: Vec<String> = users.names().iter().map(ToString::to_string).collect();
        assert_eq!(
            names.join(" "),
            "followings followers posts likesReceived favsReceived unread coins"
        );
        assert_eq!(users.counter_count(), names.len());
        for (index, name) in users.names().iter().enumerate() {
            let counter = users.counter(name).expect("a counter");
            assert_eq!(
                (usize::from(counter.index()), counter.name()),
                (index, name)
            );
        }
        assert_eq!(users.counter(&"like".parse().expect("a name")), None);
        assert!(Config::parse("").expect("valid").users.counters.is_empty());
    }

    #[test]
    fn invalid_counters_are_rejected() {
        for (users, part) in [
            ("counters = [\"posts\"]", "all users have posts"),
            ("counters = [\"a\", \"b\", \"a\"]", "duplicate name a"),
            ("counters = [\"1\"]", "a name has"),
            ("counters = [\"a b\"]", "a name has"),
            ("counters = \"a\"", "users.counters"),
            ("resettable = [\"posts\"]", "posts is not in users.counters"),
            (
                "counters = [\"a\"]\nresettable = [\"b\"]",
                "b is not in users.counters",
            ),
        ] {
            let error = error(users);
            assert!(error.contains(part), "{users}: {error}");
        }
        let names = |count: usize| {
            let names: Vec<String> = (0..count).map(|number| format!("\"n{number}\"")).collect();
            format!("counters = [{}]", names.join(","))
        };
        assert!(Config::parse(&format!("[users]\n{}\n", names(995))).is_ok());
        assert!(error(&names(996)).contains("at most 995"));
    }

    #[test]
    fn a_metric_feeds_only_counters_that_exist() {
        let metric = "[metrics.a]\nnature = \"repeatable\"\ncount = \"batched\"\n\
                      users = [{ counter = \"unread\", of = \"actor\" }]\n";
        let error = Config::parse(metric).expect_err("an unknown counter");
        let error = error.to_string();
        assert!(
            error.contains("metrics.a.users: there is no counter unread of users"),
            "{error}"
        );
        let config = format!("[users]\ncounters = [\"unread\"]\n{metric}");
        assert!(Config::parse(&config).is_ok());
    }
}
