//! The names of the keys that hold counts and facts.

/// What a key holds.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyName<'k> {
    /// The layout of the data.
    Layout,
    /// The indexes of the counters of a schema, by their names.
    Schema(&'k str),
    /// Counters of entities: the schema, the type, and the ID unless the key is a table.
    Counters(&'k str, &'k str, Option<&'k str>),
    /// Counters of users: the ID unless the key is a table.
    Users(Option<&'k str>),
    /// Facts: the metric, the type, the ID, and the part.
    Facts(&'k str, &'k str, &'k str, Part<'k>),
    /// Facts of a user: the metric, the type and the user.
    Reverse(&'k str, &'k str, &'k str),
    /// The authors of entities of a type.
    Authors(&'k str),
    /// Counts by day: the metric, the type and the ID.
    Days(&'k str, &'k str, &'k str),
    /// Totals: the metric and the type.
    Totals(&'k str, &'k str),
}

/// The part of the facts of an entity that a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'k> {
    /// Users.
    Users,
    /// The users of a day, of a shard, or those of compacted days whose IDs are not numbers.
    Set(&'k str),
    /// The users in a chunk of bits.
    Chunk(&'k str),
    /// The index of the other keys.
    Index,
}

impl<'k> KeyName<'k> {
    /// Parses the name of a key; `None` for all other keys.
    pub fn parse(key: &'k str) -> Option<KeyName<'k>> {
        if key == "countd:layout" {
            return Some(KeyName::Layout);
        }
        if let Some(schema) = key.strip_prefix("schema:") {
            let schema = schema.strip_suffix(":idx_by_name")?;
            return Some(KeyName::Schema(schema.trim_matches(['{', '}'])));
        }
        let (name, is_tagged) = match key.strip_suffix('}').and_then(|key| key.rsplit_once(":{")) {
            Some((name, _)) => (name, true),
            None => (key, false),
        };
        let mut parts: Vec<&str> = name.split(':').collect();
        // The partition is the tag or the last part.
        let is_of_partition = ["tab", "utab", "aut", "auth", "tot", "toth"].contains(&parts[0]);
        if is_of_partition && !is_tagged {
            parts.pop();
        }
        Some(match parts.as_slice() {
            ["tab", schema, etype] => KeyName::Counters(schema, etype, None),
            ["cnt", schema, etype, eid] => KeyName::Counters(schema, etype, Some(eid)),
            ["utab"] => KeyName::Users(None),
            ["ucnt", uid] => KeyName::Users(Some(uid)),
            // Facts of split entities, and what a merge leaves. Data is checked while entities are whole.
            ["rbm", _, _, eid] if eid.contains('~') => return None,
            ["rbm", metric, etype, eid] => KeyName::Facts(metric, etype, eid, Part::Users),
            ["s", metric, etype, eid, "days"] | ["bm", metric, etype, eid, "chunks"] => {
                KeyName::Facts(metric, etype, eid, Part::Index)
            }
            ["s", metric, etype, eid, set] => KeyName::Facts(metric, etype, eid, Part::Set(set)),
            // The progress of a recount.
            ["bm", _, _, _, "recount"] => return None,
            ["bm", metric, etype, eid, n] => KeyName::Facts(metric, etype, eid, Part::Chunk(n)),
            ["rtl" | "rev", metric, etype, uid] | ["rtl" | "rev", metric, etype, uid, "s"] => {
                KeyName::Reverse(metric, etype, uid)
            }
            ["aut" | "auth", etype] => KeyName::Authors(etype),
            ["h", "agg", metric, etype, eid] | ["h", "agg", metric, etype, eid, "history"] => {
                KeyName::Days(metric, etype, eid)
            }
            ["tot" | "toth", metric, etype] => KeyName::Totals(metric, etype),
            _ => return None,
        })
    }
}
