//! Dead letters: what the consumer could not count, and why. They stay until somebody retries or drops them.

use crate::domain::config;
use crate::domain::error::StoreError;
use crate::domain::error::rejected_by_foreign_last_id;
use crate::domain::keys::Partition;
use crate::log::{EntryKind, renumber};
use crate::redis::script::script;
use crate::redis::store::Store;
use redis::{RedisError, Script};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

static RETRY: LazyLock<Script> =
    LazyLock::new(|| Script::new(&script(include_str!("../lua/dead_retry.lua"))));

/// How many are read at once.
const PAGE: usize = 100;

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct StoredDeadLetter {
    /// Its id in its stream, by which it is retried and dropped.
    pub id: String,
    /// Why it could not be counted.
    pub reason: String,
    /// What it is: `e` an event, `o` an envelope with one, `d` a derived event, `?` something that countd did not write.
    pub kind: String,
    /// As it was, with what is no UTF-8 replaced.
    pub payload: String,
    /// How long it was. If that is more than the payload has bytes, the payload is only its start.
    #[serde(rename = "bytes")]
    pub length: usize,
    /// The partition in whose log it was.
    pub partition: Partition,
    /// Its offset there.
    pub offset: u64,
    /// When it was put here, in milliseconds since 1970.
    pub ts: u64,
    #[serde(skip)]
    bytes: Vec<u8>,
}

/// The dead letters of a store, one after the other: those that were there when their stream was begun, so that one who brings
/// them back does not meet them again.
pub struct DeadLetters {
    store: Store,
    streams: Vec<String>,
    after: String,
    until: Option<String>,
    page: std::vec::IntoIter<(String, HashMap<String, Vec<u8>>)>,
}

impl DeadLetters {
    /// From the oldest on.
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

    /// The next one.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn next(&mut self) -> Result<Option<StoredDeadLetter>, StoreError> {
        loop {
            if let Some((id, fields)) = self.page.next() {
                self.after = format!("({id}");
                return Ok(Some(letter(id, &fields)));
            }
            let Some(stream) = self.streams.last() else {
                return Ok(None);
            };
            let until = match &self.until {
                Some(until) => until.clone(),
                None => last(&self.store, stream).await?,
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

/// The id of the last entry of a stream; the lowest if there is none.
async fn last(store: &Store, stream: &str) -> Result<String, StoreError> {
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

fn letter(id: String, fields: &HashMap<String, Vec<u8>>) -> StoredDeadLetter {
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
        // Those of earlier versions are whole.
        length: text("bytes").parse().unwrap_or(bytes("payload").len()),
        bytes: bytes("payload"),
    }
}

impl StoredDeadLetter {
    /// Whether it can be counted at all, once its cause is mended.
    pub fn can_be_retried(&self) -> bool {
        EntryKind::of(self.kind.as_bytes()) != EntryKind::Unknown && self.bytes.len() >= self.length
    }
}

/// Moves a letter back to the end of its log, in one step. False: it is gone, or it is none that can be retried.
///
/// # Errors
/// The store cannot be asked. Unless it answered, the letter may have been moved.
pub async fn retry(store: &Store, letter: &StoredDeadLetter) -> Result<bool, StoreError> {
    if !letter.can_be_retried() {
        return Ok(false);
    }
    let keys = store.keys();
    let mut call = RETRY.key(keys.dead(letter.partition));
    call.key(keys.log(letter.partition))
        .arg(&letter.id)
        .arg(&letter.kind)
        .arg(&letter.bytes);
    let mut connection = store.commands();
    let moved: Result<u8, RedisError> = call.invoke_async(&mut connection).await;
    match moved {
        // Nothing has happened.
        Err(why) if rejected_by_foreign_last_id(&why) => {
            renumber(store, letter.partition).await?;
            Ok(call.invoke_async::<u8>(&mut connection).await? == 1)
        }
        moved => Ok(moved? == 1),
    }
}

/// Keeps the dead letters of these partitions within their bytes: the oldest ones are removed. Where that fails there are too many
/// for a while.
pub async fn bound(store: &Store, of: BTreeSet<Partition>, settings: &config::DeadLettersConfig) {
    if settings.max_bytes == 0 {
        return;
    }
    // Partitions may share a stream.
    let streams: BTreeSet<String> = of.iter().map(|of| store.keys().dead(*of)).collect();
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
            Err(why) => tracing::warn!(stream, error = %why, "dead letters cannot be bounded now"),
        }
    }
}

/// Removes the oldest entries of a stream until it has no more than so many bytes. Returns how many were removed.
async fn remove_oldest(store: &Store, stream: &str, most: u64) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        let mut pipe = redis::pipe();
        pipe.cmd("MEMORY").arg("USAGE").arg(stream);
        pipe.arg(&["SAMPLES", "0"]);
        pipe.cmd("XLEN").arg(stream);
        let (bytes, count): (Option<u64>, u64) = pipe.query_async(&mut store.commands()).await?;
        let bytes = bytes.unwrap_or(0);
        if bytes <= most || count == 0 {
            return Ok(removed);
        }
        // As many as fit if all are alike, and a twentieth less: so it is not done again at once.
        let fit = u128::from(count) * u128::from(most) / u128::from(bytes) * 19 / 20;
        let mut trim = redis::cmd("XTRIM");
        trim.arg(stream).arg("MAXLEN").arg(fit as u64);
        removed += trim.query_async::<u64>(&mut store.commands()).await?;
    }
}

/// Removes a letter for good. False: it is gone already.
///
/// # Errors
/// The store cannot be asked.
pub async fn drop_letter(store: &Store, letter: &StoredDeadLetter) -> Result<bool, StoreError> {
    let removed: u8 = redis::cmd("XDEL")
        .arg(store.keys().dead(letter.partition))
        .arg(&letter.id)
        .query_async(&mut store.commands())
        .await?;
    Ok(removed == 1)
}
