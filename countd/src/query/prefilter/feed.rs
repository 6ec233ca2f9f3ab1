//! Reads the facts that were added from the logs.

use super::error::FeedError;
use super::tracking::Tracking;
use crate::domain::event::{Event, GroupEvent, MEMBERS};
use crate::domain::keys::Partition;
use crate::log::{EntryKind, offset};
use crate::redis::store::Store;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use std::collections::{BTreeSet, HashMap};
use tokio::sync::Notify;
use xxhash_rust::xxh3::Xxh3;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "XRANGE {log} - +",
    "XREVRANGE {log} + - COUNT 1",
    "XINFO STREAM {log}",
];

/// The number of entries that are read of a log at once.
const COUNT: usize = 500;
/// The number of logs that are read at once.
const LOGS: usize = 64;

/// An entry: its ID, its fields and values.
type Entry = (Vec<u8>, Vec<Vec<u8>>);

/// Where a log was read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    /// The offset of the last entry; 0 if there was none.
    offset: u64,
    /// The hash of this entry. `None` if the log had no entries.
    hash: Option<u64>,
}

/// Follows all logs.
pub(super) struct Feed {
    store: Store,
    tracking: Tracking,
    /// By partition.
    ends: Vec<End>,
}

fn hash(fields: &[Vec<u8>]) -> u64 {
    let mut hash = Xxh3::new();
    fields.iter().for_each(|field| hash.update(field));
    hash.digest()
}

impl Feed {
    /// Begins at the ends of all logs at this moment.
    ///
    /// # Errors
    /// Redis is unavailable, or a log has an entry with a foreign ID.
    pub async fn start(store: &Store) -> Result<Feed, FeedError> {
        let tracking = Tracking::start(store).await?;
        let partitions: Vec<Partition> = (0..store.keys().partitions()).collect();
        let mut ends = Vec::with_capacity(partitions.len());
        for partitions in partitions.chunks(LOGS) {
            let mut pipeline = redis::pipe();
            for partition in partitions {
                let log = store.keys().log(*partition);
                pipeline
                    .cmd("XREVRANGE")
                    .arg(log)
                    .arg(&["+", "-", "COUNT", "1"]);
            }
            let last: Vec<Vec<Entry>> = pipeline.query_async(&mut store.reads()).await?;
            for (partition, entries) in partitions.iter().zip(last) {
                ends.push(match entries.first() {
                    Some((id, fields)) => End {
                        offset: offset(id).ok_or(FeedError::Irregular(*partition))?,
                        hash: Some(hash(fields)),
                    },
                    None => empty_end(store, *partition).await?,
                });
            }
        }
        Ok(Feed {
            store: store.clone(),
            tracking,
            ends,
        })
    }

    /// Is notified of changes.
    pub fn changed(&self) -> &Notify {
        self.tracking.notify()
    }

    /// A connection to each server.
    pub fn connections(&self) -> Vec<MultiplexedConnection> {
        self.tracking.connections()
    }

    /// Checks that no keys have moved between servers since the feed began.
    ///
    /// # Errors
    /// Some may have.
    pub async fn check_slots(&mut self) -> Result<(), FeedError> {
        self.tracking.check_slots().await
    }

    /// The events that have added facts since the last call: of all facts that were acknowledged before this call, and possibly more.
    ///
    /// # Errors
    /// Some may be missing.
    pub async fn new_facts(&mut self) -> Result<Vec<Event>, FeedError> {
        let mut to_read = self.tracking.changed().await?;
        let mut events = Vec::new();
        while !to_read.is_empty() {
            let all: Vec<Partition> = to_read.into_iter().collect();
            to_read = BTreeSet::new();
            for partitions in all.chunks(LOGS) {
                let mut pipeline = redis::pipe();
                for partition in partitions {
                    let log = self.store.keys().log(*partition);
                    let from = format!("0-{}", self.end(*partition).offset);
                    pipeline.cmd("XRANGE").arg(log).arg(from).arg("+");
                    pipeline.arg("COUNT").arg(COUNT);
                }
                let read: Vec<Vec<Entry>> = pipeline.query_async(&mut self.store.reads()).await?;
                for (partition, entries) in partitions.iter().zip(read) {
                    let end = self.end(*partition);
                    let next = continue_at(end, &entries, &mut events);
                    let next = next.ok_or(FeedError::Irregular(*partition))?;
                    if let Some(end) = self.ends.get_mut(usize::from(*partition)) {
                        *end = next;
                    }
                    if entries.len() == COUNT {
                        to_read.insert(*partition);
                    }
                }
            }
        }
        Ok(events)
    }

    fn end(&self, partition: Partition) -> End {
        let end = self.ends.get(usize::from(partition));
        end.copied().unwrap_or_default()
    }
}

/// The end of a log that had no entries a moment ago.
async fn empty_end(store: &Store, partition: Partition) -> Result<End, FeedError> {
    let log = store.keys().log(partition);
    let mut cmd = redis::cmd("XINFO");
    cmd.arg("STREAM").arg(log);
    let reply: Result<HashMap<String, Value>, RedisError> =
        cmd.query_async(&mut store.reads()).await;
    let info = match reply {
        Ok(info) => info,
        // There is no log.
        Err(error) if error.code() == Some("ERR") => return Ok(End::default()),
        Err(error) => return Err(error.into()),
    };
    let last = match info.get("last-generated-id") {
        Some(Value::BulkString(id)) if id == b"0-0" => Some(0),
        Some(Value::BulkString(id)) => offset(id),
        _ => None,
    };
    Ok(End {
        offset: last.ok_or(FeedError::Irregular(partition))?,
        hash: None,
    })
}

/// Where a log ends after it was read from `end` on, which includes the last entry that was read before. Adds the events that have added facts.
/// `None` if there is a gap after the entries that were read before.
fn continue_at(end: End, entries: &[Entry], events: &mut Vec<Event>) -> Option<End> {
    let mut entries = entries.iter();
    let mut next = end;
    if let Some(expected) = end.hash {
        let (id, fields) = entries.next()?;
        if offset(id)? != end.offset || hash(fields) != expected {
            return None;
        }
    }
    for (id, fields) in entries {
        let offset = offset(id)?;
        // Without an entry that was read, the last one may be there again.
        let is_known = next.hash.is_none() && offset == next.offset && offset > 0;
        if offset != next.offset + 1 && !is_known {
            return None;
        }
        let added = events_of(fields)?.into_iter();
        events.extend(added.filter(|event| event.delta > 0));
        next = End {
            offset,
            hash: Some(hash(fields)),
        };
    }
    Some(next)
}

/// The events of an entry; none if it is of another kind. `None` if they cannot be read.
fn events_of(fields: &[Vec<u8>]) -> Option<Vec<Event>> {
    let is = |field: &[u8], kind: EntryKind| field == kind.field().as_bytes();
    match fields {
        [field, payload, ..] if is(field, EntryKind::Event) => {
            Some(vec![serde_json::from_slice(payload).ok()?])
        }
        [field, payload, name, members] if is(field, EntryKind::Group) && name == MEMBERS => {
            let mut json = payload.clone();
            if !GroupEvent::add_users(&mut json, members) {
                return None;
            }
            let group: GroupEvent = serde_json::from_slice(&json).ok()?;
            Some(group.into_events())
        }
        [field, ..] if is(field, EntryKind::Group) => None,
        _ => Some(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, uid: u64, delta: i64) -> Entry {
        let event = format!(
            r#"{{"etype":"note","eid":"1","metric":"like","delta":{delta},"uid":"{uid}","ts":1}}"#
        );
        (
            id.as_bytes().to_vec(),
            vec![b"e".to_vec(), event.into_bytes()],
        )
    }

    /// The end, and the users of the facts, if the log is continued.
    fn read(end: End, entries: &[Entry]) -> Option<(End, Vec<String>)> {
        let mut events = Vec::new();
        let end = continue_at(end, entries, &mut events)?;
        let uids = events.iter().map(|event| event.uid.to_string());
        Some((end, uids.collect()))
    }

    #[test]
    fn a_log_must_be_continued_where_it_was_read_last() {
        let log = [entry("0-7", 1, 1), entry("0-8", 2, -1), entry("0-9", 3, 1)];
        let end = |of: &Entry| End {
            offset: offset(&of.0).expect("an offset"),
            hash: Some(hash(&of.1)),
        };
        let of = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<Vec<_>>();
        assert_eq!(read(end(&log[0]), &log), Some((end(&log[2]), of(&["3"]))));
        assert_eq!(read(end(&log[2]), &log[2..]), Some((end(&log[2]), of(&[]))));
        // A log without entries, whose next one is 7.
        let empty = End {
            offset: 6,
            hash: None,
        };
        assert_eq!(read(empty, &[]), Some((empty, of(&[]))));
        assert_eq!(read(empty, &log), Some((end(&log[2]), of(&["1", "3"]))));
        let at_seven = End {
            offset: 7,
            hash: None,
        };
        assert_eq!(read(at_seven, &log), Some((end(&log[2]), of(&["1", "3"]))));
        let new = [entry("0-1", 5, 1)];
        assert_eq!(read(End::default(), &new), Some((end(&new[0]), of(&["5"]))));
        let json = r#"{"etype":"note","eid":"1","metric":"like","delta":1,"ts":1}"#;
        let group = |fields: &[&str]| {
            let fields = fields.iter().map(|field| field.as_bytes().to_vec());
            (b"0-1".to_vec(), fields.collect())
        };
        let two: [Entry; 1] = [group(&["g", json, "members", "5,6"])];
        assert_eq!(
            read(End::default(), &two),
            Some((end(&two[0]), of(&["5", "6"])))
        );
        assert_eq!(read(End::default(), &[group(&["g", json])]), None);
        // Trimmed, restarted, deleted entries, foreign IDs.
        assert_eq!(read(end(&log[0]), &log[1..]), None);
        assert_eq!(read(end(&log[0]), &[]), None);
        assert_eq!(read(end(&log[0]), &[entry("0-7", 9, 1)]), None);
        assert_eq!(read(empty, &log[1..]), None);
        assert_eq!(read(end(&log[0]), &[log[0].clone(), log[2].clone()]), None);
        let foreign = [log[0].clone(), entry("1700000000000-0", 4, 1)];
        assert_eq!(read(end(&log[0]), &foreign), None);
        let nonsense = (b"0-8".to_vec(), vec![b"e".to_vec(), b"{".to_vec()]);
        assert_eq!(read(end(&log[0]), &[log[0].clone(), nonsense]), None);
    }
}
