//! The keys of facts: the users of an entity, and what users did.

use super::layout::{KeyTemplate, Keys};
use super::partition::Partition;
use crate::domain::ids::{Entity, Id, Name};

/// The keys of a timeline: facts, newest first. Each fact is in one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineKeys {
    /// The newest facts with numeric IDs: a table of times, on data with the module.
    pub newest_table: String,
    /// The newest other facts: a sorted set, scored by time.
    pub newest_set: String,
    /// The older facts with numeric IDs: a set of IDs of the module.
    pub older_ids: Option<String>,
    /// The older other facts: a Set.
    pub older_set: Option<String>,
}

impl TimelineKeys {
    /// All keys.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let newest = [&self.newest_table, &self.newest_set].into_iter();
        let older = [&self.older_ids, &self.older_set].into_iter().flatten();
        newest.chain(older).map(String::as_str)
    }
}

impl Keys {
    /// The set of users who performed a metric on an entity.
    pub fn facts(&self, metric: &Name, entity: &Entity) -> String {
        let mut key = String::new();
        self.write_facts(&mut key, metric, entity);
        key
    }

    /// Writes the key of the set of users who performed a metric on an entity into `key`. A page has hundreds of them.
    pub fn write_facts(&self, key: &mut String, metric: &Name, entity: &Entity) {
        key.clear();
        for part in [
            "rbm:",
            metric.as_str(),
            ":",
            entity.etype.as_str(),
            ":",
            entity.eid.as_str(),
        ] {
            key.push_str(part);
        }
        if self.tagged {
            self.append_tag(key, self.of_entity(entity));
        }
    }

    /// The Sets of users who performed a metric on an entity: one per shard or day, `old` for non-numeric IDs of compacted days,
    /// and `days`, the index of the days.
    pub fn fact_sets(&self, metric: &Name, entity: &Entity) -> KeyTemplate {
        self.key_template("s", metric, entity)
    }

    /// The bitmaps of users who performed a metric on an entity: one String per chunk of IDs, `chunks`, the index of chunks,
    /// and `recount`, the state of a recount of many chunks.
    pub fn fact_bits(&self, metric: &Name, entity: &Entity) -> KeyTemplate {
        self.key_template("bm", metric, entity)
    }

    fn key_template(&self, kind: &str, metric: &Name, entity: &Entity) -> KeyTemplate {
        let Entity { etype, eid } = entity;
        KeyTemplate {
            prefix: format!("{kind}:{metric}:{etype}:{eid}:"),
            suffix: self.tag(String::new(), self.of_entity(entity)),
        }
    }

    /// The facts of a user: a metric performed on entities of a type.
    pub fn reverse(&self, metric: &Name, etype: &Name, uid: &Id) -> TimelineKeys {
        let (subject, partition) = (format!("{metric}:{etype}:{uid}"), self.of_user(uid));
        self.timeline("rtl", Some("rev"), &subject, partition)
    }

    /// The latest users who performed a metric on an entity, in the entity's slot.
    pub fn latest_users(&self, metric: &Name, entity: &Entity) -> TimelineKeys {
        let Entity { etype, eid } = entity;
        let (subject, partition) = (format!("{metric}:{etype}:{eid}"), self.of_entity(entity));
        self.timeline("wtl", None, &subject, partition)
    }

    fn timeline(
        &self,
        newest: &str,
        older: Option<&str>,
        subject: &str,
        partition: Partition,
    ) -> TimelineKeys {
        let key =
            |prefix: &str, form: &str| self.tag(format!("{prefix}:{subject}{form}"), partition);
        TimelineKeys {
            newest_table: key(newest, ""),
            newest_set: key(newest, ":s"),
            older_ids: older.map(|older| key(older, "")),
            older_set: older.map(|older| key(older, ":s")),
        }
    }

    /// The days of a partition that wait for compaction: a sorted set of `{yyyymmdd}:{metric}:{etype}:{eid}`.
    pub fn days(&self, partition: Partition) -> String {
        self.numbered("countd:days", partition, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Crc16;
    use crate::domain::keys::testing::{entity, name};

    #[test]
    fn keys_of_facts_have_the_documented_form() {
        let (note, like) = (entity("note", "123456"), name("like"));
        let uid = Id::new("42").expect("an ID");
        let keys = Keys::new(1024, false, Crc16);
        assert_eq!(keys.facts(&like, &note), "rbm:like:note:123456");
        let day = keys.fact_sets(&like, &note).key(20_261_231);
        assert_eq!(day, "s:like:note:123456:20261231");
        let chunk = keys.fact_bits(&like, &note).key(7);
        assert_eq!(chunk, "bm:like:note:123456:7");
        let reverse = keys.reverse(&like, &note.etype, &uid);
        let names: Vec<&str> = reverse.all().collect();
        let expected = [
            "rtl:like:note:42",
            "rtl:like:note:42:s",
            "rev:like:note:42",
            "rev:like:note:42:s",
        ];
        assert_eq!(names, expected);
        let latest = keys.latest_users(&like, &note);
        assert_eq!(latest.newest_table, "wtl:like:note:123456");
        let p = keys.of_entity(&note);
        let keys = Keys::new(1024, true, Crc16);
        let shard = keys.fact_sets(&like, &note).key(99);
        assert_eq!(shard, format!("s:like:note:123456:99:{{{p}}}"));
        assert_eq!(keys.days(7), "countd:days:{7}");
    }
}
