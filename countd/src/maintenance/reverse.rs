//! `countd reverse backfill`: adds the facts of a metric that were recorded before it was kept for users.
//!
//! The layout first tells the consumers to keep the metric for users, and requests to refuse to read it. When all processes follow, each
//! key with facts is scanned, and entries of the log ask the consumers to read these facts again. A consumer reads them when it reaches
//! the entry, so changes during the backfill are applied in order. When all entries are committed, the layout permits reads.
//!
//! Each step can be repeated. A backfill that was killed at any point is finished by running the command again.

use crate::domain::config::{Config, FactKind, Metric};
use crate::domain::error::{ConnectError, StoreError};
use crate::domain::event::Reread;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::log::inspect::inspect;
use crate::log::{EntryKind, EventLog, Streams};
use crate::redis::layout::{ReverseState, StoredLayout};
use crate::redis::permissions::Permissions;
use crate::redis::processes::{
    CONSUMER_PERMISSIONS, ProcessMember, consumer_without_heartbeat, is_anyone_behind,
    live_consumers,
};
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use redis::RedisError;
use redis::aio::ConnectionManager;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The commands that a backfill sends.
const PERMISSIONS: &[&str] = &[
    "SCAN 0 MATCH x COUNT 1",
    "XREVRANGE {out} + - COUNT 1",
    "XRANGE {out} - + COUNT 1",
];
/// The commands that read facts: of an ID set, of a Set, and of a bitmap.
const READ_IDS: &str = "RBM.SCAN {ids} 0 COUNT 1";
const READ_SET: &str = "SSCAN {set} 0 COUNT 1";
const READ_BITS: &str = "GET {bits}";

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// The maximum number of users in an entry of the log.
const USERS_PER_ENTRY: usize = 200;
/// The number of facts after which the backfill waits until the consumers have committed them.
const MAX_WAITING: u64 = 20_000;
/// The delay between two looks at the consumers.
const POLL: Duration = Duration::from_millis(100);
/// How long a consumer of an older version is tolerated: the heartbeats of a dead consumer expire.
const PATIENCE: Duration = Duration::from_secs(15);
/// The number of bits of a bitmap, as facts/bitmap.rs divides users.
const CHUNK: u64 = 32_768;

/// Why a backfill stopped. The next run starts again.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The configuration or the processes do not allow it.
    #[error("{0}")]
    Refused(String),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The layout cannot be read.
    #[error(transparent)]
    Layout(#[from] ConnectError),
}

impl From<RedisError> for BackfillError {
    fn from(error: RedisError) -> BackfillError {
        BackfillError::Store(error.into())
    }
}

/// The permissions that backfills require.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
        .and(Permissions::of_commands(CONSUMER_PERMISSIONS))
        .and(crate::redis::layout::record_permissions())
}

/// The permissions to read the facts of a metric.
pub fn fact_permissions(kind: FactKind, backend: CounterBackend) -> Permissions {
    Permissions::of_commands(match (kind, backend) {
        (FactKind::Bitmap, _) => &[READ_BITS],
        (FactKind::Rbm, CounterBackend::Module) => &[READ_IDS],
        (FactKind::Daily, CounterBackend::Module) => &[READ_SET, READ_IDS],
        _ => &[READ_SET],
    })
}

/// How the facts at a key are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FactForm {
    Ids,
    Set,
    Bits(u64),
}

/// A key with facts of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FactKey {
    key: String,
    entity: Entity,
    form: FactForm,
}

/// A backfill.
pub struct Backfill<'a> {
    store: Store,
    log: Streams,
    name: &'a Name,
    kind: FactKind,
    /// How long to wait for processes that were suspended and still follow the former layout.
    grace: Duration,
    /// The partitions with entries that are not known to be committed.
    waiting: BTreeSet<Partition>,
    waiting_facts: u64,
    facts: u64,
    print: &'a mut dyn FnMut(&str, u64),
}

impl<'a> Backfill<'a> {
    /// The backfill of a metric. `print` gets each step, and the number of facts so far.
    ///
    /// # Errors
    /// The metric has no facts, or the configuration does not say that they are kept for users.
    pub fn new(
        store: Store,
        config: &Config,
        (name, metric): (&'a Name, &Metric),
        grace: Duration,
        print: &'a mut dyn FnMut(&str, u64),
    ) -> Result<Backfill<'a>, BackfillError> {
        let refused = |problem: String| BackfillError::Refused(problem);
        let kind = metric.fact_kind();
        let kind = kind.ok_or_else(|| refused(format!("{name} is repeatable: it has no facts")))?;
        if !metric.reverse {
            let problem = format!("set reverse = true in [metrics.{name}] first");
            return Err(refused(problem));
        }
        Ok(Backfill {
            log: Streams::new(store.clone(), config),
            store,
            name,
            kind,
            grace,
            waiting: BTreeSet::new(),
            waiting_facts: 0,
            facts: 0,
            print,
        })
    }

    /// Runs the backfill. Returns the number of facts that were read again.
    ///
    /// # Errors
    /// A consumer is of an older version, or Redis failed.
    pub async fn run(mut self) -> Result<u64, BackfillError> {
        let mut member = ProcessMember::new(self.store.clone());
        let result = self.run_as(&mut member).await;
        // Its heartbeat would expire soon.
        let _ = member.leave().await;
        result
    }

    async fn run_as(&mut self, member: &mut ProcessMember) -> Result<u64, BackfillError> {
        self.store.refresh_layout().await?;
        // Facts of a metric that is kept already are added again, for example after a log was reset.
        if !self.store.layout().has_reverse(self.name) {
            self.record(ReverseState::Backfill).await?;
        }
        self.wait_for_processes(member).await?;
        self.step("grace period");
        let end = Instant::now() + self.grace;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            member.heartbeat().await?;
            tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        }
        // Compaction may move facts from a key that was not scanned yet to one that was. The second pass finds them there.
        let passes = if self.kind == FactKind::Daily { 2 } else { 1 };
        for _ in 0..passes {
            for mut server in self.store.servers()? {
                self.scan(&mut server, member).await?;
            }
        }
        self.drain(member).await?;
        if !self.store.layout().has_reverse(self.name) {
            self.record(ReverseState::On).await?;
        }
        self.wait_for_processes(member).await?;
        Ok(self.facts)
    }

    fn step(&mut self, step: &str) {
        (self.print)(step, self.facts);
    }

    async fn record(&mut self, state: ReverseState) -> Result<(), BackfillError> {
        let keys = self.store.keys();
        let mut connection = self.store.commands();
        StoredLayout::record_reverse(&mut connection, &keys, (self.name, state)).await?;
        Ok(())
    }

    /// Waits until all live processes follow the current layout.
    async fn wait_for_processes(
        &mut self,
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        self.step("waiting for all processes");
        let started = Instant::now();
        loop {
            let live = member.heartbeat().await?;
            let epoch = self.store.layout().epoch;
            let consumers = live_consumers(&self.store).await?;
            match consumer_without_heartbeat(&live, &consumers) {
                Some(pid) if started.elapsed() > PATIENCE => {
                    return Err(BackfillError::Refused(format!(
                        "the consumer with the process ID {pid} is of an older version: all processes must be of this version first"
                    )));
                }
                None if !is_anyone_behind(&live, epoch) => return Ok(()),
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// The patterns of the keys with facts, and how facts are stored there.
    fn patterns(&self) -> Vec<(String, FactForm)> {
        let name = self.name;
        let ids = match self.store.backend() {
            CounterBackend::Module => FactForm::Ids,
            CounterBackend::Strings => FactForm::Set,
        };
        let ids = (format!("rbm:{name}:*"), ids);
        let sets = (format!("s:{name}:*"), FactForm::Set);
        match self.kind {
            FactKind::Rbm => vec![ids],
            FactKind::Bitmap => vec![(format!("bm:{name}:*"), FactForm::Bits(0))],
            FactKind::Sharded => vec![sets],
            FactKind::Daily => vec![sets, ids],
        }
    }

    async fn scan(
        &mut self,
        server: &mut ConnectionManager,
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        for (pattern, form) in self.patterns() {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern);
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(server).await?;
                for key in found {
                    let key = String::from_utf8(key).ok();
                    if let Some(key) = key.and_then(|key| fact_key(key, form)) {
                        self.add_key(&key, member).await?;
                    }
                }
                self.step("reading facts");
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds the facts of a key.
    async fn add_key(
        &mut self,
        FactKey { key, entity, form }: &FactKey,
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        if let FactForm::Bits(chunk) = form {
            let mut cmd = redis::cmd("GET");
            let bits: Option<Vec<u8>> = cmd.arg(key).query_async(&mut self.store.reads()).await?;
            let bits = bits.unwrap_or_default();
            let set = (0..bits.len() as u64 * 8)
                .filter(|bit| bits[*bit as usize / 8] & (0x80 >> (bit % 8)) != 0);
            let users: Vec<String> = set.map(|bit| (chunk * CHUNK + bit).to_string()).collect();
            return self.add_users(entity, &users, member).await;
        }
        let mut cursor = "0".to_owned();
        loop {
            let mut cmd = match form {
                FactForm::Ids => redis::cmd("RBM.SCAN"),
                _ => redis::cmd("SSCAN"),
            };
            cmd.arg(key).arg(&cursor).arg("COUNT").arg(USERS_PER_ENTRY);
            let (next, users): (String, Vec<String>) =
                cmd.query_async(&mut self.store.reads()).await?;
            self.add_users(entity, &users, member).await?;
            cursor = next;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn add_users(
        &mut self,
        entity: &Entity,
        users: &[String],
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        let partition = self.store.keys().of_entity(entity);
        for users in users.chunks(USERS_PER_ENTRY) {
            let uids = users.iter().map(|uid| Id::new(uid.as_str()));
            let uids: Result<Vec<Id>, _> = uids.collect();
            let uids = uids.map_err(|error| StoreError::Unexpected(error.to_string()))?;
            let count = uids.len() as u64;
            let reread = Reread {
                metric: self.name.clone(),
                etype: entity.etype.clone(),
                eid: entity.eid.clone(),
                uids,
            };
            let entry = vec![(EntryKind::Reread, reread.to_json())];
            self.log
                .append(&BTreeMap::from([(partition, entry)]))
                .await?;
            self.waiting.insert(partition);
            self.waiting_facts += count;
            self.facts += count;
        }
        if self.waiting_facts >= MAX_WAITING {
            let waiting: Vec<Partition> = std::mem::take(&mut self.waiting).into_iter().collect();
            self.wait_until_committed(&waiting, member).await?;
            self.waiting_facts = 0;
            // Their outboxes are drained at the end.
            self.waiting.extend(waiting);
        }
        Ok(())
    }

    /// Waits until the consumers have committed the current entries of these logs.
    async fn wait_until_committed(
        &mut self,
        partitions: &[Partition],
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        let mut ends: BTreeMap<Partition, u64> = BTreeMap::new();
        let mut left = partitions.to_vec();
        loop {
            let inspection = inspect(&self.store, &left).await;
            if let Some(error) = inspection.error {
                return Err(error.into());
            }
            left.retain(|partition| {
                let Some(state) = inspection.states.get(partition) else {
                    return true;
                };
                let end = match &state.end {
                    Ok(end) if end.entry.0 == 0 => end.entry.1,
                    // A consumer renumbers the log, or an operator has to repair it.
                    _ => return true,
                };
                let end = *ends.entry(*partition).or_insert(end);
                !matches!(state.position, Ok(next) if next > end)
            });
            if left.is_empty() {
                return Ok(());
            }
            self.step("waiting for the consumers");
            // The heartbeat also keeps the layout current.
            member.heartbeat().await?;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until everything that was appended is committed, in a cluster also by the partitions of the users.
    async fn drain(&mut self, member: &mut ProcessMember) -> Result<(), BackfillError> {
        let waiting: Vec<Partition> = std::mem::take(&mut self.waiting).into_iter().collect();
        self.wait_until_committed(&waiting, member).await?;
        let keys = self.store.keys();
        if !keys.tagged() {
            return Ok(());
        }
        for partition in waiting {
            self.wait_until_forwarded(partition, member).await?;
        }
        let all: Vec<Partition> = (0..keys.partitions()).collect();
        self.wait_until_committed(&all, member).await
    }

    /// Waits until the current entries of an outbox are in the logs of other partitions.
    async fn wait_until_forwarded(
        &mut self,
        partition: Partition,
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        type Entries = Vec<(String, Vec<String>)>;
        let outbox = self.store.keys().outbox(partition);
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(&outbox).arg(&["+", "-", "COUNT", "1"]);
        let last: Entries = cmd.query_async(&mut self.store.commands()).await?;
        let Some((last, _)) = last.into_iter().next() else {
            return Ok(());
        };
        loop {
            let mut cmd = redis::cmd("XRANGE");
            cmd.arg(&outbox).arg(&["-", &last, "COUNT", "1"]);
            let first: Entries = cmd.query_async(&mut self.store.commands()).await?;
            if first.is_empty() {
                return Ok(());
            }
            self.step("waiting for the outboxes");
            member.heartbeat().await?;
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Parses a key with facts: `{kind}:{metric}:{etype}:{eid}`, the part of the entity's facts, and the hash tag. `None` for the indexes of
/// facts.
fn fact_key(key: String, form: FactForm) -> Option<FactKey> {
    let mut parts = key.split(':').skip(2);
    let etype = Name::new(parts.next()?).ok()?;
    let eid = Id::new(parts.next()?).ok()?;
    let part = parts.next().filter(|part| !part.starts_with('{'));
    let form = match (form, part) {
        (FactForm::Bits(_), Some(chunk)) => FactForm::Bits(chunk.parse().ok()?),
        (_, Some("days")) => return None,
        (form, _) => form,
    };
    let entity = Entity { etype, eid };
    Some(FactKey { key, entity, form })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_facts_are_parsed() {
        let parse = |key: &str, form| {
            let parsed = fact_key(key.to_owned(), form)?;
            Some((parsed.entity.eid.to_string(), parsed.form))
        };
        for (key, form, expected) in [
            ("rbm:like:note:7", FactForm::Ids, FactForm::Ids),
            ("rbm:like:note:7:{12}", FactForm::Ids, FactForm::Ids),
            ("s:like:note:7:20261231", FactForm::Set, FactForm::Set),
            ("s:like:note:7:old:{3}", FactForm::Set, FactForm::Set),
            ("bm:like:note:7:5:{3}", FactForm::Bits(0), FactForm::Bits(5)),
        ] {
            assert_eq!(parse(key, form), Some(("7".to_owned(), expected)), "{key}");
        }
        assert_eq!(parse("s:like:note:7:days", FactForm::Set), None);
        assert_eq!(parse("bm:like:note:7:chunks:{3}", FactForm::Bits(0)), None);
        assert_eq!(parse("rbm:like", FactForm::Ids), None);
    }
}
