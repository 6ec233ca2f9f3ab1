//! The keys of data that was created without the module, whose values have other forms on data with the module.

use super::layout::Keys;
use super::parse::KeyName;
use super::rebuild::without_shadow;

/// What an adoption does with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// Converts a String of counters to an object, at the same key.
    Counters,
    /// Converts a Set of numeric IDs to a set of IDs of the module, at the same key.
    Ids,
    /// Moves the members with numeric IDs to another key.
    Members {
        /// What the members are.
        kind: MemberKind,
        /// The other key, in the same slot.
        to: String,
    },
}

/// The members of a key that an adoption moves to another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// The newest facts of a timeline: from a sorted set to a table.
    Newest,
    /// The older facts of a timeline: from a Set to a set of IDs of the module.
    Older,
    /// The totals of counts by day: from a Hash to a table.
    Totals,
    /// The authors of entities: from a Hash to a table.
    Authors,
}

impl MemberKind {
    /// Its name in `adopt_members.lua`.
    pub fn name(self) -> &'static str {
        match self {
            MemberKind::Newest => "newest",
            MemberKind::Older => "older",
            MemberKind::Totals => "totals",
            MemberKind::Authors => "authors",
        }
    }
}

impl Keys {
    /// What an adoption does with a key. `None` for keys that are the same with and without the module.
    pub fn adoption_of(&self, key: &str) -> Option<Adoption> {
        let counters = without_shadow(key);
        if self.entity_of_counters(counters).is_some() || self.user_of_counters(counters).is_some()
        {
            return Some(Adoption::Counters);
        }
        let (name, tag) = match self.tagged() {
            true => key.split_at(key.rfind(":{")?),
            false => (key, ""),
        };
        // The partition of a key of a partition is its tag, or its last part.
        let is_numbered = |parts: usize| match self.tagged() {
            true => name.split(':').count() == parts,
            false => {
                let last = name.rsplit(':').next().map(str::parse::<u16>);
                name.split(':').count() == parts + 1 && matches!(last, Some(Ok(_)))
            }
        };
        let members = |kind, to: String| {
            let to = format!("{to}{tag}");
            Some(Adoption::Members { kind, to })
        };
        let (prefix, rest) = name.split_once(':')?;
        match prefix {
            "rbm" => {
                let parsed = KeyName::parse(self, key.as_bytes())?;
                matches!(parsed, KeyName::Facts { .. }).then_some(Adoption::Ids)
            }
            "act" if rest.starts_with("events") && is_numbered(2) => Some(Adoption::Ids),
            "countd" if is_numbered(if rest.starts_with("import:") { 5 } else { 0 }) => {
                (name.split(':').nth(3) == Some("ids")).then_some(Adoption::Ids)
            }
            "rtl" | "rev" => {
                let of = self.reverse_of(key).filter(|of| of.is_plain)?;
                let kind = match of.is_newest {
                    true => MemberKind::Newest,
                    false => MemberKind::Older,
                };
                members(kind, name.strip_suffix(":s")?.to_owned())
            }
            "wtl" => match KeyName::parse(self, key.as_bytes())? {
                KeyName::Latest {
                    is_table: false, ..
                } => members(MemberKind::Newest, name.strip_suffix(":s")?.to_owned()),
                _ => None,
            },
            "toth" if is_numbered(3) => members(MemberKind::Totals, format!("tot:{rest}")),
            "auth" if is_numbered(2) => members(MemberKind::Authors, format!("aut:{rest}")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Id;
    use crate::domain::keys::PartitionHash::Murmur2;
    use crate::domain::keys::testing::{entity, name};

    #[test]
    fn keys_with_other_forms_are_found() {
        let (note, like, v1) = (entity("note", "7"), name("like"), name("v1"));
        let uid = Id::new("42").expect("an ID");
        for tagged in [false, true] {
            let keys = Keys::new(16, tagged, Murmur2);
            let adoption = |key: &str| keys.adoption_of(key);
            let to = |kind, to: &str| {
                let to = to.to_owned();
                Some(Adoption::Members { kind, to })
            };
            let counters = keys.counters(&v1, &note);
            for key in [keys.shadow(&counters), counters, keys.user_counters(&uid)] {
                assert_eq!(adoption(&key), Some(Adoption::Counters), "{key}");
            }
            for key in [
                keys.facts(&like, &note),
                keys.event_ids(3),
                keys.import_ids(&name("job"), "note", 3),
            ] {
                assert_eq!(adoption(&key), Some(Adoption::Ids), "{key}");
            }
            let reverse = keys.reverse(&like, &note.etype, &uid);
            let latest = keys.latest_users(&like, &note);
            let moves = [
                (
                    &reverse.newest_set,
                    MemberKind::Newest,
                    &reverse.newest_table,
                ),
                (&latest.newest_set, MemberKind::Newest, &latest.newest_table),
            ];
            for (key, kind, other) in moves {
                assert_eq!(adoption(key), to(kind, other), "{key}");
                assert_eq!(adoption(other), None, "{other}");
            }
            let (older, ids) = (
                reverse.older_set.expect("a key"),
                reverse.older_ids.expect("a key"),
            );
            assert_eq!(adoption(&older), to(MemberKind::Older, &ids));
            assert_eq!(adoption(&ids), None);
            let totals = keys.totals_table(&like, &note.etype, 3);
            let hash = keys.totals_hash(&like, &note.etype, 3);
            assert_eq!(adoption(&hash), to(MemberKind::Totals, &totals));
            let authors = keys.author_table(&note.etype, 3);
            let hash = keys.author_hash(&note.etype, 3);
            assert_eq!(adoption(&hash), to(MemberKind::Authors, &authors));
            for key in [
                totals,
                authors,
                keys.fact_sets(&like, &note).key("old"),
                keys.fact_bits(&like, &note).key(0),
                keys.import_names(&name("job"), "note", 3),
                keys.log(3),
                keys.layout().to_owned(),
            ] {
                assert_eq!(adoption(&key), None, "{key}");
            }
        }
    }
}
