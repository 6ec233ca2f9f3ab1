//! Split entities: the IDs of shards, the shard of a user, and what is stored about a split.
//!
//! A shard is an entity of the same type. Its ID has a character that IDs of clients cannot have. A later split of the same entity has
//! another generation, so nothing of an earlier one is taken for a part of it.

#[cfg(test)]
mod explore;
#[cfg(test)]
mod protocol;

pub use super::ids::{SHARDS, Shard, base_of, is_shard};

use super::ids::{Id, Name, canonical};
use super::keys::spread;
use std::fmt;

/// What is done with an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitPhase {
    /// Processes read the shards already; facts are still added at the base, and are about to be frozen.
    Splitting,
    /// Facts of new users are added at shards.
    Split,
    /// Facts and counters are copied from the shards to the base. Actions on them are refused.
    Merging,
}

impl SplitPhase {
    /// All phases, in their order.
    pub const ALL: [SplitPhase; 3] = [
        SplitPhase::Splitting,
        SplitPhase::Split,
        SplitPhase::Merging,
    ];

    /// Its name in the stored state.
    pub fn name(self) -> &'static str {
        match self {
            SplitPhase::Splitting => "splitting",
            SplitPhase::Split => "split",
            SplitPhase::Merging => "merging",
        }
    }
}

/// The stored state of a split: `{phase} {generation} {shards} {metric},{metric},...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitState {
    /// The phase.
    pub phase: SplitPhase,
    /// The generation.
    pub generation: u64,
    /// The number of shards.
    pub shards: u16,
    /// The metrics that are split. The configuration may change while they are.
    pub metrics: Vec<Name>,
}

impl SplitState {
    /// Parses the stored state. `None` for one that this version does not know.
    pub fn parse(text: &str) -> Option<SplitState> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [phase, generation, shards, metrics] = fields[..] else {
            return None;
        };
        let metrics = metrics.split(',').map(|name| Name::new(name).ok());
        let state = SplitState {
            phase: SplitPhase::ALL
                .into_iter()
                .find(|known| known.name() == phase)?,
            generation: canonical(generation)?,
            shards: u16::try_from(canonical(shards)?).ok()?,
            metrics: metrics.collect::<Option<_>>()?,
        };
        SHARDS.contains(&state.shards).then_some(state)
    }

    /// The shard of a user whose home is not the base.
    pub fn shard_of(&self, uid: &Id) -> Shard {
        Shard {
            generation: self.generation,
            number: spread(uid, self.shards),
        }
    }

    /// Whether facts of a metric are at shards, too.
    pub fn has(&self, metric: &Name) -> bool {
        self.metrics.contains(metric)
    }

    /// All shards.
    pub fn all(&self) -> impl Iterator<Item = Shard> + use<> {
        let generation = self.generation;
        (0..self.shards).map(move |number| Shard { generation, number })
    }
}

impl fmt::Display for SplitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.phase.name();
        write!(f, "{phase} {} {} ", self.generation, self.shards)?;
        for (i, metric) in self.metrics.iter().enumerate() {
            write!(f, "{}{metric}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::testing::{entity, name};
    use crate::domain::keys::{Keys, MAX_PARTITIONS, PartitionHash};

    fn state(shards: u16) -> SplitState {
        SplitState {
            phase: SplitPhase::Split,
            generation: 12,
            shards,
            metrics: vec![name("like"), name("read")],
        }
    }

    #[test]
    fn ids_of_shards_are_not_ids_of_clients() {
        let shard = Shard {
            generation: u64::MAX,
            number: 63,
        };
        for eid in ["7", "a.b-1", &"x".repeat(64)] {
            let base = entity("note", eid);
            let id = shard.of(&base).eid;
            assert_eq!(id.as_str(), format!("{eid}~{}.63", u64::MAX));
            assert_eq!(Shard::parse(id.as_str()), Some((base.eid, shard)));
            assert!(Id::new(id.as_str()).is_err());
            // Rows of tables are of the base only.
            assert_eq!(id.number(), None);
        }
        for other in [
            "7", "7~", "7~1", "7~1.64", "7~01.2", "~1.2", "7~1.2~", "7~1.2.3",
        ] {
            assert_eq!(Shard::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_longest_id_of_a_shard_has_a_partition() {
        let base = entity(&"t".repeat(32), &"x".repeat(64));
        let shard = Shard {
            generation: u64::MAX,
            number: 63,
        };
        for hash in [PartitionHash::Crc16, PartitionHash::Murmur2] {
            let keys = Keys::new(1024, true, hash);
            assert!(keys.of_entity(&shard.of(&base)) < MAX_PARTITIONS);
        }
    }

    #[test]
    fn stored_states_survive_a_round_trip() {
        for phase in SplitPhase::ALL {
            let state = SplitState { phase, ..state(8) };
            assert_eq!(SplitState::parse(&state.to_string()), Some(state));
        }
        assert_eq!(state(8).to_string(), "split 12 8 like,read");
        for other in [
            "",
            "split",
            "other 12 8 like",
            "split 12 1 like",
            "split 12 65 like",
            "split 12 8 ",
            "split 012 8 like",
            "split 12 8 like more",
        ] {
            assert_eq!(SplitState::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn users_are_spread_over_the_shards() {
        let state = state(8);
        let mut users = [0; 8];
        for uid in 0..8_000 {
            let shard = state.shard_of(&Id::new(uid.to_string()).expect("an ID"));
            users[usize::from(shard.number)] += 1;
        }
        assert!(
            users.iter().all(|users| (800..1_200).contains(users)),
            "{users:?}"
        );
        assert_eq!(state.all().count(), 8);
        assert!(state.all().all(|shard| shard.generation == 12));
    }

    /// All partitions of users would have the same shard if both were the hash modulo a power of two.
    #[test]
    fn users_of_a_partition_are_spread_too() {
        let (state, keys) = (state(8), Keys::new(1024, true, PartitionHash::Murmur2));
        let shards: std::collections::BTreeSet<u16> = (0..100_000)
            .map(|uid| Id::new(uid.to_string()).expect("an ID"))
            .filter(|uid| keys.of_user(uid) == 5)
            .map(|uid| state.shard_of(&uid).number)
            .collect();
        assert_eq!(shards.len(), 8);
    }
}
