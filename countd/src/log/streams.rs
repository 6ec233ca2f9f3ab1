//! The log as Redis Streams, one for each partition. Entries have the ids 0-1, 0-2, 0-3 ...: the second half is the offset. It
//! goes on where it was also when entries have been trimmed.

use super::chunks::chunks;
use super::entries::{entries, unexpected};
use super::pace::Pace;
use super::reader::{Reply, StreamEntries, StreamReader};
use super::renumber::{MAX_GAP, renumber};
use super::retained::shrink;
use super::{Counted, EntryKind, EventLog, LogEntry, PartitionEntries, START_OF_LONG};
use crate::domain::config::Config;
use crate::domain::error::rejected_by_foreign_last_id;
use crate::domain::error::{StoreError, is_no_script};
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::script::{LoadedScript, script};
use crate::redis::store::Store;
use redis::{Script, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

static APPEND: LazyLock<Script> =
    LazyLock::new(|| Script::new(&script(include_str!("../lua/append.lua"))));

/// Reads entries up to a number of bytes.
static READ: LazyLock<LoadedScript> = LazyLock::new(|| reading(include_str!("../lua/read.lua")));

/// A script that only reads: it also works when memory is full.
fn reading(file: &str) -> LoadedScript {
    LoadedScript::new(["#!lua flags=no-writes", file].join("\n"))
}

/// A script that appends writes to this many streams at most: it holds up everybody else while it runs.
const LOGS_AT_ONCE: usize = 200;

/// Redis Streams as a [`EventLog`].
pub struct Streams {
    store: Store,
    /// So many entries stay when they are acknowledged, unless the log has more bytes than that.
    retain: u64,
    retain_bytes: u64,
    /// A read has so many bytes at most.
    read_bytes: usize,
    pace: Pace,
    /// In a cluster, the offsets and the bytes of the next entries of partitions, where they are too long to be read with others.
    long: HashMap<Partition, (u64, usize)>,
    /// For reading: a read that waits would hold up what comes after it on a connection.
    reader: Option<StreamReader>,
}

impl Streams {
    /// As configured.
    pub fn new(store: Store, config: &Config) -> Streams {
        Streams {
            store,
            retain: config.log.retain,
            retain_bytes: config.log.retain_bytes,
            read_bytes: config.consumer.read_bytes,
            pace: Pace::new(config.consumer.read_bytes),
            long: HashMap::new(),
            reader: None,
        }
    }

    /// The connection for reads that wait. It is given back only when the read went well, so a broken one is not kept.
    async fn take_reader(&mut self) -> Result<StreamReader, StoreError> {
        match self.reader.take() {
            Some(connection) => Ok(connection),
            None => Ok(StreamReader::connect(self.store.client(), self.store.timeout()).await?),
        }
    }

    async fn read_together(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<PartitionEntries>, StoreError> {
        loop {
            let plan = self.pace.plan(from.len(), limit);
            let is_all = plan.width == from.len();
            let asked = from.iter().cycle().skip(plan.first).take(plan.width);
            let asked: Vec<(Partition, u64)> = asked.copied().collect();
            let wait = if is_all { wait } else { Duration::ZERO };
            let reply = match self.read_once(&asked, plan.count, wait).await {
                Ok(reply) => reply,
                Err(why) => {
                    self.pace.forget();
                    return Err(why);
                }
            };
            let entries = reply.found.iter().flat_map(|found| &found.entries);
            let (count, bytes) = entries.fold((0, 0), |(count, bytes), entry| {
                (count + 1, bytes + entry.payload.len())
            });
            self.pace.learn(count, bytes, reply.is_too_long);
            if is_all || !reply.found.is_empty() {
                return self.stretches(from, reply.found);
            }
        }
    }

    async fn read_once(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> Result<Reply, StoreError> {
        let keys = self.store.keys();
        let mut connection = self.take_reader().await?;
        let mut cmd = redis::cmd("XREAD");
        cmd.arg("COUNT").arg(limit);
        if !wait.is_zero() {
            cmd.arg("BLOCK").arg(wait.as_millis().max(1) as u64);
        }
        cmd.arg("STREAMS");
        for (partition, _) in from {
            cmd.arg(keys.log(*partition));
        }
        for (_, next) in from {
            cmd.arg(after(*next));
        }
        let wait = self.store.timeout() + wait;
        let reply = connection.read(&cmd, wait, self.read_bytes).await?;
        if !reply.is_too_long {
            self.reader = Some(connection);
        }
        Ok(reply)
    }

    /// What was found, by partition.
    fn stretches(
        &self,
        from: &[(Partition, u64)],
        found: Vec<StreamEntries>,
    ) -> Result<Vec<PartitionEntries>, StoreError> {
        let keys = self.store.keys();
        let names: HashMap<Vec<u8>, Partition> = from
            .iter()
            .map(|(p, _)| (keys.log(*p).into_bytes(), *p))
            .collect();
        let of_partition = |found: StreamEntries| {
            let partition = names.get(&found.name).copied();
            let partition = partition.ok_or_else(|| unexpected("a stream that was not asked for"));
            Ok(PartitionEntries {
                partition: partition?,
                entries: found.entries,
                ends_at_foreign_id: found.ends_at_foreign_id,
            })
        };
        found.into_iter().map(of_partition).collect()
    }

    /// In a cluster a command reads one partition. Each gets its part of the bytes. Entries that are longer than that are read
    /// afterwards, as many as fit.
    async fn read_apart(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
    ) -> Result<Vec<PartitionEntries>, StoreError> {
        let is_known = |(partition, next): &(Partition, u64)| {
            let known = self.long.get(partition);
            known.is_some_and(|(offset, _)| offset == next)
        };
        let (known, other): (Vec<_>, Vec<_>) = from.iter().copied().partition(is_known);
        self.long = known
            .iter()
            .filter_map(|(partition, _)| self.long.remove_entry(partition))
            .collect();
        let mut found = Vec::new();
        let mut left = self.read_bytes;
        let part = self.read_bytes / from.len().max(1);
        let parts = self.read_parts(&other, limit, part).await?;
        for ((stretch, waits), (partition, next)) in parts.into_iter().zip(&other) {
            let payloads = stretch.entries.iter().map(|entry| entry.payload.len());
            left = left.saturating_sub(payloads.sum());
            if !stretch.entries.is_empty() || stretch.ends_at_foreign_id {
                found.push(stretch);
            } else if waits > 0 {
                self.long.insert(*partition, (*next, waits));
            }
        }
        // The shortest ones first: the others are alone some time.
        let mut long: Vec<_> = self.long.iter().collect();
        long.sort_by_key(|(_, (_, bytes))| *bytes);
        let mut fit = Vec::new();
        for (partition, (next, bytes)) in long {
            if *bytes > left && !(found.is_empty() && fit.is_empty()) {
                break;
            }
            left = left.saturating_sub(*bytes);
            fit.push((*partition, *next));
        }
        for (partition, _) in &fit {
            self.long.remove(partition);
        }
        let read = self.read_parts(&fit, 1, self.read_bytes).await?;
        let read = read.into_iter().map(|(stretch, _)| stretch);
        found.extend(read.filter(|found| found.ends_at_foreign_id || !found.entries.is_empty()));
        Ok(found)
    }

    /// Up to so many bytes of each partition; and how many the first entry has that did not fit.
    async fn read_parts(
        &self,
        from: &[(Partition, u64)],
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<(PartitionEntries, usize)>, StoreError> {
        if from.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.store.keys();
        let calls = from.iter().map(|(partition, next)| {
            let mut call = RedisCall::script(&READ, &[keys.log(*partition)]);
            call.cmd.arg(format!("0-{next}")).arg(limit).arg(bytes);
            call.cmd.arg(self.read_bytes).arg(START_OF_LONG);
            call
        });
        let replies: Vec<(Value, usize)> = self.ask(calls).await?;
        let stretch = |((list, waits), (partition, _)): ((Value, usize), &(Partition, u64))| {
            let (entries, ends_at_foreign_id) = entries(list)?;
            let stretch = PartitionEntries {
                partition: *partition,
                entries,
                ends_at_foreign_id,
            };
            Ok((stretch, waits))
        };
        replies.into_iter().zip(from).map(stretch).collect()
    }

    /// The replies of scripts, all of which are the same.
    async fn ask<T: redis::FromRedisValue>(
        &self,
        calls: impl Iterator<Item = RedisCall>,
    ) -> Result<Vec<T>, StoreError> {
        let (mut pipe, mut code) = (redis::pipe(), None);
        for call in calls {
            code = call.script;
            pipe.add_command(call.cmd);
        }
        let mut connection = self.store.commands();
        match (pipe.query_async(&mut connection).await, code) {
            // The server has not seen the script since it started.
            (Err(why), Some(code)) if is_no_script(&why) => {
                code.script.load_async(&mut connection).await?;
                Ok(pipe.query_async(&mut connection).await?)
            }
            (replies, _) => Ok(replies?),
        }
    }
}

/// Ends a stretch where an offset is too far beyond the one before it: that is a foreign one.
fn cut(stretch: &mut PartitionEntries, next: u64) {
    let mut last = next.saturating_sub(1);
    let is_foreign = |entry: &LogEntry| {
        let is_far = entry.offset.saturating_sub(last) > MAX_GAP;
        last = entry.offset;
        is_far
    };
    if let Some(at) = stretch.entries.iter().position(is_foreign) {
        stretch.entries.truncate(at);
        stretch.ends_at_foreign_id = true;
    }
}

/// The id behind which reading begins.
fn after(next: u64) -> String {
    format!("0-{}", next.saturating_sub(1))
}

impl EventLog for Streams {
    async fn append(
        &self,
        entries: &BTreeMap<Partition, Vec<(EntryKind, Vec<u8>)>>,
    ) -> Result<(), StoreError> {
        // In a cluster a script writes to one partition.
        let at_once = if self.store.keys().tagged() {
            1
        } else {
            LOGS_AT_ONCE
        };
        for some in chunks(entries, at_once) {
            let mut call = APPEND.prepare_invoke();
            for (partition, entries) in &some {
                call.key(self.store.keys().log(*partition))
                    .arg(entries.len());
                for (kind, payload) in *entries {
                    call.arg(kind.field()).arg(payload);
                }
            }
            let mut connection = self.store.commands();
            match call.invoke_async::<()>(&mut connection).await {
                // Nothing of it was appended.
                Err(why) if rejected_by_foreign_last_id(&why) => {
                    for (partition, _) in &some {
                        renumber(&self.store, *partition).await?;
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
    ) -> Result<Vec<PartitionEntries>, StoreError> {
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

    async fn acknowledge(&self, counted: &[Counted]) -> Result<(), StoreError> {
        let (long, short): (Vec<Counted>, Vec<Counted>) =
            counted.iter().partition(|counted| counted.may_be_long);
        if !short.is_empty() {
            let mut pipe = redis::pipe();
            for counted in short {
                let keep_from = counted.next.saturating_sub(self.retain);
                pipe.cmd("XTRIM")
                    .arg(self.store.keys().log(counted.partition));
                pipe.arg(&["MINID", "~"]).arg(format!("0-{keep_from}"));
            }
            let _: Vec<u64> = pipe.query_async(&mut self.store.commands()).await?;
        }
        shrink(&self.store, long, self.retain, self.retain_bytes).await
    }

    async fn renumber(&self, partition: Partition) -> Result<u64, StoreError> {
        renumber(&self.store, partition).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_far_beyond_the_one_before_it_is_foreign() {
        let read = |offsets: &[u64], next: u64| {
            let entry = |offset: &u64| LogEntry {
                offset: *offset,
                kind: EntryKind::Event,
                payload: Vec::new(),
                size: 0,
                is_whole: true,
            };
            let mut stretch = PartitionEntries {
                partition: 0,
                entries: offsets.iter().map(entry).collect(),
                ends_at_foreign_id: false,
            };
            cut(&mut stretch, next);
            (stretch.entries.len(), stretch.ends_at_foreign_id)
        };
        assert_eq!(read(&[5, 6, 900, 901], 5), (4, false));
        assert_eq!(read(&[5, 6, 6 + MAX_GAP], 5), (3, false));
        assert_eq!(read(&[5, 6, 7 + MAX_GAP, 8 + MAX_GAP], 5), (2, true));
        assert_eq!(read(&[(1 << 53) - 1], 1), (0, true));
        assert_eq!(read(&[(1 << 40) - 1, 1 << 40], 1 << 40), (2, false));
    }
}
