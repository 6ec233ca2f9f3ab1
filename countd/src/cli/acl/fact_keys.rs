//! The kinds of keys of facts, and of the timelines of facts.

use super::key_kinds::{KeyKind, KeyKinds, entity, example_entity, id, name};
use countd::domain::config::{FactKind, Metric, Order};
use countd::domain::ids::Name;
use countd::domain::keys::{Keys, TimelineKeys};
use countd::redis::script::CounterBackend;

impl KeyKinds {
    /// Adds the timelines of the facts of a metric.
    pub fn with_timelines(
        &self,
        keys: Keys,
        backend: CounterBackend,
        (metric, settings): (&Name, &Metric),
        etype: &Name,
        is_reverse: bool,
    ) -> KeyKinds {
        let mut kinds = self.clone();
        let mut add = |example: TimelineKeys, sample: &dyn Fn(u16) -> TimelineKeys| {
            kinds.add_like("newest_set", example.newest_set, |n| sample(n).newest_set);
            if let Some(set) = example.older_set {
                kinds.add_like("older_set", set, |n| {
                    sample(n).older_set.unwrap_or_default()
                });
            }
            if backend.has_tables() {
                kinds.add_like("newest_table", example.newest_table, |n| {
                    sample(n).newest_table
                });
                if let Some(ids) = example.older_ids {
                    kinds.add_like("older_ids", ids, |n| {
                        sample(n).older_ids.unwrap_or_default()
                    });
                }
            } else if let Some(ids) = example.older_ids {
                // A script names the key, which does not exist.
                kinds.add_like("older_set", ids, |n| {
                    sample(n).older_ids.unwrap_or_default()
                });
            }
        };
        if is_reverse {
            add(keys.reverse(metric, etype, &id(0)), &|n| {
                keys.reverse(&name(n), &name(n), &id(n))
            });
        }
        if settings.order == Order::Time {
            let example = keys.latest_users(metric, &example_entity(etype));
            add(example, &|n| keys.latest_users(&name(n), &entity(n)));
        }
        // Pages of older facts come from a Set.
        let sets: Vec<KeyKind> = kinds.named("older_set").cloned().collect();
        kinds.0.extend(sets.into_iter().map(|kind| ("set", kind)));
        kinds
    }

    /// Adds the facts of a metric.
    pub fn with_facts(
        &self,
        keys: Keys,
        (kind, backend): (FactKind, CounterBackend),
        (metric, etype): (&Name, &Name),
    ) -> KeyKinds {
        let mut kinds = self.clone();
        let example = example_entity(etype);
        let ids = |kinds: &mut KeyKinds, name_of_kind| {
            kinds.add_like(name_of_kind, keys.facts(metric, &example), |n| {
                keys.facts(&name(n), &entity(n))
            });
        };
        let set = |kinds: &mut KeyKinds, name_of_kind, part: &str| {
            let example = keys.fact_sets(metric, &example).key(part);
            kinds.add_like(name_of_kind, example, |n| {
                keys.fact_sets(&name(n), &entity(n)).key(part)
            });
        };
        let bits = |kinds: &mut KeyKinds, name_of_kind, part: &str| {
            let example = keys.fact_bits(metric, &example).key(part);
            kinds.add_like(name_of_kind, example, |n| {
                keys.fact_bits(&name(n), &entity(n)).key(part)
            });
        };
        match (kind, backend) {
            (FactKind::Rbm, CounterBackend::Module) => {
                ids(&mut kinds, "ids");
                ids(&mut kinds, "facts");
            }
            (FactKind::Rbm, _) => {
                ids(&mut kinds, "ids");
                ids(&mut kinds, "set");
                ids(&mut kinds, "facts");
            }
            (FactKind::Sharded, _) => {
                set(&mut kinds, "set", "0");
                set(&mut kinds, "facts", "0");
            }
            (FactKind::Bitmap, _) => {
                bits(&mut kinds, "facts", "chunks");
                bits(&mut kinds, "bits", "0");
                bits(&mut kinds, "chunks", "chunks");
                bits(&mut kinds, "recount", "recount");
            }
            (FactKind::Daily, _) => {
                ids(&mut kinds, "facts");
                set(&mut kinds, "facts", "days");
                set(&mut kinds, "facts", "old");
                ids(&mut kinds, "ids");
                set(&mut kinds, "day", "0");
                set(&mut kinds, "days", "days");
                set(&mut kinds, "compacted", "old");
                // Pages of users come from all of these.
                set(&mut kinds, "set", "0");
                set(&mut kinds, "set", "old");
                if backend.has_strings() {
                    ids(&mut kinds, "set");
                }
            }
        }
        kinds
    }
}
