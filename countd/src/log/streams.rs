//! The log as Redis Streams, one for each partition. Entries have the ids 0-1, 0-2, 0-3 ...: the second half is the offset. It
//! goes on where it was also when entries have been trimmed.

use super::wire::Reader;
use super::{Entry, Kind, Log};
use crate::keys::Partition;
use crate::store::{Store, StoreError};
use redis::{Script, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

static APPEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/append.lua")));

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
    ) -> Result<Vec<(Partition, Vec<Entry>)>, StoreError> {
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
        let of_partition = |(name, entries)| {
            let partition = names.get(&name).copied();
            let partition = partition.ok_or_else(|| unexpected("a stream that was not asked for"));
            Ok((partition?, entries))
        };
        found.into_iter().map(of_partition).collect()
    }

    /// In a cluster a command reads one partition.
    async fn read_apart(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
    ) -> Result<Vec<(Partition, Vec<Entry>)>, StoreError> {
        let keys = self.store.keys();
        let mut pipe = redis::pipe();
        for (partition, next) in from {
            pipe.cmd("XREAD").arg("COUNT").arg(limit).arg("STREAMS");
            pipe.arg(keys.log(*partition)).arg(after(*next));
        }
        let replies: Vec<Value> = pipe.query_async(&mut self.store.commands()).await?;
        let mut found = Vec::new();
        for (reply, (partition, _)) in replies.into_iter().zip(from) {
            let streams = streams(reply)?.into_iter();
            found.extend(streams.map(|entries| (*partition, entries)));
        }
        Ok(found)
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
            call.invoke_async::<()>(&mut self.store.commands()).await?;
        }
        Ok(())
    }

    async fn read(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<(Partition, Vec<Entry>)>, StoreError> {
        if from.is_empty() {
            tokio::time::sleep(wait).await;
            return Ok(Vec::new());
        }
        if !self.store.keys().tagged() {
            return self.read_together(from, limit, wait).await;
        }
        let found = self.read_apart(from, limit).await?;
        if !found.is_empty() || wait.is_zero() {
            return Ok(found);
        }
        tokio::time::sleep(wait.min(Duration::from_millis(100))).await;
        self.read_apart(from, limit).await
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

    async fn ends(&self, partitions: &[Partition]) -> Result<Vec<u64>, StoreError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for partition in partitions {
            pipe.cmd("XREVRANGE").arg(self.store.keys().log(*partition));
            pipe.arg(&["+", "-", "COUNT", "1"]);
        }
        let replies: Vec<Value> = pipe.query_async(&mut self.store.commands()).await?;
        let end = |reply| Ok(entries(reply)?.last().map_or(1, |entry| entry.offset + 1));
        replies.into_iter().map(end).collect()
    }
}

fn unexpected(what: &str) -> StoreError {
    StoreError::Unexpected(what.to_owned())
}

/// The entries of each stream in the reply of `XREAD`: null, an array of pairs, or with RESP3 a map.
fn streams(reply: Value) -> Result<Vec<Vec<Entry>>, StoreError> {
    let pairs: Vec<(Value, Value)> = match reply {
        Value::Nil => Vec::new(),
        Value::Map(pairs) => pairs,
        Value::Array(items) => items.into_iter().map(pair).collect::<Result<_, _>>()?,
        _ => return Err(unexpected("XREAD")),
    };
    pairs.into_iter().map(|(_, list)| entries(list)).collect()
}

fn pair(value: Value) -> Result<(Value, Value), StoreError> {
    if let Value::Array(items) = value
        && let Ok([first, second]) = <[Value; 2]>::try_from(items)
    {
        return Ok((first, second));
    }
    Err(unexpected("no pair"))
}

/// A list of entries, as `XRANGE` replies.
pub(crate) fn entries(list: Value) -> Result<Vec<Entry>, StoreError> {
    let Value::Array(items) = list else {
        return Err(unexpected("no entries"));
    };
    items.into_iter().map(entry).collect()
}

fn entry(item: Value) -> Result<Entry, StoreError> {
    let (id, fields) = pair(item)?;
    let offset = match &id {
        Value::BulkString(id) => offset(id),
        _ => None,
    };
    let offset = offset.ok_or_else(|| unexpected("the log holds an entry whose id is not 0-n"))?;
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
    Ok(Entry {
        offset,
        kind,
        payload,
    })
}

pub(super) fn offset(id: &[u8]) -> Option<u64> {
    std::str::from_utf8(id)
        .ok()?
        .strip_prefix("0-")?
        .parse()
        .ok()
}
