//! Keeps data from writing to an archive that belongs to other data, or that is newer than the data.
//!
//! Data and archive have the same random ID. Data from an older snapshot would use offsets again that are archived, and so replace what only
//! the archive still has. So archivers record the time in Redis all the time. If entries were archived long after the time that Redis has, the
//! data is older than the archive. A crash loses a few seconds of both.

use super::error::ArchiveError;
use super::index::{Index, IndexLine};
use super::offsets::load;
use super::reader::ranges_of;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::layout::StoredLayout;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

static STAMP: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/archive_stamp.lua")));

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["HGET {archived} 0"];
/// The field with the time, beside those of the partitions.
const AT: &str = "at";
/// How much later than the time in Redis entries may have been archived, in milliseconds. A crash loses a second or two, a failover the
/// lag of the replica.
const TOLERANCE: u64 = 30_000;
/// By how much lines of the index may be out of order, because clocks differ.
const MAX_SKEW: u64 = 60_000;
/// The interval in which the time is recorded if nothing is archived.
const INTERVAL: Duration = Duration::from_secs(5);

/// The permissions that a guard requires.
pub fn guard_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(STAMP.required_permissions())
}

/// The guard of an archive.
pub struct ArchiveGuard {
    store: Store,
    index: Index,
    is_checked: bool,
    /// The times that this process has seen in Redis, by the partition whose Hash has them.
    seen: BTreeMap<Partition, u64>,
    stamped: Instant,
}

impl ArchiveGuard {
    /// The guard of the archive in a directory.
    pub fn new(store: Store, dir: &Path) -> ArchiveGuard {
        ArchiveGuard {
            store,
            index: Index::of(dir),
            is_checked: false,
            seen: BTreeMap::new(),
            stamped: Instant::now(),
        }
    }

    /// Checks that the archive belongs to the data and is not newer. An archive without ID gets that of the data.
    ///
    /// # Errors
    /// [`ArchiveError::Foreign`] and [`ArchiveError::Ahead`]: the archive must not be written. Others: try again.
    pub async fn check(&mut self) -> Result<(), ArchiveError> {
        self.adopt().await?;
        self.compare().await?;
        self.seen.clear();
        self.stamp(None).await?;
        self.is_checked = true;
        Ok(())
    }

    /// Checks the archive unless that was done, and records the time now and then.
    ///
    /// # Errors
    /// As [`check`](ArchiveGuard::check).
    pub async fn keep(&mut self) -> Result<(), ArchiveError> {
        if self.is_checked && self.stamped.elapsed() >= INTERVAL {
            self.is_checked = self.stamp(Some(&[])).await?;
        }
        match self.is_checked {
            true => Ok(()),
            false => self.check().await,
        }
    }

    /// Records the time before a chunk of some partitions becomes part of the archive. Returns false if Redis has lost writes: then the archive
    /// has to be checked first.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn permits(&mut self, partitions: &[Partition]) -> Result<bool, StoreError> {
        self.is_checked &= self.stamp(Some(partitions)).await?;
        Ok(self.is_checked)
    }

    async fn adopt(&self) -> Result<(), ArchiveError> {
        let index = self.index.clone();
        let of_archive = blocking(move || index.data_id()).await?;
        let keys = self.store.keys();
        let connection = &mut self.store.commands();
        let of_data = StoredLayout::archive_id(connection, &keys).await;
        let of_data = of_data.map_err(StoreError::from)?;
        if of_archive.is_some() {
            return self.compare_ids(of_archive, of_data);
        }
        let id = match of_data {
            Some(id) => id,
            None => {
                let new = format!("{:016x}", fastrand::u64(..));
                let id = StoredLayout::init_archive_id(connection, &keys, &new).await;
                id.map_err(StoreError::from)?
            }
        };
        let (index, new) = (self.index.clone(), id.clone());
        let recorded = blocking(move || {
            std::fs::create_dir_all(index.dir()).map_err(ArchiveError::file(index.dir()))?;
            let lock = index.lock()?;
            if index.data_id()?.is_none() {
                index.set_data_id(&lock, &new)?;
            }
            index.data_id()
        });
        self.compare_ids(recorded.await?, Some(id))
    }

    fn compare_ids(
        &self,
        of_archive: Option<String>,
        of_data: Option<String>,
    ) -> Result<(), ArchiveError> {
        match of_archive == of_data {
            true => Ok(()),
            false => Err(ArchiveError::Foreign(self.index.dir().to_owned())),
        }
    }

    /// Compares the end of the archive with the offsets in Redis.
    async fn compare(&self) -> Result<(), ArchiveError> {
        let places = places(&self.store);
        let mut times: BTreeMap<Partition, u64> = BTreeMap::new();
        for place in places.values().copied().collect::<BTreeSet<_>>() {
            let mut cmd = redis::cmd("HGET");
            cmd.arg(self.store.keys().archived(place)).arg(AT);
            let time: Result<Option<u64>, _> = cmd.query_async(&mut self.store.reads()).await;
            if let Some(time) = time.map_err(StoreError::from)? {
                times.insert(place, time);
            }
        }
        let Some(oldest) = times.values().min().copied() else {
            return Ok(());
        };
        let index = self.index.clone();
        let later = blocking(move || {
            let lines = index.load_since(oldest.saturating_sub(MAX_SKEW))?;
            let later = lines
                .into_iter()
                .filter(|line| line.ms > oldest + TOLERANCE);
            ends(&index, later)
        });
        let later: BTreeMap<Partition, (u64, u64)> = later.await?;
        let partitions: Vec<Partition> = later.keys().copied().collect();
        let archived = load(&self.store, &partitions).await?;
        for ((partition, (end, ms)), archived) in later.into_iter().zip(archived) {
            let time = places.get(&partition).and_then(|place| times.get(place));
            let Some(time) = time.filter(|time| ms > **time + TOLERANCE) else {
                continue;
            };
            if archived.unwrap_or(1) < end {
                return Err(ArchiveError::Ahead {
                    dir: self.index.dir().to_owned(),
                    partition,
                    end: end - 1,
                    archived: archived.unwrap_or(1) - 1,
                    seconds: (ms - time) / 1_000,
                });
            }
        }
        Ok(())
    }

    /// Records the time in all nodes. Only those of `partitions` have to be available, or all without. Returns false if Redis has an earlier
    /// time than this process has seen.
    async fn stamp(&mut self, partitions: Option<&[Partition]>) -> Result<bool, StoreError> {
        let places = places(&self.store);
        let required: BTreeSet<Partition> = match partitions {
            None => places.values().copied().collect(),
            Some(partitions) => {
                let required = partitions.iter().filter_map(|of| places.get(of));
                required.copied().collect()
            }
        };
        for place in places.into_values().collect::<BTreeSet<_>>() {
            let seen = self.seen.get(&place).copied();
            match stamp(&self.store, place, seen).await {
                Ok(Some(time)) => drop(self.seen.insert(place, time)),
                Ok(None) => return Ok(false),
                Err(StoreError::Unavailable(_)) if !required.contains(&place) => {}
                Err(error) => return Err(error),
            }
        }
        self.stamped = Instant::now();
        Ok(true)
    }
}

/// Checks that an archive belongs to the data.
///
/// # Errors
/// It belongs to other data, or cannot be read.
pub async fn check_owner(store: &Store, dir: &Path) -> Result<(), ArchiveError> {
    let guard = ArchiveGuard::new(store.clone(), dir);
    let index = guard.index.clone();
    let of_archive = blocking(move || index.data_id()).await?;
    let of_data = StoredLayout::archive_id(&mut store.commands(), &store.keys()).await;
    match of_archive {
        None => Ok(()),
        of_archive => guard.compare_ids(of_archive, of_data.map_err(StoreError::from)?),
    }
}

/// Makes an archive that of the data before it is restored. A snapshot may be older than the ID.
///
/// # Errors
/// The archive belongs to other data, or cannot be read.
pub async fn adopt_for_restore(store: &Store, dir: &Path) -> Result<(), ArchiveError> {
    let index = Index::of(dir);
    if let Some(id) = blocking(move || index.data_id()).await? {
        let connection = &mut store.commands();
        let id = StoredLayout::init_archive_id(connection, &store.keys(), &id).await;
        id.map_err(StoreError::from)?;
    }
    check_owner(store, dir).await
}

/// Records that the data is as new as the archive, although the archive may have later entries.
///
/// # Errors
/// The store is unavailable.
pub async fn accept_loss(store: &Store) -> Result<(), StoreError> {
    for place in places(store).into_values().collect::<BTreeSet<_>>() {
        stamp(store, place, None).await?;
    }
    Ok(())
}

/// Records the time. Returns the time that Redis has, or `None` if it has an earlier one than `seen`.
async fn stamp(
    store: &Store,
    place: Partition,
    seen: Option<u64>,
) -> Result<Option<u64>, StoreError> {
    let mut call = RedisCall::script(&STAMP, &[store.keys().archived(place)]);
    call.cmd.arg(now_ms()).arg(seen.unwrap_or(0));
    let reply = Option::<u64>::from_redis_value(call.send(store).await?);
    reply.map_err(|error| StoreError::Unexpected(error.to_string()))
}

/// The partition whose Hash has the time for each partition: the lowest one of its node.
fn places(store: &Store) -> BTreeMap<Partition, Partition> {
    let (keys, nodes) = (store.keys(), store.node_map());
    let mut lowest: BTreeMap<usize, Partition> = BTreeMap::new();
    let partitions = (0..keys.partitions()).map(|partition| {
        let node = match keys.tagged() {
            true => nodes.node_of(partition),
            false => 0,
        };
        (partition, *lowest.entry(node).or_insert(partition))
    });
    partitions.collect()
}

/// The offset after the last one of each partition of some chunks, and when it was archived.
fn ends(
    index: &Index,
    lines: impl Iterator<Item = IndexLine>,
) -> Result<BTreeMap<Partition, (u64, u64)>, ArchiveError> {
    let mut ends = BTreeMap::new();
    for line in lines {
        for range in ranges_of(index, &line)? {
            // A later chunk replaces what it overlaps.
            ends.insert(range.partition, (range.next, line.ms));
        }
    }
    Ok(ends)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| StoreError::Unexpected(format!("the archive: {error}")))?
}
