//! The keys of the verification of users: of the facts that are kept for them, and of the counters of these facts.

use super::layout::Keys;
use super::partition::Partition;
use crate::domain::ids::{Id, Name};

/// A key with facts that are kept for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReverseKey {
    /// The metric.
    pub metric: Name,
    /// The type of the entities.
    pub etype: Name,
    /// The user.
    pub uid: Id,
    /// Whether it has the newest facts; otherwise the older ones.
    pub is_newest: bool,
    /// Whether it is for IDs that are not numbers, and for data without the module.
    pub is_plain: bool,
}

impl Keys {
    /// The parts of a key with facts that are kept for a user. `None` for other keys.
    pub fn reverse_of(&self, key: &str) -> Option<ReverseKey> {
        let name = match self.tagged() {
            true => key.rsplit_once(":{")?.0,
            false => key,
        };
        let mut parts = name.split(':');
        let is_newest = match parts.next()? {
            "rtl" => true,
            "rev" => false,
            _ => return None,
        };
        let (metric, etype, uid) = (parts.next()?, parts.next()?, parts.next()?);
        let is_plain = match (parts.next(), parts.next()) {
            (None, None) => false,
            (Some("s"), None) => true,
            _ => return None,
        };
        Some(ReverseKey {
            metric: Name::new(metric).ok()?,
            etype: Name::new(etype).ok()?,
            uid: Id::new(uid).ok()?,
            is_newest,
            is_plain,
        })
    }

    /// The progress of the sweeps that compare facts with the timelines of users: a Hash.
    pub fn transposition(&self) -> &'static str {
        "countd:transposition"
    }

    /// The lock of the process that runs the sweep: a String with its token.
    pub fn transposition_lock(&self) -> &'static str {
        "countd:transposition:lock"
    }

    /// The counters of users that differ from the facts kept for them: a Hash (field: `{uid}:{counter}`). Without hash tags all partitions share one.
    pub fn user_notes(&self, partition: Partition) -> String {
        match self.tagged() {
            true => self.numbered("countd:users", partition, ""),
            false => "countd:users".to_owned(),
        }
    }

    /// The lock of the rebuild of a user's counters: a String with its token. It is in the slot of the user.
    pub fn user_rebuild_lock(&self, uid: &Id) -> String {
        let key = format!("lock:sds-rebuild:user:{uid}");
        match self.tagged() {
            true => format!("{key}:{{{}}}", self.of_user(uid)),
            false => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash;

    #[test]
    fn keys_of_timelines_are_parsed() {
        let (metric, etype) = ("follow".parse(), "user".parse());
        let (metric, etype): (Name, Name) = (metric.expect("a name"), etype.expect("a name"));
        let uid = Id::new("a.7").expect("an ID");
        for tagged in [false, true] {
            let keys = Keys::new(8, tagged, PartitionHash::Murmur2);
            let timeline = keys.reverse(&metric, &etype, &uid);
            let found: Vec<(bool, bool)> = timeline
                .all()
                .map(|key| {
                    let parsed = keys.reverse_of(key).expect("a timeline");
                    assert_eq!((&parsed.metric, &parsed.etype), (&metric, &etype));
                    assert_eq!(parsed.uid, uid);
                    (parsed.is_newest, parsed.is_plain)
                })
                .collect();
            let expected = [(true, false), (true, true), (false, false), (false, true)];
            assert_eq!(found, expected);
            assert_eq!(keys.reverse_of(&keys.log(3)), None);
        }
        let lock = Keys::new(1, true, PartitionHash::Murmur2).user_rebuild_lock(&uid);
        assert_eq!(lock, "lock:sds-rebuild:user:a.7:{0}");
    }
}
