//! The keys of counters, their schemas and the registered authors of entities.

use super::layout::Keys;
use super::partition::Partition;
use crate::domain::ids::{Entity, Id, Name};

impl Keys {
    /// The object with the counters of an entity.
    pub fn counters(&self, schema: &Name, entity: &Entity) -> String {
        let mut key = String::new();
        self.write_counters(&mut key, schema, entity, self.of_entity(entity));
        key
    }

    /// Writes the key of the object with an entity's counters into `key`, given the partition of the entity.
    pub fn write_counters(
        &self,
        key: &mut String,
        schema: &Name,
        entity: &Entity,
        partition: Partition,
    ) {
        key.clear();
        for part in [
            "cnt:",
            schema.as_str(),
            ":",
            entity.etype.as_str(),
            ":",
            entity.eid.as_str(),
        ] {
            key.push_str(part);
        }
        self.append_tag(key, partition);
    }

    /// The object with the counters of a user.
    pub fn user_counters(&self, uid: &Id) -> String {
        let mut key = String::new();
        self.write_user_counters(&mut key, uid, self.of_user(uid));
        key
    }

    /// Writes the key of the object with a user's counters into `key`, given the partition of the user.
    pub fn write_user_counters(&self, key: &mut String, uid: &Id, partition: Partition) {
        key.clear();
        key.push_str("ucnt:");
        key.push_str(uid.as_str());
        self.append_tag(key, partition);
    }

    /// The table of the counters of a partition's entities of one type.
    pub fn table(&self, schema: &Name, etype: &Name, partition: Partition) -> String {
        // A page has a hundred tables. `format!` takes twenty times as many instructions.
        let (schema, etype) = (schema.as_str(), etype.as_str());
        let mut key = String::with_capacity("tab:::{16383}".len() + schema.len() + etype.len());
        for part in ["tab:", schema, ":", etype, ":"] {
            key.push_str(part);
        }
        if self.tagged {
            key.push('{');
        }
        key.push_str(itoa::Buffer::new().format(partition));
        if self.tagged {
            key.push('}');
        }
        key
    }

    /// The table of the counters of a partition's users.
    pub fn user_table(&self, partition: Partition) -> String {
        self.numbered("utab", partition, "")
    }

    /// The table of the authors of a partition's entities of one type.
    pub fn author_table(&self, etype: &Name, partition: Partition) -> String {
        self.numbered(&format!("aut:{etype}"), partition, "")
    }

    /// The Hash of the authors of a partition's entities of one type that do not fit into a table, because the ID of the entity or of
    /// the author is not a number, or because the data has no tables.
    pub fn author_hash(&self, etype: &Name, partition: Partition) -> String {
        self.numbered(&format!("auth:{etype}"), partition, "")
    }

    /// A schema: a Hash with `len` and the name of each index.
    pub fn schema(&self, id: &Name) -> String {
        if self.tagged {
            format!("schema:{{{id}}}")
        } else {
            format!("schema:{id}")
        }
    }

    /// The reverse of a schema: a Hash with the index of each name.
    pub fn schema_by_name(&self, id: &Name) -> String {
        format!("{}:idx_by_name", self.schema(id))
    }

    /// The pattern of [`schema`](Self::schema) keys for `SCAN`.
    pub fn schema_pattern(&self) -> &'static str {
        "schema:*"
    }

    /// The ID of the schema stored at `key`.
    pub fn schema_of(&self, key: &str) -> Option<Name> {
        let id = key.strip_prefix("schema:")?;
        let id = if self.tagged {
            id.strip_prefix('{')?.strip_suffix('}')?
        } else {
            id
        };
        Name::new(id).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Crc16;
    use crate::domain::keys::testing::{entity, name};

    #[test]
    fn keys_of_counters_have_the_documented_form() {
        let (note, v1) = (entity("note", "123456"), name("v1"));
        let uid = Id::new("42").expect("an ID");
        let keys = Keys::new(1024, false, Crc16);
        assert_eq!(keys.counters(&v1, &note), "cnt:v1:note:123456");
        assert_eq!(keys.table(&v1, &note.etype, 941), "tab:v1:note:941");
        assert_eq!(keys.user_table(7), "utab:7");
        assert_eq!(keys.author_table(&note.etype, 941), "aut:note:941");
        assert_eq!(keys.author_hash(&note.etype, 941), "auth:note:941");
        assert_eq!(keys.user_counters(&uid), "ucnt:42");
        assert_eq!(keys.schema_by_name(&v1), "schema:v1:idx_by_name");
        let p = keys.of_entity(&note);
        let keys = Keys::new(1024, true, Crc16);
        assert_eq!(
            keys.counters(&v1, &note),
            format!("cnt:v1:note:123456:{{{p}}}")
        );
        assert_eq!(keys.table(&v1, &note.etype, 7), "tab:v1:note:{7}");
        assert_eq!(keys.user_table(7), "utab:{7}");
    }

    #[test]
    fn schema_ids_are_parsed_from_keys_of_schemas_only() {
        for tagged in [false, true] {
            let keys = Keys::new(8, tagged, Crc16);
            assert_eq!(keys.schema_of(&keys.schema(&name("v1"))), Some(name("v1")));
            assert_eq!(keys.schema_of(&keys.schema_by_name(&name("v1"))), None);
        }
    }
}
