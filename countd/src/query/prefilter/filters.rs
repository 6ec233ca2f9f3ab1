//! A cuckoo filter for each metric.

use super::error::FeedError;
use crate::domain::config::{Config, FactKind, PrefilterConfig};
use crate::domain::event::Event;
use crate::domain::ids::{Entity, Name};
use crate::domain::split::base_of;
use crate::facts::Fact;
use hashbrown::HashMap;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use scalable_cuckoo_filter::{DefaultHasher, ScalableCuckooFilter, ScalableCuckooFilterBuilder};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The number of facts for which a new filter has room. It grows by doubling.
const INITIAL_CAPACITY: usize = 1 << 16;
/// The probability that a filter has a fact that does not exist.
const FALSE_POSITIVES: f64 = 0.001;

/// The hashes of facts. A filter of hashes has the false positives of 64-bit collisions, too, which are negligible.
type Filter = ScalableCuckooFilter<u64, DefaultHasher, SmallRng>;

/// The facts of all metrics. Facts are never removed: what does not exist any more is asked from Redis.
pub(super) struct Filters(HashMap<Name, Filter>);

/// The entity of a fact in the filter of its metric.
#[derive(Clone, Copy)]
pub(super) struct EntityHash(u64);

impl EntityHash {
    pub fn new(entity: &Entity) -> EntityHash {
        let etype = xxh3_64(entity.etype.as_str().as_bytes());
        EntityHash(xxh3_64_with_seed(entity.eid.as_str().as_bytes(), etype))
    }

    fn fact(self, uid: u64) -> u64 {
        xxh3_64_with_seed(&uid.to_le_bytes(), self.0)
    }
}

impl Filters {
    /// Filters without facts, for the metrics whose facts are in sets of IDs.
    pub fn new(config: &Config) -> Filters {
        let metrics = config.metrics.iter();
        let metrics = metrics.filter(|(_, metric)| metric.fact_kind() == Some(FactKind::Rbm));
        let filter = || {
            ScalableCuckooFilterBuilder::new()
                .initial_capacity(INITIAL_CAPACITY)
                .false_positive_probability(FALSE_POSITIVES)
                .rng(SmallRng::seed_from_u64(fastrand::u64(..)))
                .finish()
        };
        Filters(metrics.map(|(name, _)| (name.clone(), filter())).collect())
    }

    /// Whether there is a filter for a metric.
    pub fn has(&self, metric: &Name) -> bool {
        self.0.contains_key(metric)
    }

    /// Adds facts on an entity.
    pub fn add(&mut self, metric: &Name, entity: EntityHash, uids: impl IntoIterator<Item = u64>) {
        let Some(filter) = self.0.get_mut(metric) else {
            return;
        };
        for uid in uids {
            let fact = entity.fact(uid);
            // Nothing is removed, so a fact that seems to be there will always seem to be.
            if !filter.contains(&fact) {
                filter.insert(&fact);
            }
        }
    }

    /// Adds the facts that events have added.
    pub fn add_events(&mut self, events: &[Event]) {
        for event in events {
            // Facts of shards move to the base without events.
            self.add(
                &event.metric,
                EntityHash::new(&base_of(&event.entity)),
                event.uid.number(),
            );
        }
    }

    /// Whether a fact is definitely absent. False positives are possible only for presence.
    pub fn is_absent(&self, fact: &Fact<'_>) -> bool {
        let filter = self.0.get(fact.metric);
        match (filter, fact.uid.number()) {
            (Some(filter), Some(uid)) => !filter.contains(&EntityHash::new(fact.entity).fact(uid)),
            _ => false,
        }
    }

    /// The number of facts.
    pub fn len(&self) -> usize {
        self.0.values().map(Filter::len).sum()
    }

    /// The size of the filters.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|filter| filter.bits() / 8).sum()
    }

    /// Checks the number of facts.
    ///
    /// # Errors
    /// [`FeedError::TooMany`].
    pub fn check_size(&self, settings: &PrefilterConfig) -> Result<(), FeedError> {
        match self.len() > settings.max_facts {
            true => Err(FeedError::TooMany(settings.max_facts)),
            false => Ok(()),
        }
    }

    /// Sets the metrics of the process.
    pub fn report(&self) {
        metrics::gauge!("countd_prefilter_facts").set(self.len() as f64);
        metrics::gauge!("countd_prefilter_bytes").set(self.bytes() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Id;
    use crate::domain::keys::testing::{entity, name};

    #[test]
    fn facts_are_never_absent_and_few_others_are_present() {
        let config = Config::parse("").expect("valid");
        let (like, mut filters) = (name("like"), Filters::new(&config));
        let notes: Vec<Entity> = (0..100).map(|n| entity("note", &n.to_string())).collect();
        for note in &notes {
            filters.add(&like, EntityHash::new(note), (0..3_000).map(|uid| 7 * uid));
        }
        let is_absent = |metric: &Name, entity: &Entity, uid: u64| {
            let uid = Id::new(uid.to_string()).expect("an ID");
            let uid = &uid;
            filters.is_absent(&Fact {
                metric,
                entity,
                uid,
            })
        };
        let mut present = 0;
        for note in &notes {
            for uid in 0..3_000 {
                assert!(!is_absent(&like, note, 7 * uid));
                present += u64::from(!is_absent(&like, note, 7 * uid + 1));
            }
        }
        // 0.1 % of 300,000.
        assert!(present <= 300, "{present}");
        assert!(is_absent(&name("fav"), &notes[0], 7));
        assert!(is_absent(&like, &entity("user", "0"), 7));
        let uid = Id::new("7").expect("an ID");
        let (metric, entity, uid) = (&name("read"), &notes[0], &uid);
        assert!(
            !filters.is_absent(&Fact {
                metric,
                entity,
                uid
            }),
            "it has no filter"
        );
        let bytes = filters.bytes() as usize / filters.len();
        assert!((2..=8).contains(&bytes), "{bytes} bytes a fact");
    }
}
