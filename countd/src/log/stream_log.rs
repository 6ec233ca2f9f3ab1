//! The log as Redis Streams, one per partition. The entries have the IDs 0-1, 0-2, 0-3 ...: the second part is the offset. Offsets
//! continue after entries have been trimmed.

use super::chunks::chunks;
use super::decode::unexpected;
use super::entry::{Acknowledgement, EntryKind, EventLog, LogEntry, PartitionEntries};
use super::foreign_ids::renumber;
use super::holds;
use super::offset::MAX_GAP;
use super::read_schedule::{self, ReadSchedule};
use super::read_size::ReadSize;
use super::reader::{ReadReply, StreamEntries, StreamReader};
use super::retention::trim_to_bytes;
use crate::domain::config::Config;
use crate::domain::error::{StoreError, rejected_by_foreign_last_id};
use crate::domain::keys::Partition;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

pub(super) static APPEND: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../lua/log_append.lua")));

/// Commands that read partitions together.
pub(super) const READ_PERMISSIONS: &[&str] = &["XREAD COUNT 1 STREAMS {log} 0-0"];
/// Commands that trim logs.
pub(super) const TRIM_PERMISSIONS: &[&str] = &["XTRIM {log} MINID 0-1"];

/// The maximum number of logs per script call. The script blocks the server.
const MAX_LOGS_PER_CALL: usize = 200;

/// Redis Streams as an [`EventLog`].
pub struct Streams {
    pub(super) store: Store,
    /// The maximum number of counted entries that are retained.
    retain: u64,
    /// The maximum size of a log before counted entries are trimmed, in bytes.
    retain_bytes: u64,
    /// The maximum number of bytes of a read.
    pub(super) read_bytes: usize,
    read_size: ReadSize,
    /// In a cluster: the partitions whose next entry is too large to be read together with other partitions, with its offset and
    /// size.
    pub(super) large: HashMap<Partition, (u64, usize)>,
    /// In a cluster: which partitions are read next.
    pub(super) schedule: ReadSchedule,
    /// A dedicated connection: a blocking read would delay the commands after it.
    reader: Option<StreamReader>,
}

impl Streams {
    /// The log of a store.
    pub fn new(store: Store, config: &Config) -> Streams {
        Streams {
            store,
            retain: config.log.retain,
            retain_bytes: config.log.retain_bytes,
            read_bytes: config.consumer.read_bytes,
            read_size: ReadSize::new(config.consumer.read_bytes),
            large: HashMap::new(),
            schedule: ReadSchedule::default(),
            reader: None,
        }
    }

    /// Takes the connection for blocking reads. The caller puts it back after a successful read, so a broken one is dropped.
    async fn take_reader(&mut self) -> Result<StreamReader, StoreError> {
        match self.reader.take() {
            Some(connection) => Ok(connection),
            None => Ok(StreamReader::connect(&self.store.endpoint(), self.store.timeout()).await?),
        }
    }

    async fn read_together(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<PartitionEntries>, StoreError> {
        loop {
            let plan = self.read_size.plan(from.len(), limit);
            let is_all = plan.width == from.len();
            let requested = from.iter().cycle().skip(plan.first).take(plan.width);
            let requested: Vec<(Partition, u64)> = requested.copied().collect();
            let wait = if is_all { wait } else { Duration::ZERO };
            let reply = match self.read_once(&requested, plan.count, wait).await {
                Ok(reply) => reply,
                Err(error) => {
                    self.read_size.reset();
                    return Err(error);
                }
            };
            let entries = reply.streams.iter().flat_map(|stream| &stream.entries);
            let (count, bytes) = entries.fold((0, 0), |(count, bytes), entry| {
                (count + 1, bytes + entry.payload.len())
            });
            self.read_size.observe(count, bytes, reply.is_too_large);
            if is_all || !reply.streams.is_empty() {
                return self.by_partition(from, reply.streams);
            }
        }
    }

    async fn read_once(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> Result<ReadReply, StoreError> {
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
        let time_limit = self.store.timeout() + wait;
        let reply = connection.read(&cmd, time_limit, self.read_bytes).await?;
        if !reply.is_too_large {
            self.reader = Some(connection);
        }
        Ok(reply)
    }

    /// Assigns streams to their partitions.
    fn by_partition(
        &self,
        from: &[(Partition, u64)],
        streams: Vec<StreamEntries>,
    ) -> Result<Vec<PartitionEntries>, StoreError> {
        let keys = self.store.keys();
        let partitions: HashMap<Vec<u8>, Partition> = from
            .iter()
            .map(|(p, _)| (keys.log(*p).into_bytes(), *p))
            .collect();
        let of_partition = |stream: StreamEntries| {
            let partition = partitions.get(&stream.name).copied();
            let partition = partition.ok_or_else(|| unexpected("a stream that was not requested"));
            Ok(PartitionEntries {
                partition: partition?,
                entries: stream.entries,
                ends_at_foreign_id: stream.ends_at_foreign_id,
            })
        };
        streams.into_iter().map(of_partition).collect()
    }
}

/// Ends a read before an offset that is too far beyond the previous one, and therefore foreign.
fn end_at_gap(read: &mut PartitionEntries, next: u64) {
    let mut last = next.saturating_sub(1);
    let is_foreign = |entry: &LogEntry| {
        let is_far = entry.offset.saturating_sub(last) > MAX_GAP;
        last = entry.offset;
        is_far
    };
    if let Some(at) = read.entries.iter().position(is_foreign) {
        read.entries.truncate(at);
        read.ends_at_foreign_id = true;
    }
}

/// The ID after which `XREAD` starts.
fn after(next: u64) -> String {
    format!("0-{}", next.saturating_sub(1))
}

impl EventLog for Streams {
    async fn append(
        &self,
        entries: &BTreeMap<Partition, Vec<(EntryKind, Vec<u8>)>>,
    ) -> Result<(), StoreError> {
        // In a cluster a script appends to one partition.
        let max_logs = if self.store.keys().tagged() {
            1
        } else {
            MAX_LOGS_PER_CALL
        };
        for chunk in chunks(entries, max_logs) {
            let mut call = APPEND.script.prepare_invoke();
            for (partition, entries) in &chunk {
                call.key(self.store.keys().log(*partition))
                    .arg(entries.len());
                for (kind, payload) in *entries {
                    call.arg(kind.field()).arg(payload);
                }
            }
            let mut connection = self.store.writes();
            match call.invoke_async::<()>(&mut connection).await {
                // Nothing was appended.
                Err(error) if rejected_by_foreign_last_id(&error) => {
                    for (partition, _) in &chunk {
                        renumber(&self.store, *partition).await?;
                    }
                    call.invoke_async::<()>(&mut connection).await?;
                }
                reply => reply?,
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
        let mut read = if !self.store.keys().tagged() {
            self.read_together(from, limit, wait).await?
        } else {
            let read = self.read_separately(from, limit).await?;
            if read.is_empty() && !wait.is_zero() {
                tokio::time::sleep(wait.min(read_schedule::INTERVAL)).await;
                self.read_separately(from, limit).await?
            } else {
                read
            }
        };
        let from: HashMap<Partition, u64> = from.iter().copied().collect();
        for entries in &mut read {
            let next = from.get(&entries.partition).copied().unwrap_or(1);
            end_at_gap(entries, next);
        }
        Ok(read)
    }

    async fn acknowledge(&self, counted: &[Acknowledgement]) -> Result<(), StoreError> {
        let partitions: Vec<Partition> = counted.iter().map(|counted| counted.partition).collect();
        let mut counted = counted.to_vec();
        // Without sinks there are no holds.
        let holds = holds::of_sinks(&self.store, &partitions).await?;
        for (counted, hold) in counted.iter_mut().zip(holds) {
            counted.next = hold.map_or(counted.next, |hold| counted.next.min(hold));
        }
        let (long, short): (Vec<Acknowledgement>, Vec<Acknowledgement>) =
            counted.iter().partition(|counted| counted.may_be_long);
        if !short.is_empty() {
            let mut pipe = redis::pipe();
            for counted in short {
                let retain_from = counted.next.saturating_sub(self.retain);
                pipe.cmd("XTRIM")
                    .arg(self.store.keys().log(counted.partition));
                pipe.arg(&["MINID", "~"]).arg(format!("0-{retain_from}"));
            }
            let _: Vec<u64> = pipe.query_async(&mut self.store.commands()).await?;
        }
        trim_to_bytes(&self.store, long, self.retain, self.retain_bytes).await
    }

    async fn renumber(&self, partition: Partition) -> Result<u64, StoreError> {
        renumber(&self.store, partition).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_far_beyond_the_one_before_is_foreign() {
        let read = |offsets: &[u64], next: u64| {
            let entry = |offset: &u64| LogEntry {
                offset: *offset,
                kind: EntryKind::Event,
                payload: Vec::new(),
                size: 0,
                is_whole: true,
            };
            let mut read = PartitionEntries {
                partition: 0,
                entries: offsets.iter().map(entry).collect(),
                ends_at_foreign_id: false,
            };
            end_at_gap(&mut read, next);
            (read.entries.len(), read.ends_at_foreign_id)
        };
        assert_eq!(read(&[5, 6, 900, 901], 5), (4, false));
        assert_eq!(read(&[5, 6, 6 + MAX_GAP], 5), (3, false));
        assert_eq!(read(&[5, 6, 7 + MAX_GAP, 8 + MAX_GAP], 5), (2, true));
        assert_eq!(read(&[(1 << 53) - 1], 1), (0, true));
        assert_eq!(read(&[(1 << 40) - 1, 1 << 40], 1 << 40), (2, false));
    }
}
