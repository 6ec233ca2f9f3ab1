//! The keys of the facts that are kept for users.

use crate::domain::config::{Config, USER};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::{Keys, TimelineKeys};
use crate::redis::layout::StoredLayout;

/// The facts of a user on the entities of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactsOfUser {
    /// The metric.
    pub metric: Name,
    /// The type of the entities.
    pub etype: Name,
    /// The keys, which are in the user's slot. Any of them may be missing.
    pub keys: TimelineKeys,
}

/// All keys in which the facts of a user are kept: those of each reverse metric and each type that has it.
pub fn facts_of_user(
    (config, layout): (&Config, &StoredLayout),
    keys: Keys,
    uid: &Id,
) -> Vec<FactsOfUser> {
    let users = Name::new(USER).ok();
    let types: Vec<&Name> = config.entities.keys().chain(&users).collect();
    let mut facts = Vec::new();
    for metric in &layout.reverse {
        let settings = config.metrics.get(metric.as_str());
        for etype in &types {
            if settings.is_none_or(|(_, settings)| settings.applies_to(etype)) {
                facts.push(FactsOfUser {
                    metric: metric.clone(),
                    etype: (*etype).clone(),
                    keys: keys.reverse(metric, etype, uid),
                });
            }
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::{PartitionHash, StoragePhase};
    use crate::redis::script::CounterBackend;

    #[test]
    fn keys_of_each_reverse_metric_and_type_are_listed() {
        let config = Config::parse("").expect("the defaults");
        let hash = PartitionHash::Murmur2;
        let mut layout = StoredLayout::uniform(hash, CounterBackend::Module, StoragePhase::Table);
        layout.reverse = config.metrics.reverse().cloned().collect();
        let keys = Keys::new(16, false, hash);
        let uid = Id::new("42").expect("an ID");
        let facts = facts_of_user((&config, &layout), keys, &uid);
        let newest = facts.iter().map(|facts| facts.keys.newest_table.as_str());
        let expected = [
            "rtl:fav:note:42",
            "rtl:fav:user:42",
            "rtl:follow:user:42",
            "rtl:like:note:42",
            "rtl:like:user:42",
            "rtl:publish:note:42",
            "rtl:publish:user:42",
        ];
        assert_eq!(newest.collect::<Vec<_>>(), expected);
    }
}
