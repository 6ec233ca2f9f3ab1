//! The keys of idempotency, windows and rate limits.

use super::layout::{KeyTemplate, Keys};
use super::partition::Partition;
use crate::domain::ids::{Entity, Id, Name};

impl Keys {
    /// The deduplication key of an action with an idempotency key.
    pub fn dedup(&self, metric: &Name, entity: &Entity, op: &str, uid: &Id, key: &str) -> String {
        let Entity { etype, eid } = entity;
        self.tag(
            format!("act:dedup:{etype}:{eid}:{metric}:{op}:{uid}:{key}"),
            self.of_entity(entity),
        )
    }

    /// The deduplication key of a reset of a user's counter with an idempotency key. Its operation differs from that of a reset of an
    /// entity of the type `user`, whose metric can have the name of the counter.
    pub fn user_dedup(&self, uid: &Id, counter: &Name, key: &Id) -> String {
        self.tag(
            format!("act:dedup:user:{uid}:{counter}:reset-user:-:{key}"),
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Crc16;
    use crate::domain::keys::testing::{entity, name};

    #[test]
    fn keys_of_actions_have_the_documented_form() {
        let (note, like) = (entity("note", "123456"), name("like"));
        let uid = Id::new("42").expect("an ID");
        let keys = Keys::new(1024, false, Crc16);
        assert_eq!(keys.event_ids(7), "act:events:7");
        let dedup = keys.dedup(&like, &note, "add", &uid, "k1");
        assert_eq!(dedup, "act:dedup:note:123456:like:add:42:k1");
        // Resets of a counter of a user, and of a metric of an entity of the type `user`.
        let (user, nobody) = (entity("user", "42"), Id::new("-").expect("an ID"));
        let key = Id::new("k1").expect("an ID");
        let resets = [
            keys.user_dedup(&uid, &like, &key),
            keys.dedup(&like, &user, "reset", &nobody, "k1"),
        ];
        assert_eq!(resets[0], "act:dedup:user:42:like:reset-user:-:k1");
        assert_ne!(resets[0], resets[1]);
        let keys = Keys::new(1024, true, Crc16);
        assert_eq!(keys.event_ids(7), "act:events:{7}");
    }
}
