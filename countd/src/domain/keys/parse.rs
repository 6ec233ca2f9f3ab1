//! Parses the names of keys, to find the keys that concern an entity or a user.

use super::layout::Keys;
use crate::domain::ids::{Entity, Id, Name, SHARD_SEPARATOR};

/// The fields of deduplication keys after `act:dedup`. All have the entity first.
const DEDUP_FIELDS: std::ops::RangeInclusive<usize> = 5..=6;

/// What a key is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyName {
    /// A part of the facts of a metric.
    Facts {
        /// The metric.
        metric: Name,
        /// The entity.
        entity: Entity,
    },
    /// Authors of entities of a type.
    Authors {
        /// The entity type.
        etype: Name,
        /// Whether the key is a table; otherwise it is a Hash.
        is_table: bool,
    },
    /// An idempotency key, or the key of a window of time.
    Dedup {
        /// The entity.
        entity: Entity,
        /// The user.
        uid: Id,
    },
    /// The rate limit of a user.
    Limit(Id),
    /// The facts of a user.
    Reverse(Id),
    /// The latest users of an entity.
    Latest {
        /// The entity.
        entity: Entity,
        /// Whether the key is a table; otherwise it is a sorted set.
        is_table: bool,
    },
    /// What the checks with a report have found.
    Report,
}

impl KeyName {
    /// Parses the name of a key. `None` for all other keys.
    pub fn parse(keys: &Keys, key: &[u8]) -> Option<KeyName> {
        let key = std::str::from_utf8(key).ok()?;
        let name = match keys.tagged() {
            true => {
                let (name, tag) = key.strip_suffix('}')?.rsplit_once(":{")?;
                tag.parse::<u16>().ok().map(|_| name)?
            }
            false => key,
        };
        let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
        let parts: Vec<&str> = rest.split(':').collect();
        let entity = |etype: &str, eid: &str| {
            Some(Entity {
                etype: Name::new(etype).ok()?,
                eid: Id::stored(eid).ok()?,
            })
        };
        match (kind, parts.as_slice()) {
            // The base of a split entity. Those of shards are entities.
            ("rbm", [metric, etype, eid]) if frozen_base(eid).is_some() => Some(KeyName::Facts {
                metric: Name::new(*metric).ok()?,
                entity: entity(etype, frozen_base(eid)?)?,
            }),
            ("rbm", [metric, etype, eid]) | ("s" | "bm", [metric, etype, eid, _]) => {
                Some(KeyName::Facts {
                    metric: Name::new(*metric).ok()?,
                    entity: entity(etype, eid)?,
                })
            }
            // The partition is a tag, or the last part.
            ("aut" | "auth", [etype, tagged @ ..])
                if tagged.len() == usize::from(!keys.tagged()) =>
            {
                Some(KeyName::Authors {
                    etype: Name::new(*etype).ok()?,
                    is_table: kind == "aut",
                })
            }
            ("act", ["dedup", fields @ ..]) if DEDUP_FIELDS.contains(&fields.len()) => {
                // The last field is the idempotency key, or the number of the window.
                Some(KeyName::Dedup {
                    entity: entity(fields[0], fields[1])?,
                    uid: Id::new(fields[fields.len() - 2]).ok()?,
                })
            }
            ("rtl" | "rev", [_, _, uid] | [_, _, uid, "s"]) => {
                Some(KeyName::Reverse(Id::new(*uid).ok()?))
            }
            ("wtl", [_, etype, eid, form @ ..]) if matches!(form, [] | ["s"]) => {
                Some(KeyName::Latest {
                    entity: entity(etype, eid)?,
                    is_table: form.is_empty(),
                })
            }
            // The partition is a tag, or the last part.
            ("countd", ["report", _, tagged @ ..])
                if tagged.len() == usize::from(!keys.tagged()) =>
            {
                Some(KeyName::Report)
            }
            ("act", ["limit", uid]) => Some(KeyName::Limit(Id::new(*uid).ok()?)),
            _ => None,
        }
    }
}

/// The ID of an entity, if this is the part of the key that its facts have while it is split: the ID and a generation.
fn frozen_base(part: &str) -> Option<&str> {
    let (eid, generation) = part.split_once(SHARD_SEPARATOR)?;
    Id::new(generation).ok()?.number().map(|_| eid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Shard;
    use crate::domain::keys::PartitionHash;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn id(text: &str) -> Id {
        Id::new(text).expect("an ID")
    }

    #[test]
    fn the_keys_of_a_layout_are_parsed() {
        let entity = Entity {
            etype: name("note"),
            eid: id("a.7"),
        };
        let (like, uid) = (name("like"), id("42"));
        for tagged in [false, true] {
            let keys = Keys::new(1024, tagged, PartitionHash::Murmur2);
            let parse = |key: String| KeyName::parse(&keys, key.as_bytes());
            let facts = Some(KeyName::Facts {
                metric: like.clone(),
                entity: entity.clone(),
            });
            assert_eq!(parse(keys.facts(&like, &entity)), facts);
            assert_eq!(parse(keys.fact_sets(&like, &entity).key(3)), facts);
            assert_eq!(parse(keys.fact_sets(&like, &entity).key("days")), facts);
            for part in ["chunks", "recount"] {
                assert_eq!(parse(keys.fact_bits(&like, &entity).key(part)), facts);
            }
            for is_table in [false, true] {
                let key = match is_table {
                    true => keys.author_table(&entity.etype, 7),
                    false => keys.author_hash(&entity.etype, 7),
                };
                let etype = entity.etype.clone();
                assert_eq!(parse(key), Some(KeyName::Authors { etype, is_table }));
            }
            let base = keys.base_of_split(&like, &entity, 12);
            assert_eq!(parse(base.frozen), facts);
            assert_eq!(parse(base.former), None);
            assert_eq!(parse(base.state), None);
            let shard = Shard {
                generation: 12,
                number: 3,
            };
            assert_eq!(parse(keys.fenced_facts(&like, &entity, shard)), None);
            let of_shard = Some(KeyName::Facts {
                metric: like.clone(),
                entity: shard.of(&entity),
            });
            assert_eq!(parse(keys.facts(&like, &shard.of(&entity))), of_shard);
            let dedup = Some(KeyName::Dedup {
                entity: entity.clone(),
                uid: uid.clone(),
            });
            assert_eq!(parse(keys.dedup(&like, &entity, "add", &uid, "k")), dedup);
            assert_eq!(parse(keys.windows(&like, &entity, &uid).key(17)), dedup);
            assert_eq!(parse(keys.limit(&uid)), Some(KeyName::Limit(uid.clone())));
            for reverse in keys.reverse(&like, &entity.etype, &uid).all() {
                let parsed = parse(reverse.to_owned());
                assert_eq!(parsed, Some(KeyName::Reverse(uid.clone())), "{reverse}");
            }
            let latest = keys.latest_users(&like, &entity);
            for (key, is_table) in [(latest.newest_table, true), (latest.newest_set, false)] {
                let entity = entity.clone();
                assert_eq!(parse(key), Some(KeyName::Latest { entity, is_table }));
            }
            assert_eq!(parse(keys.check_report(&uid, 7)), Some(KeyName::Report));
            let reset = keys.user_dedup(&uid, &like, &uid);
            let Some(KeyName::Dedup { entity: user, .. }) = parse(reset) else {
                panic!("the reset of a counter of a user");
            };
            assert_eq!((user.etype.as_str(), &user.eid), ("user", &uid));
            for other in [
                keys.device_limit(&uid),
                keys.counted(7, &uid),
                keys.user_counters(&uid),
                keys.log(7),
                keys.position(7),
                keys.outbox(7),
                keys.days(7),
                keys.table(&name("v1"), &entity.etype, 7),
                keys.layout().to_owned(),
                keys.job(&uid),
            ] {
                assert_eq!(parse(other.clone()), None, "{other}");
            }
        }
    }
}
