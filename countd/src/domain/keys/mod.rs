//! Every key of Redis is made here, and so is the choice of the partition that it belongs to.
//!
//! A partition is CRC-16/XMODEM (the hash that Redis Cluster has for keys) of `etype:eid`, or of a user's id for that user's
//! counters, modulo the number of partitions. On a server in cluster mode a key ends in its partition as a hash tag, so that
//! all keys of a partition share a slot and one command, script or transaction can use them together.

mod hash;

pub(crate) use hash::slot;

use crate::domain::ids::{Entity, Id, Name};
use hash::crc16;

/// The number of a partition.
pub type Partition = u16;

/// The most partitions there can be: as many as a cluster has slots.
pub const MAX_PARTITIONS: u16 = 16_384;

/// Keys that differ in one place, of which scripts make some themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// What stands before that place.
    pub before: String,
    /// What stands behind it.
    pub after: String,
}

impl Family {
    /// One of them.
    pub fn key(&self, part: impl std::fmt::Display) -> String {
        let Family { before, after } = self;
        format!("{before}{part}{after}")
    }
}

/// How keys are laid out: chosen once for all data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    partitions: u16,
    tagged: bool,
}

impl Keys {
    /// `partitions` is 1 to [`MAX_PARTITIONS`] (a number outside counts as the nearest inside). `tagged` is for servers in
    /// cluster mode.
    pub fn new(partitions: u16, tagged: bool) -> Keys {
        Keys {
            partitions: partitions.clamp(1, MAX_PARTITIONS),
            tagged,
        }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Whether keys end in a hash tag: whether keys of different partitions must not meet in one command.
    pub fn tagged(&self) -> bool {
        self.tagged
    }

    /// Whether keys of these two partitions can be part of one script or transaction.
    pub fn meet(&self, one: Partition, other: Partition) -> bool {
        !self.tagged || one == other
    }

    /// The partition of an entity: of its counters, its facts and the log of its events.
    pub fn of_entity(&self, entity: &Entity) -> Partition {
        let (etype, eid) = (entity.etype.as_str(), entity.eid.as_str());
        let crc = crc16(crc16(crc16(0, etype.as_bytes()), b":"), eid.as_bytes());
        crc % self.partitions
    }

    /// The partition of a user's counters.
    pub fn of_user(&self, uid: &Id) -> Partition {
        crc16(0, uid.as_str().as_bytes()) % self.partitions
    }

    /// One of `shards` numbers for a user's id.
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

    fn numbered(&self, prefix: &str, partition: Partition, suffix: &str) -> String {
        if self.tagged {
            format!("{prefix}:{{{partition}}}{suffix}")
        } else {
            format!("{prefix}:{partition}{suffix}")
        }
    }

    /// The counters of an entity.
    pub fn counters(&self, schema: &Name, entity: &Entity) -> String {
        let mut key = String::new();
        self.write_counters(&mut key, schema, entity, self.of_entity(entity));
        key
    }

    /// Replaces `key` with the key of the counters of an entity, whose partition is known.
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

    /// The counters of a user.
    pub fn user_counters(&self, uid: &Id) -> String {
        let mut key = String::new();
        self.write_user_counters(&mut key, uid, self.of_user(uid));
        key
    }

    /// Replaces `key` with the key of the counters of a user, whose partition is known.
    pub fn write_user_counters(&self, key: &mut String, uid: &Id, partition: Partition) {
        key.clear();
        key.push_str("ucnt:");
        key.push_str(uid.as_str());
        self.append_tag(key, partition);
    }

    /// The set of the users who did `metric` to an entity.
    pub fn facts(&self, metric: &Name, entity: &Entity) -> String {
        let Entity { etype, eid } = entity;
        self.tag(
            format!("rbm:{metric}:{etype}:{eid}"),
            self.of_entity(entity),
        )
    }

    /// The Sets of the users who did `metric` to an entity: one for each shard or day, one (`old`) for those of folded days
    /// whose ids are no numbers; and `days`, which lists the days.
    pub fn fact_sets(&self, metric: &Name, entity: &Entity) -> Family {
        self.family("s", metric, entity)
    }

    /// The same as bits: one String for each chunk of ids; and `chunks`, which lists them.
    pub fn fact_bits(&self, metric: &Name, entity: &Entity) -> Family {
        self.family("bm", metric, entity)
    }

    fn family(&self, kind: &str, metric: &Name, entity: &Entity) -> Family {
        let Entity { etype, eid } = entity;
        Family {
            before: format!("{kind}:{metric}:{etype}:{eid}:"),
            after: self.tag(String::new(), self.of_entity(entity)),
        }
    }

    /// The days of a partition that are Sets and will be folded: a sorted set of `{yyyymmdd}:{metric}:{etype}:{eid}`.
    pub fn days(&self, partition: Partition) -> String {
        self.numbered("countd:days", partition, "")
    }

    /// What is remembered of an action with an idempotency key.
    pub fn dedup(&self, metric: &Name, entity: &Entity, op: &str, uid: &Id, key: &str) -> String {
        let Entity { etype, eid } = entity;
        self.tag(
            format!("act:dedup:{etype}:{eid}:{metric}:{op}:{uid}:{key}"),
            self.of_entity(entity),
        )
    }

    /// How far a user is ahead of the rate at which he may act.
    pub fn limit(&self, uid: &Id) -> String {
        self.tag(format!("act:limit:{uid}"), self.of_user(uid))
    }

    /// That the envelope with this id was counted, in a partition.
    pub fn counted(&self, partition: Partition, event_id: &Id) -> String {
        self.tag(format!("act:dedup:event:{event_id}"), partition)
    }

    /// The log of a partition: a stream whose entries have the ids 0-1, 0-2, 0-3 ...
    pub fn log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, "")
    }

    /// The stream that takes the place of a log whose entries have to be renumbered.
    pub fn new_log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":new")
    }

    /// The stream that takes the place of a log that is reset.
    pub fn reset_log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":reset")
    }

    /// How far the log of a partition has been counted (field: the partition), and the fences of those that feed it (field: the
    /// partition, a colon, the one that feeds it): a hash. Without hash tags there is one such hash for all.
    pub fn position(&self, partition: Partition) -> String {
        if self.tagged {
            self.numbered("x:cnt-update", partition, ":pos")
        } else {
            "x:cnt-update:pos".to_owned()
        }
    }

    /// What a partition has for the logs of others and has not handed over yet: a stream.
    pub fn outbox(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":out")
    }

    /// Where events of a partition go that cannot be counted. Without hash tags there is one such stream for all.
    pub fn dead(&self, partition: Partition) -> String {
        if self.tagged {
            self.numbered("x:cnt-update", partition, ":dead")
        } else {
            "x:cnt-update:dead".to_owned()
        }
    }

    /// All streams of dead events.
    pub fn all_dead(&self) -> Vec<String> {
        let count = if self.tagged { self.partitions } else { 1 };
        (0..count).map(|partition| self.dead(partition)).collect()
    }

    /// A schema: `len`, and the name of each index.
    pub fn schema(&self, id: &Name) -> String {
        if self.tagged {
            format!("schema:{{{id}}}")
        } else {
            format!("schema:{id}")
        }
    }

    /// The same the other way round: the index of each name.
    pub fn schema_by_name(&self, id: &Name) -> String {
        format!("{}:idx_by_name", self.schema(id))
    }

    /// A pattern that [`schema`](Self::schema) keys match, for `SCAN`.
    pub fn schema_pattern(&self) -> &'static str {
        "schema:*"
    }

    /// The schema whose key this is.
    pub fn schema_of(&self, key: &str) -> Option<Name> {
        let id = key.strip_prefix("schema:")?;
        let id = if self.tagged {
            id.strip_prefix('{')?.strip_suffix('}')?
        } else {
            id
        };
        Name::new(id).ok()
    }

    /// The number of partitions that this data was begun with: a hash.
    pub fn layout(&self) -> &'static str {
        "countd:layout"
    }

    /// The consumers that are alive, by when they will be taken for dead: a sorted set.
    pub fn consumers(&self) -> &'static str {
        "countd:consumers"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(etype: &str, eid: &str) -> Entity {
        Entity {
            etype: Name::new(etype).expect("a name"),
            eid: Id::new(eid).expect("an id"),
        }
    }

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn partitions_are_fixed_for_ever() {
        // Data lies where these say: a change here is a change of everybody's keys.
        let keys = Keys::new(1024, false);
        let found = [
            keys.of_entity(&entity("note", "1")),
            keys.of_entity(&entity("note", "123456")),
            keys.of_user(&Id::new("42").expect("an id")),
        ];
        // As Python has it: binascii.crc_hqx(b"note:1", 0) % 1024, and so on.
        assert_eq!(found, [941, 102, 832]);
    }

    #[test]
    fn partitions_are_used_evenly() {
        let keys = Keys::new(1024, false);
        let mut entities = vec![0_u32; 1024];
        for eid in 0..102_400 {
            entities[usize::from(keys.of_entity(&entity("note", &eid.to_string())))] += 1;
        }
        let (min, max) = (entities.iter().min(), entities.iter().max());
        assert!(min >= Some(&50) && max <= Some(&200), "{min:?} {max:?}");
    }

    #[test]
    fn keys_have_the_documented_form() {
        let (note, v1, like) = (entity("note", "123456"), name("v1"), name("like"));
        let uid = Id::new("42").expect("an id");
        let keys = Keys::new(1024, false);
        assert_eq!(keys.counters(&v1, &note), "cnt:v1:note:123456");
        assert_eq!(keys.facts(&like, &note), "rbm:like:note:123456");
        let day = keys.fact_sets(&like, &note).key(20_261_231);
        assert_eq!(day, "s:like:note:123456:20261231");
        let chunk = keys.fact_bits(&like, &note).key(7);
        assert_eq!(chunk, "bm:like:note:123456:7");
        assert_eq!(keys.user_counters(&uid), "ucnt:42");
        assert_eq!(keys.log(7), "x:cnt-update:7");
        assert_eq!(keys.position(7), "x:cnt-update:pos");
        assert_eq!(keys.dead(7), "x:cnt-update:dead");
        assert_eq!(keys.schema_by_name(&v1), "schema:v1:idx_by_name");
        let dedup = keys.dedup(&like, &note, "add", &uid, "k1");
        assert_eq!(dedup, "act:dedup:note:123456:like:add:42:k1");
        let p = keys.of_entity(&note);
        let keys = Keys::new(1024, true);
        assert_eq!(
            keys.counters(&v1, &note),
            format!("cnt:v1:note:123456:{{{p}}}")
        );
        let shard = keys.fact_sets(&like, &note).key(99);
        assert_eq!(shard, format!("s:like:note:123456:99:{{{p}}}"));
        assert_eq!(keys.days(7), "countd:days:{7}");
        assert_eq!(keys.log(7), "x:cnt-update:{7}");
        assert_eq!(keys.position(7), "x:cnt-update:{7}:pos");
        assert_eq!(keys.dead(7), "x:cnt-update:{7}:dead");
        assert_eq!(keys.all_dead().len(), 1024);
    }

    #[test]
    fn a_schema_is_found_by_its_key_alone() {
        for tagged in [false, true] {
            let keys = Keys::new(8, tagged);
            assert_eq!(keys.schema_of(&keys.schema(&name("v1"))), Some(name("v1")));
            assert_eq!(keys.schema_of(&keys.schema_by_name(&name("v1"))), None);
        }
    }
}
