//! The key layout.
//!
//! An entity's partition is the hash of `etype:eid` modulo the number of partitions, a user's that of the user's ID. In cluster mode
//! every key ends with its partition as a hash tag. All keys of a partition then share a slot, and one command, script or
//! transaction can use them together.

use super::hash::crc16;
use super::partition::{MAX_PARTITIONS, Partition, PartitionHash};
use crate::domain::ids::{Entity, Id, Name};

/// Keys that differ in one part. Scripts build them from the prefix and the suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate {
    /// The part before the variable part.
    pub prefix: String,
    /// The part after the variable part.
    pub suffix: String,
}

impl KeyTemplate {
    /// The key with this variable part.
    pub fn key(&self, part: impl std::fmt::Display) -> String {
        let KeyTemplate { prefix, suffix } = self;
        format!("{prefix}{part}{suffix}")
    }
}

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

/// The key layout. It is immutable after the data has been created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    partitions: u16,
    tagged: bool,
    hash: PartitionHash,
}

impl Keys {
    /// Creates a layout. `partitions` is clamped to 1 ..= [`MAX_PARTITIONS`]; `tagged` adds hash tags, for cluster mode.
    pub fn new(partitions: u16, tagged: bool, hash: PartitionHash) -> Keys {
        Keys {
            partitions: partitions.clamp(1, MAX_PARTITIONS),
            tagged,
            hash,
        }
    }

    /// The number of partitions.
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Whether keys have hash tags, so that one command must not use keys of several partitions.
    pub fn tagged(&self) -> bool {
        self.tagged
    }

    /// Whether one script or transaction can use keys of both partitions.
    pub fn can_combine(&self, one: Partition, other: Partition) -> bool {
        !self.tagged || one == other
    }

    /// The partition of an entity's counters, facts and events.
    pub fn of_entity(&self, entity: &Entity) -> Partition {
        self.hash.of_entity(entity, self.partitions)
    }

    /// The partition of a user's counters.
    pub fn of_user(&self, uid: &Id) -> Partition {
        self.hash.of_user(uid, self.partitions)
    }

    /// The shard of a user ID.
    pub fn shard(uid: &Id, shards: u16) -> u16 {
        crc16(0, uid.as_str().as_bytes()) % shards.max(1)
    }

    fn append_tag(&self, key: &mut String, partition: Partition) {
        if self.tagged {
            key.push_str(&format!(":{{{partition}}}"));
        }
    }

    fn tag(&self, mut key: String, partition: Partition) -> String {
        self.append_tag(&mut key, partition);
        key
    }

    pub(super) fn numbered(&self, prefix: &str, partition: Partition, suffix: &str) -> String {
        if self.tagged {
            format!("{prefix}:{{{partition}}}{suffix}")
        } else {
            format!("{prefix}:{partition}{suffix}")
        }
    }

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

    /// The set of users who performed a metric on an entity.
    pub fn facts(&self, metric: &Name, entity: &Entity) -> String {
        let mut key = String::new();
        self.write_facts(&mut key, &Keys::facts_prefix(metric, &entity.etype), entity);
        key
    }

    /// What the keys of [`facts`](Self::facts) of a metric on entities of a type begin with.
    pub fn facts_prefix(metric: &Name, etype: &Name) -> String {
        format!("rbm:{metric}:{etype}:")
    }

    /// Writes the key of the set of users who performed a metric on an entity into `key`. A page has hundreds of them. `prefix` is that
    /// of the metric and the entity's type.
    pub fn write_facts(&self, key: &mut String, prefix: &str, entity: &Entity) {
        key.clear();
        key.push_str(prefix);
        key.push_str(entity.eid.as_str());
        if self.tagged {
            self.append_tag(key, self.of_entity(entity));
        }
    }

    /// The Sets of users who performed a metric on an entity: one per shard or day, `old` for non-numeric IDs of compacted days,
    /// and `days`, the index of the days.
    pub fn fact_sets(&self, metric: &Name, entity: &Entity) -> KeyTemplate {
        self.key_template("s", metric, entity)
    }

    /// The bitmaps of users who performed a metric on an entity: one String per chunk of IDs, and `chunks`, the index of chunks.
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

    /// The deduplication key of an action with an idempotency key.
    pub fn dedup(&self, metric: &Name, entity: &Entity, op: &str, uid: &Id, key: &str) -> String {
        let Entity { etype, eid } = entity;
        self.tag(
            format!("act:dedup:{etype}:{eid}:{metric}:{op}:{uid}:{key}"),
            self.of_entity(entity),
        )
    }

    /// The deduplication key of a reset of a user's counter with an idempotency key.
    pub fn user_dedup(&self, uid: &Id, counter: &Name, key: &Id) -> String {
        self.tag(
            format!("act:dedup:user:{uid}:{counter}:reset:-:{key}"),
            self.of_user(uid),
        )
    }

    /// The keys that exist for a user who performed a metric on an entity in a window of time, by the number of the window.
    pub fn windows(&self, metric: &Name, entity: &Entity, uid: &Id) -> KeyTemplate {
        let Entity { etype, eid } = entity;
        KeyTemplate {
            prefix: format!("act:dedup:{etype}:{eid}:{metric}:{uid}:"),
            suffix: self.tag(String::new(), self.of_entity(entity)),
        }
    }

    /// The rate limit of a user: the theoretical arrival time of GCRA.
    pub fn limit(&self, uid: &Id) -> String {
        self.tag(format!("act:limit:{uid}"), self.of_user(uid))
    }

    /// The rate limit of a device, like that of a user.
    pub fn device_limit(&self, device: &Id) -> String {
        self.tag(format!("act:limit:d:{device}"), self.of_user(device))
    }

    /// The deduplication key of an envelope that was committed in a partition.
    pub fn counted(&self, partition: Partition, event_id: &Id) -> String {
        self.tag(format!("act:dedup:event:{event_id}"), partition)
    }

    /// The numeric IDs of envelopes that were committed in a partition and are remembered forever.
    pub fn event_ids(&self, partition: Partition) -> String {
        self.numbered("act:events", partition, "")
    }

    /// The stream that announces changed counters. Without hash tags all partitions share one stream.
    pub fn changes(&self, partition: Partition) -> String {
        self.tag("x:changes".to_owned(), partition)
    }

    /// The number of streams that announce changed counters.
    pub fn change_streams(&self) -> u16 {
        if self.tagged { self.partitions } else { 1 }
    }

    /// All streams that announce changed counters.
    pub fn all_changes(&self) -> Vec<String> {
        let partitions = 0..self.change_streams();
        partitions
            .map(|partition| self.changes(partition))
            .collect()
    }

    /// The log of a partition: a stream with the entry IDs 0-1, 0-2, 0-3 ...
    pub fn log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, "")
    }

    /// The stream that replaces a log while its entries are renumbered.
    pub fn new_log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":new")
    }

    /// The stream that replaces a log that is reset.
    pub fn reset_log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":reset")
    }

    /// A Hash with the position of a partition (field: `{partition}`) and the fences of its source partitions (field:
    /// `{partition}:{source}`). Without hash tags all partitions share one Hash.
    pub fn position(&self, partition: Partition) -> String {
        if self.tagged {
            self.numbered("x:cnt-update", partition, ":pos")
        } else {
            "x:cnt-update:pos".to_owned()
        }
    }

    /// The outbox of a partition: a stream of derived events to be forwarded to other partitions.
    pub fn outbox(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":out")
    }

    /// The dead-letter stream of a partition. Without hash tags all partitions share one stream.
    pub fn dead(&self, partition: Partition) -> String {
        if self.tagged {
            self.numbered("x:cnt-update", partition, ":dead")
        } else {
            "x:cnt-update:dead".to_owned()
        }
    }

    /// All dead-letter streams.
    pub fn all_dead(&self) -> Vec<String> {
        let count = if self.tagged { self.partitions } else { 1 };
        (0..count).map(|partition| self.dead(partition)).collect()
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

    /// The immutable settings of the data, such as the number of partitions: a Hash.
    pub fn layout(&self) -> &'static str {
        "countd:layout"
    }

    /// The state of an import: a Hash.
    pub fn import_job(&self, job: &Name) -> String {
        format!("countd:import:{job}")
    }

    /// The sequence number of the last part that an import has applied in a partition: a Hash (field: `{partition}`). Without hash tags
    /// all partitions share one Hash.
    pub fn import_state(&self, job: &Name, partition: Partition) -> String {
        let prefix = format!("countd:import:{job}:state");
        match self.tagged {
            true => self.numbered(&prefix, partition, ""),
            false => prefix,
        }
    }

    /// The numeric IDs of the entities of a partition whose counts of a metric an import from a live source has applied. `scope` is
    /// the metric, or `all`.
    pub fn import_ids(&self, job: &Name, scope: &str, partition: Partition) -> String {
        self.numbered(&format!("countd:import:{job}:ids:{scope}"), partition, "")
    }

    /// The other IDs of these entities: a Set.
    pub fn import_names(&self, job: &Name, scope: &str, partition: Partition) -> String {
        self.numbered(&format!("countd:import:{job}:names:{scope}"), partition, "")
    }

    /// The jobs that have not ended: a Hash of their IDs by target. It shares a slot with the jobs.
    pub fn jobs(&self) -> &'static str {
        "countd:{jobs}"
    }

    /// A job: a Hash.
    pub fn job(&self, id: &Id) -> String {
        format!("{}:{id}", self.jobs())
    }

    /// The audit of corrections of counters: a stream. Without hash tags all partitions share one stream.
    pub fn audit(&self, partition: Partition) -> String {
        match self.tagged {
            true => self.numbered("x:audit:cntfix", partition, ""),
            false => "x:audit:cntfix".to_owned(),
        }
    }

    /// All audit streams.
    pub fn all_audits(&self) -> Vec<String> {
        let count = if self.tagged { self.partitions } else { 1 };
        (0..count).map(|partition| self.audit(partition)).collect()
    }

    /// The processes that use the data: a sorted set, scored by the expiry of their heartbeats.
    pub fn processes(&self) -> &'static str {
        "countd:processes"
    }

    /// The members of the consumer group: a sorted set, scored by the expiry of their heartbeats.
    pub fn consumers(&self) -> &'static str {
        "countd:consumers"
    }
}

#[cfg(test)]
mod tests {
    use super::PartitionHash::{Crc16, Murmur2};
    use super::*;

    fn entity(etype: &str, eid: &str) -> Entity {
        Entity {
            etype: Name::new(etype).expect("a name"),
            eid: Id::new(eid).expect("an ID"),
        }
    }

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn partitions_never_change() {
        // A change here would orphan all existing keys.
        let partitions = |hash| {
            let keys = Keys::new(1024, false, hash);
            let note = |eid| keys.of_entity(&entity("note", eid));
            let user = keys.of_user(&Id::new("42").expect("an ID"));
            [
                note("1"),
                note("123456"),
                note("18446744073709551615"),
                user,
            ]
        };
        // As computed by Python: binascii.crc_hqx(b"note:1", 0) % 1024.
        assert_eq!(partitions(Crc16), [941, 102, 883, 832]);
        // As computed by Kafka: Utils.toPositive(Utils.murmur2("note:1".getBytes())) % 1024.
        assert_eq!(partitions(Murmur2), [382, 988, 857, 108]);
    }

    #[test]
    fn partitions_are_used_evenly() {
        for hash in [Crc16, Murmur2] {
            let keys = Keys::new(1024, false, hash);
            let mut entities = vec![0_u32; 1024];
            for eid in 0..102_400 {
                entities[usize::from(keys.of_entity(&entity("note", &eid.to_string())))] += 1;
            }
            let (min, max) = (entities.iter().min(), entities.iter().max());
            assert!(
                min >= Some(&50) && max <= Some(&200),
                "{hash:?} {min:?} {max:?}"
            );
        }
    }

    #[test]
    fn keys_have_the_documented_form() {
        let (note, v1, like) = (entity("note", "123456"), name("v1"), name("like"));
        let uid = Id::new("42").expect("an ID");
        let keys = Keys::new(1024, false, Crc16);
        assert_eq!(keys.counters(&v1, &note), "cnt:v1:note:123456");
        assert_eq!(keys.table(&v1, &note.etype, 941), "tab:v1:note:941");
        assert_eq!(keys.user_table(7), "utab:7");
        assert_eq!(keys.author_table(&note.etype, 941), "aut:note:941");
        assert_eq!(keys.author_hash(&note.etype, 941), "auth:note:941");
        assert_eq!(keys.facts(&like, &note), "rbm:like:note:123456");
        let day = keys.fact_sets(&like, &note).key(20_261_231);
        assert_eq!(day, "s:like:note:123456:20261231");
        let chunk = keys.fact_bits(&like, &note).key(7);
        assert_eq!(chunk, "bm:like:note:123456:7");
        assert_eq!(keys.user_counters(&uid), "ucnt:42");
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
        assert_eq!(keys.log(7), "x:cnt-update:7");
        assert_eq!(keys.position(7), "x:cnt-update:pos");
        assert_eq!(keys.dead(7), "x:cnt-update:dead");
        assert_eq!(keys.event_ids(7), "act:events:7");
        assert_eq!(keys.all_changes(), ["x:changes"]);
        assert_eq!(keys.schema_by_name(&v1), "schema:v1:idx_by_name");
        let dedup = keys.dedup(&like, &note, "add", &uid, "k1");
        assert_eq!(dedup, "act:dedup:note:123456:like:add:42:k1");
        let p = keys.of_entity(&note);
        let keys = Keys::new(1024, true, Crc16);
        assert_eq!(
            keys.counters(&v1, &note),
            format!("cnt:v1:note:123456:{{{p}}}")
        );
        let shard = keys.fact_sets(&like, &note).key(99);
        assert_eq!(shard, format!("s:like:note:123456:99:{{{p}}}"));
        assert_eq!(keys.table(&v1, &note.etype, 7), "tab:v1:note:{7}");
        assert_eq!(keys.user_table(7), "utab:{7}");
        assert_eq!(keys.days(7), "countd:days:{7}");
        assert_eq!(keys.log(7), "x:cnt-update:{7}");
        assert_eq!(keys.position(7), "x:cnt-update:{7}:pos");
        assert_eq!(keys.dead(7), "x:cnt-update:{7}:dead");
        assert_eq!(keys.all_dead().len(), 1024);
        assert_eq!(keys.event_ids(7), "act:events:{7}");
        assert_eq!(keys.all_changes()[7], "x:changes:{7}");
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
