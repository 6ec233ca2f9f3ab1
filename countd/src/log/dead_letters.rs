//! Dead letters: entries that the consumer could not count, with the reason. They are kept until an operator retries or drops them.

use super::entry::EntryKind;
use crate::domain::config::DeadLettersConfig;
use crate::domain::error::{Problem, StoreError};
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Commands that limit the size of the streams.
pub(super) const TRIM_PERMISSIONS: &[&str] = &[
    "MEMORY USAGE {dead} SAMPLES 0",
    "XLEN {dead}",
    "XTRIM {dead} MAXLEN 1",
];
/// Commands that list and drop dead letters.
pub(super) const OPERATOR_PERMISSIONS: &[&str] = &[
    "XRANGE {dead} - +",
    "XREVRANGE {dead} + - COUNT 1",
    "XDEL {dead} 0-1",
    "XLEN {dead}",
];

/// The number of dead letters that are read at once.
const PAGE: usize = 100;

/// A dead letter.
#[derive(Clone, Debug, Serialize)]
pub struct StoredDeadLetter {
    /// Its ID in the stream, by which it is retried and dropped.
    pub id: String,
    /// Why it could not be counted.
    pub reason: String,
    /// Its kind: `e` an event, `o` an envelope with an event, `d` a derived event, `a` a new author, `b` facts to read again, `c` a check of counters, `?` anything that countd did not write.
    pub kind: String,
    /// Its payload, with invalid UTF-8 replaced.
    pub payload: String,
    /// The original length of the payload in bytes. If it is greater than the length of `payload`, the payload is truncated.
    #[serde(rename = "bytes")]
    pub length: usize,
    /// The partition of its log.
    pub partition: Partition,
    /// Its offset in the log.
    pub offset: u64,
    /// When it became a dead letter, in milliseconds since 1970.
    pub ts: u64,
    #[serde(skip)]
    bytes: Vec<u8>,
}

/// A cursor over the dead letters of a store. It ends, in each stream, at the last dead letter that existed when the cursor reached
/// the stream. A retried entry that becomes a dead letter again is therefore not visited twice.
pub struct DeadLetters {
    store: Store,
    streams: Vec<String>,
    after: String,
    until: Option<String>,
    page: std::vec::IntoIter<(String, HashMap<String, Vec<u8>>)>,
}

impl DeadLetters {
    /// A cursor at the oldest dead letter.
    pub fn new(store: Store) -> DeadLetters {
        let mut streams = store.keys().all_dead();
        streams.reverse();
        DeadLetters {
            store,
            streams,
            after: "-".to_owned(),
            until: None,
            page: Vec::new().into_iter(),
        }
    }

    /// A cursor behind a dead letter of a partition, which need not exist any more.
    ///
    /// # Errors
    /// The text is not an ID of a dead letter, or there is no such partition.
    pub fn after(
        store: Store,
        partition: Partition,
        id: &str,
    ) -> Result<DeadLetters, InvalidDeadLetterId> {
        let id = checked_id(&store, partition, id)?;
        let stream = store.keys().dead(partition);
        let mut letters = DeadLetters::new(store);
        while letters.streams.last().is_some_and(|last| *last != stream) {
            letters.streams.pop();
        }
        letters.after = format!("({id}");
        Ok(letters)
    }

    /// The next dead letter.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn next(&mut self) -> Result<Option<StoredDeadLetter>, StoreError> {
        loop {
            if let Some((id, fields)) = self.page.next() {
                self.after = format!("({id}");
                return Ok(Some(decode(id, &fields)));
            }
            let Some(stream) = self.streams.last() else {
                return Ok(None);
            };
            let until = match &self.until {
                Some(until) => until.clone(),
                None => last_id(&self.store, stream).await?,
            };
            let page: Vec<(String, HashMap<String, Vec<u8>>)> = redis::cmd("XRANGE")
                .arg(stream)
                .arg(&[&self.after, &until, "COUNT"])
                .arg(PAGE)
                .query_async(&mut self.store.commands())
                .await?;
            if page.is_empty() {
                self.streams.pop();
                self.after = "-".to_owned();
                self.until = None;
            } else {
                self.until = Some(until);
            }
            self.page = page.into_iter();
        }
    }
}

/// A text that is not the ID of a dead letter, or a partition that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the partition and the ID of a dead letter")]
pub struct InvalidDeadLetterId;

/// Checks an ID in a stream: `{milliseconds}-{number}`.
fn checked_id<'a>(
    store: &Store,
    partition: Partition,
    id: &'a str,
) -> Result<&'a str, InvalidDeadLetterId> {
    let is_number = |text: &str| {
        text.parse::<u64>()
            .is_ok_and(|number| number.to_string() == text)
    };
    let is_id = id
        .split_once('-')
        .is_some_and(|(ms, number)| is_number(ms) && is_number(number));
    match is_id && partition < store.keys().partitions() {
        true => Ok(id),
        false => Err(InvalidDeadLetterId),
    }
}

/// The number of dead letters. One command for each stream.
///
/// # Errors
/// The store is unavailable.
pub async fn count(store: &Store) -> Result<u64, StoreError> {
    let mut pipeline = redis::pipe();
    for stream in store.keys().all_dead() {
        pipeline.cmd("XLEN").arg(stream);
    }
    let counts: Vec<u64> = pipeline.query_async(&mut store.reads()).await?;
    Ok(counts.iter().sum())
}

/// The dead letter of a partition with this ID. `None` if it does not exist.
///
/// # Errors
/// The store is unavailable, or the ID is invalid.
pub async fn get(
    store: &Store,
    partition: Partition,
    id: &str,
) -> Result<Option<StoredDeadLetter>, Problem> {
    let invalid = |error: InvalidDeadLetterId| Problem::Malformed(error.to_string());
    let id = checked_id(store, partition, id).map_err(invalid)?;
    let mut cmd = redis::cmd("XRANGE");
    cmd.arg(store.keys().dead(partition)).arg(&[id, id]);
    let found: Vec<(String, HashMap<String, Vec<u8>>)> =
        cmd.query_async(&mut store.reads()).await?;
    let mut found = found.into_iter().map(|(id, fields)| decode(id, &fields));
    // Partitions may share a stream.
    Ok(found.next().filter(|letter| letter.partition == partition))
}

/// The ID of the last entry of a stream, or 0-0.
async fn last_id(store: &Store, stream: &str) -> Result<String, StoreError> {
    let last: Vec<(String, HashMap<String, Vec<u8>>)> = redis::cmd("XREVRANGE")
        .arg(stream)
        .arg(&["+", "-", "COUNT", "1"])
        .query_async(&mut store.commands())
        .await?;
    Ok(last
        .into_iter()
        .next()
        .map_or("0-0".to_owned(), |(id, _)| id))
}

fn decode(id: String, fields: &HashMap<String, Vec<u8>>) -> StoredDeadLetter {
    let bytes = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let text = |name: &str| String::from_utf8_lossy(&bytes(name)).into_owned();
    StoredDeadLetter {
        id,
        reason: text("reason"),
        kind: text("kind"),
        payload: text("payload"),
        partition: text("partition").parse().unwrap_or(0),
        offset: text("offset").parse().unwrap_or(0),
        ts: text("ts").parse().unwrap_or(0),
        // Earlier versions did not store the length, nor did they truncate payloads.
        length: text("bytes").parse().unwrap_or(bytes("payload").len()),
        bytes: bytes("payload"),
    }
}

impl StoredDeadLetter {
    /// Its payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it can be retried: its kind is known and its payload whole.
    pub fn can_be_retried(&self) -> bool {
        EntryKind::of(self.kind.as_bytes()) != EntryKind::Unknown && self.bytes.len() >= self.length
    }
}

/// Removes the oldest dead letters of these partitions until the streams have the configured size. After an error they are trimmed
/// by the next call.
pub async fn bound(store: &Store, partitions: BTreeSet<Partition>, settings: &DeadLettersConfig) {
    if settings.max_bytes == 0 {
        return;
    }
    // Partitions may share a stream.
    let streams = partitions.iter().map(|of| store.keys().dead(*of));
    let streams: BTreeSet<String> = streams.collect();
    for stream in streams {
        match remove_oldest(store, &stream, settings.max_bytes).await {
            Ok(0) => {}
            Ok(count) => {
                metrics::counter!("countd_dead_letters_removed_total").increment(count);
                tracing::error!(
                    stream,
                    count,
                    "the oldest dead letters were removed: dead.max_bytes"
                );
            }
            Err(error) => tracing::warn!(stream, %error, "dead letters cannot be trimmed"),
        }
    }
}

/// Removes the oldest entries of a stream until it has at most `max_bytes`. Returns their number.
async fn remove_oldest(store: &Store, stream: &str, max_bytes: u64) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        let mut pipe = redis::pipe();
        pipe.cmd("MEMORY").arg("USAGE").arg(stream);
        pipe.arg(&["SAMPLES", "0"]);
        pipe.cmd("XLEN").arg(stream);
        let (bytes, count): (Option<u64>, u64) = pipe.query_async(&mut store.commands()).await?;
        let bytes = bytes.unwrap_or(0);
        if bytes <= max_bytes || count == 0 {
            return Ok(removed);
        }
        // As many as fit if all have the same size, less 5 % so that the next entry does not trim again.
        let retained = u128::from(count) * u128::from(max_bytes) / u128::from(bytes) * 19 / 20;
        let mut trim = redis::cmd("XTRIM");
        trim.arg(stream).arg("MAXLEN").arg(retained as u64);
        removed += trim.query_async::<u64>(&mut store.commands()).await?;
    }
}

/// Deletes a dead letter. Returns false if it no longer exists.
///
/// # Errors
/// The store is unavailable.
pub async fn delete(store: &Store, dead_letter: &StoredDeadLetter) -> Result<bool, StoreError> {
    let removed: u8 = redis::cmd("XDEL")
        .arg(store.keys().dead(dead_letter.partition))
        .arg(&dead_letter.id)
        .query_async(&mut store.commands())
        .await?;
    Ok(removed == 1)
}
