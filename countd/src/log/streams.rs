//! The log as Redis Streams, one for each partition. Entries have the ids 0-1, 0-2, 0-3 ...: the second half is the offset. It
//! goes on where it was also when entries have been trimmed.

use super::renumber::{MAX_GAP, is_closed, offset, renumber};
use super::wire::{Found, Reader};
use super::{Entry, Kind, Log, Stretch};
use crate::keys::Partition;
use crate::scripts::script;
use crate::store::{Store, StoreError};
use redis::{Script, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

static APPEND: LazyLock<Script> =
    LazyLock::new(|| Script::new(&script(include_str!("../lua/append.lua"))));

/// A script that appends writes to this many streams at most: it holds up everybody else while it runs.
const LOGS_AT_ONCE: usize = 200;

/// Redis Streams as a [`Log`].
pub struct Streams {
    store: Store,
    /// So many entries stay when they are acknowledged.
    retain: u64,
    /// For reading: a read that waits would hold up what comes after it on a connection.
    reader: Option<Reader>,
}

impl Streams {
    /// `retain`: how many acknowledged entries of a partition are kept.
    pub fn new(store: Store, retain: u64) -> Streams {
        Streams {
            store,
            retain,
            reader: None,
        }
    }

    /// The connection for reads that wait. It is given back only when the read went well, so a broken one is not kept.
    async fn take_reader(&mut self) -> Result<Reader, StoreError> {
        match self.reader.take() {
            Some(connection) => Ok(connection),
            None => self.store.reader().await,
        }
    }

    async fn read_together(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Stretch>, StoreError> {
        let keys = self.store.keys();
        let mut connection = self.take_reader().await?;
        let mut cmd = redis::cmd("XREAD");
        cmd.arg("COUNT").arg(limit);
        if !wait.is_zero() {
            cmd.arg("BLOCK").arg(wait.as_millis().max(1) as u64);
        }
        cmd.arg("STREAMS");
        let names: HashMap<Vec<u8>, Partition> = from
            .iter()
            .map(|(p, _)| (keys.log(*p).into_bytes(), *p))
            .collect();
        for (partition, _) in from {
            cmd.arg(keys.log(*partition));
        }
        for (_, next) in from {
            cmd.arg(after(*next));
        }
        let found = connection.read(&cmd, self.store.timeout() + wait).await?;
        self.reader = Some(connection);
        let of_partition = |found: Found| {
            let partition = names.get(&found.name).copied();
            let partition = partition.ok_or_else(|| unexpected("a stream that was not asked for"));
            Ok(Stretch {
                partition: partition?,
                entries: found.entries,
                is_cut: found.is_cut,
            })
        };
        found.into_iter().map(of_partition).collect()
    }

    /// In a cluster a command reads one partition.
    async fn read_apart(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
    ) -> Result<Vec<Stretch>, StoreError> {
        let keys = self.store.keys();
        let mut pipe = redis::pipe();
        for (partition, next) in from {
            pipe.cmd("XREAD").arg("COUNT").arg(limit).arg("STREAMS");
            pipe.arg(keys.log(*partition)).arg(after(*next));
        }
        let replies: Vec<Value> = pipe.query_async(&mut self.store.commands()).await?;
        let mut found = Vec::new();
        for (reply, (partition, _)) in replies.into_iter().zip(from) {
            for list in streams(reply)? {
                let (entries, is_cut) = entries(list)?;
                found.push(Stretch {
                    partition: *partition,
                    entries,
                    is_cut,
                });
            }
        }
        Ok(found)
    }
}

/// Ends a stretch where an offset is too far beyond the one before it: that is a foreign one.
fn cut(stretch: &mut Stretch, next: u64) {
    let mut last = next.saturating_sub(1);
    let is_foreign = |entry: &Entry| {
        let is_far = entry.offset.saturating_sub(last) > MAX_GAP;
        last = entry.offset;
        is_far
    };
    if let Some(at) = stretch.entries.iter().position(is_foreign) {
        stretch.entries.truncate(at);
        stretch.is_cut = true;
    }
}

/// The id behind which reading begins.
fn after(next: u64) -> String {
    format!("0-{}", next.saturating_sub(1))
}

impl Log for Streams {
    async fn append(
        &self,
        entries: &BTreeMap<Partition, Vec<(Kind, Vec<u8>)>>,
    ) -> Result<(), StoreError> {
        // In a cluster a script writes to one partition.
        let at_once = if self.store.keys().tagged() {
            1
        } else {
            LOGS_AT_ONCE
        };
        let all: Vec<_> = entries.iter().collect();
        for some in all.chunks(at_once) {
            let mut call = APPEND.prepare_invoke();
            for (partition, entries) in some {
                call.key(self.store.keys().log(**partition))
                    .arg(entries.len());
                for (kind, payload) in *entries {
                    call.arg(kind.field()).arg(payload);
                }
            }
            let mut connection = self.store.commands();
            match call.invoke_async::<()>(&mut connection).await {
                // Nothing of it was appended.
                Err(why) if is_closed(&why) => {
                    for (partition, _) in some {
                        renumber(&self.store, **partition).await?;
                    }
                    call.invoke_async::<()>(&mut connection).await?;
                }
                sent => sent?,
            }
        }
        Ok(())
    }

    async fn read(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Stretch>, StoreError> {
        if from.is_empty() {
            tokio::time::sleep(wait).await;
            return Ok(Vec::new());
        }
        let mut found = if !self.store.keys().tagged() {
            self.read_together(from, limit, wait).await?
        } else {
            let found = self.read_apart(from, limit).await?;
            if found.is_empty() && !wait.is_zero() {
                tokio::time::sleep(wait.min(Duration::from_millis(100))).await;
                self.read_apart(from, limit).await?
            } else {
                found
            }
        };
        let from: HashMap<Partition, u64> = from.iter().copied().collect();
        for stretch in &mut found {
            let next = from.get(&stretch.partition).copied().unwrap_or(1);
            cut(stretch, next);
        }
        Ok(found)
    }

    async fn acknowledge(&self, counted: &[(Partition, u64)]) -> Result<(), StoreError> {
        if counted.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for (partition, next) in counted {
            let keep_from = next.saturating_sub(self.retain);
            pipe.cmd("XTRIM").arg(self.store.keys().log(*partition));
            pipe.arg(&["MINID", "~"]).arg(format!("0-{keep_from}"));
        }
        let _: Vec<u64> = pipe.query_async(&mut self.store.commands()).await?;
        Ok(())
    }

    async fn renumber(&self, partition: Partition) -> Result<u64, StoreError> {
        renumber(&self.store, partition).await
    }
}

fn unexpected(what: &str) -> StoreError {
    StoreError::Unexpected(what.to_owned())
}

/// The list of entries of each stream in the reply of `XREAD`: null, an array of pairs, or with RESP3 a map.
fn streams(reply: Value) -> Result<Vec<Value>, StoreError> {
    let pairs: Vec<(Value, Value)> = match reply {
        Value::Nil => Vec::new(),
        Value::Map(pairs) => pairs,
        Value::Array(items) => items.into_iter().map(pair).collect::<Result<_, _>>()?,
        _ => return Err(unexpected("XREAD")),
    };
    Ok(pairs.into_iter().map(|(_, list)| list).collect())
}

fn pair(value: Value) -> Result<(Value, Value), StoreError> {
    if let Value::Array(items) = value
        && let Ok([first, second]) = <[Value; 2]>::try_from(items)
    {
        return Ok((first, second));
    }
    Err(unexpected("no pair"))
}

/// A list of entries, as `XRANGE` replies, up to the first whose id is no offset; and whether there is one.
fn entries(list: Value) -> Result<(Vec<Entry>, bool), StoreError> {
    let Value::Array(items) = list else {
        return Err(unexpected("no entries"));
    };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        match entry(item)? {
            Some(entry) => found.push(entry),
            None => return Ok((found, true)),
        }
    }
    Ok((found, false))
}

/// An entry; `None` if its id is no offset.
fn entry(item: Value) -> Result<Option<Entry>, StoreError> {
    let (id, fields) = pair(item)?;
    let offset = match &id {
        Value::BulkString(id) => offset(id),
        _ => return Err(unexpected("an entry without an id")),
    };
    let fields = match fields {
        Value::Array(fields) => fields,
        _ => Vec::new(),
    };
    let mut words = fields.into_iter().map(|word| match word {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    });
    let (kind, payload) = match (words.next(), words.next(), words.next()) {
        (Some(field), Some(payload), None) => (Kind::of(&field), payload),
        (_, payload, _) => (Kind::Unknown, payload.unwrap_or_default()),
    };
    Ok(offset.map(|offset| Entry {
        offset,
        kind,
        payload,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_far_beyond_the_one_before_it_is_foreign() {
        let read = |offsets: &[u64], next: u64| {
            let entry = |offset: &u64| Entry {
                offset: *offset,
                kind: Kind::Event,
                payload: Vec::new(),
            };
            let mut stretch = Stretch {
                partition: 0,
                entries: offsets.iter().map(entry).collect(),
                is_cut: false,
            };
            cut(&mut stretch, next);
            (stretch.entries.len(), stretch.is_cut)
        };
        assert_eq!(read(&[5, 6, 900, 901], 5), (4, false));
        assert_eq!(read(&[5, 6, 6 + MAX_GAP], 5), (3, false));
        assert_eq!(read(&[5, 6, 7 + MAX_GAP, 8 + MAX_GAP], 5), (2, true));
        assert_eq!(read(&[(1 << 53) - 1], 1), (0, true));
        assert_eq!(read(&[(1 << 40) - 1, 1 << 40], 1 << 40), (2, false));
    }
}
