//! The keys of rankings.

use super::layout::{KeyTemplate, Keys};
use super::partition::Partition;
use crate::domain::ids::Name;

impl Keys {
    /// The sorted sets of a ranking of a type, by the date. In a cluster each partition has its own; otherwise all partitions share one.
    pub fn ranks(&self, ranking: &Name, etype: &Name, partition: Partition) -> KeyTemplate {
        KeyTemplate {
            prefix: format!("rank:{ranking}:{etype}:"),
            suffix: self.tag(String::new(), partition),
        }
    }

    /// The state of these sorted sets: a Hash.
    pub fn rank_state(&self, ranking: &Name, etype: &Name, partition: Partition) -> String {
        self.ranks(ranking, etype, partition).key("state")
    }

    /// The rankings that have keys: a Set of `{ranking}:{etype}`.
    pub fn rank_names(&self) -> &'static str {
        "countd:ranks"
    }

    /// The number of groups of partitions that share the sorted sets of a ranking.
    pub fn rank_groups(&self) -> Partition {
        match self.tagged() {
            true => self.partitions(),
            false => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Murmur2;
    use crate::domain::keys::testing::name;

    #[test]
    fn keys_of_rankings_have_the_documented_form() {
        for (tagged, tag, groups) in [(false, "", 1), (true, ":{7}", 8)] {
            let keys = Keys::new(8, tagged, Murmur2);
            let (hot, note) = (name("hot"), name("note"));
            let set = keys.ranks(&hot, &note, 7).key(20_261_231);
            assert_eq!(set, format!("rank:hot:note:20261231{tag}"));
            let state = keys.rank_state(&hot, &note, 7);
            assert_eq!(state, format!("rank:hot:note:state{tag}"));
            assert_eq!(keys.rank_groups(), groups);
        }
    }
}
