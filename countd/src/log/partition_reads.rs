//! Reads one partition per call, by a script with a byte limit. Used in a cluster, and for archives and rebuilds.

use super::decode::{entries, unexpected};
use super::entry::{LogEntry, PartitionEntries};
use super::stream_log::Streams;
use crate::domain::config::TRUNCATED_PAYLOAD_BYTES;
use crate::domain::error::{StoreError, is_no_script};
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::script::LoadedScript;
use redis::{FromRedisValue, Value};
use std::sync::LazyLock;
use std::time::Instant;

/// Reads entries of one partition, up to a number of bytes.
pub(super) static READ: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::reading(include_str!("../lua/log_read.lua")));

impl Streams {
    /// Reads the partitions that are due in a cluster, where a command reads one partition. Each gets an equal part of the bytes. Larger
    /// entries are read afterwards, as many as fit.
    pub(super) async fn read_separately(
        &mut self,
        all: &[(Partition, u64)],
        limit: usize,
    ) -> Result<Vec<PartitionEntries>, StoreError> {
        let now = Instant::now();
        let from = self.schedule.due(all, now);
        let is_large = |(partition, next): &(Partition, u64)| {
            let entry = self.large.get(partition);
            entry.is_some_and(|(offset, _)| offset == next)
        };
        let (large, small): (Vec<_>, Vec<_>) = from.iter().copied().partition(is_large);
        self.large = large
            .iter()
            .filter_map(|(partition, _)| self.large.remove_entry(partition))
            .collect();
        let mut read = Vec::new();
        let mut bytes_left = self.read_bytes;
        let part = self.read_bytes / from.len().max(1);
        let replies = self.read_parts(&small, limit, part).await?;
        for ((entries, next_size), (partition, next)) in replies.into_iter().zip(&small) {
            let has_entries =
                !entries.entries.is_empty() || entries.ends_at_foreign_id || next_size > 0;
            self.schedule.record(*partition, has_entries, now);
            let payloads = entries.entries.iter().map(|entry| entry.payload.len());
            bytes_left = bytes_left.saturating_sub(payloads.sum());
            if !entries.entries.is_empty() || entries.ends_at_foreign_id {
                read.push(entries);
            } else if next_size > 0 {
                self.large.insert(*partition, (*next, next_size));
            }
        }
        // The smallest first, so that each large entry is eventually read alone.
        let mut by_size: Vec<_> = self.large.iter().collect();
        by_size.sort_by_key(|(_, (_, bytes))| *bytes);
        let mut fitting = Vec::new();
        for (partition, (next, bytes)) in by_size {
            if *bytes > bytes_left && !(read.is_empty() && fitting.is_empty()) {
                break;
            }
            bytes_left = bytes_left.saturating_sub(*bytes);
            fitting.push((*partition, *next));
        }
        for (partition, _) in &fitting {
            self.large.remove(partition);
        }
        let replies = self.read_parts(&fitting, 1, self.read_bytes).await?;
        let replies = replies.into_iter().map(|(entries, _)| entries);
        read.extend(replies.filter(|read| read.ends_at_foreign_id || !read.entries.is_empty()));
        Ok(read)
    }

    /// Reads up to `bytes` of each partition. Also returns the size of the first entry that did not fit, or 0.
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
            call.cmd.arg(self.read_bytes).arg(TRUNCATED_PAYLOAD_BYTES);
            call
        });
        let replies: Vec<(Value, usize)> = self.query(calls).await?;
        let decode = |((list, next_size), (partition, _)): ((Value, usize), &(Partition, u64))| {
            let (entries, ends_at_foreign_id) = entries(list)?;
            let entries = PartitionEntries {
                partition: *partition,
                entries,
                ends_at_foreign_id,
            };
            Ok((entries, next_size))
        };
        replies.into_iter().zip(from).map(decode).collect()
    }

    /// Reads entries of a partition from an offset on, up to a number of entries and of payload bytes. Also returns whether this is the end of
    /// the log. If it is not and there are no entries, the first entry exceeds the byte limit.
    pub(crate) async fn read_counted(
        &self,
        partition: Partition,
        from: u64,
        (limit, bytes): (usize, usize),
    ) -> Result<(Vec<LogEntry>, bool), StoreError> {
        let mut call = RedisCall::script(&READ, &[self.store.keys().log(partition)]);
        let bytes = bytes.min(self.read_bytes.max(TRUNCATED_PAYLOAD_BYTES));
        call.cmd.arg(format!("0-{from}")).arg(limit).arg(bytes);
        call.cmd.arg(self.read_bytes).arg(TRUNCATED_PAYLOAD_BYTES);
        let reply = call.send_read(&self.store).await?;
        let (list, next_size) = <(Value, usize)>::from_redis_value(reply)
            .map_err(|error| unexpected(&format!("log_read: {error}")))?;
        let (entries, ends_at_foreign_id) = entries(list)?;
        let is_end = ends_at_foreign_id || (next_size == 0 && entries.len() < limit);
        Ok((entries, is_end))
    }

    /// Pipelines calls of one script.
    async fn query<T: redis::FromRedisValue>(
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
            // NOSCRIPT: no call was executed.
            (Err(error), Some(code)) if is_no_script(&error) => {
                code.script.load_async(&mut connection).await?;
                Ok(pipe.query_async(&mut connection).await?)
            }
            (replies, _) => Ok(replies?),
        }
    }
}
