//! Changed entities, and their form in the stream of changes.
//!
//! An entry of the stream lists entities by type: `note:7,8;user:42`. Names and IDs contain neither of the separators.

use super::config::USER;
use super::ids::{Entity, Id, Invalid, Name, SHARD_SEPARATOR};
use hashbrown::HashSet;

/// The maximum length of the content of an entry, in bytes. An entry then fits into a node of the stream. It is `MAX_CONTENT` in
/// lua/changes.lua.
const MAX_CONTENT: usize = 3_500;

/// Entities whose counters changed, each once. Users are entities of the type `user`.
#[derive(Debug, Default)]
pub struct ChangedEntities {
    /// By type. There are few types.
    types: Vec<(Name, HashSet<Id>)>,
    len: usize,
}

impl ChangedEntities {
    /// Adds an entity.
    pub fn add(&mut self, entity: &Entity) {
        self.insert(entity.etype.as_str(), &entity.eid);
    }

    /// Adds a user.
    pub fn add_user(&mut self, uid: &Id) {
        self.insert(USER, uid);
    }

    fn insert(&mut self, etype: &str, eid: &Id) {
        let types = &mut self.types;
        let known = types.iter().position(|(known, _)| known.as_str() == etype);
        let at = match (known, Name::new(etype)) {
            (Some(at), _) => at,
            (None, Ok(name)) => {
                types.push((name, HashSet::new()));
                types.len() - 1
            }
            (None, Err(_)) => return,
        };
        let ids = &mut types[at].1;
        if !ids.contains(eid) {
            ids.insert(eid.clone());
            self.len += 1;
        }
    }

    /// The number of entities.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entities by type.
    pub fn types(&self) -> impl Iterator<Item = (&Name, &HashSet<Id>)> {
        self.types.iter().map(|(etype, ids)| (etype, ids))
    }

    /// The contents of the entries that announce the entities.
    pub fn contents(&self) -> Vec<String> {
        let mut contents = Vec::new();
        let mut content = String::new();
        for (etype, ids) in &self.types {
            let mut is_first = true;
            for eid in ids {
                let added = etype.as_str().len() + eid.as_str().len() + 2;
                if content.len() + added > MAX_CONTENT {
                    contents.push(std::mem::take(&mut content));
                    is_first = true;
                }
                if is_first {
                    let separator = if content.is_empty() { "" } else { ";" };
                    content.push_str(separator);
                    content.push_str(etype.as_str());
                    content.push(':');
                } else {
                    content.push(',');
                }
                content.push_str(eid.as_str());
                is_first = false;
            }
        }
        if !content.is_empty() {
            contents.push(content);
        }
        contents
    }

    /// Adds the entities of an entry.
    ///
    /// # Errors
    /// The content is malformed. Some of its entities may have been added.
    pub fn add_content(&mut self, content: &str) -> Result<(), Invalid> {
        for part in content.split(';') {
            let (etype, ids) = part.split_once(':').ok_or(Invalid::Name)?;
            let etype = Name::new(etype)?;
            for eid in ids.split(',') {
                // A correction names the shard that it has corrected.
                let eid = eid
                    .split_once(SHARD_SEPARATOR)
                    .map_or(eid, |(base, _)| base);
                self.insert(etype.as_str(), &Id::new(eid)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all(changed: &ChangedEntities) -> BTreeSet<String> {
        let of_type = |(etype, ids): (&Name, &HashSet<Id>)| {
            let names: Vec<String> = ids.iter().map(|eid| format!("{etype}:{eid}")).collect();
            names
        };
        changed.types().flat_map(of_type).collect()
    }

    #[test]
    fn contents_are_bounded_and_decoded_to_the_same_entities() {
        let mut changed = ChangedEntities::default();
        for number in 0..2_000 {
            let eid = Id::new(format!("{}", 114_327_608_932_745_216_u64 + number % 1_000));
            let entity = Entity {
                etype: Name::new("note").expect("a name"),
                eid: eid.expect("an ID"),
            };
            changed.add(&entity);
            changed.add_user(&Id::new(format!("u-{}", number % 7)).expect("an ID"));
        }
        assert_eq!(changed.len(), 1_007);
        let contents = changed.contents();
        assert!(contents.len() > 5 && contents.iter().all(|one| one.len() <= MAX_CONTENT));
        let mut decoded = ChangedEntities::default();
        for content in &contents {
            decoded.add_content(content).expect("valid");
        }
        assert_eq!(all(&decoded), all(&changed));
    }

    #[test]
    fn malformed_contents_are_errors() {
        for content in ["", "note", "note:", ":1", "note:1;", "note:1,,2", "no te:1"] {
            let mut changed = ChangedEntities::default();
            assert!(changed.add_content(content).is_err(), "{content}");
        }
        assert!(ChangedEntities::default().contents().is_empty());
    }
}
