//! `countd reconcile`: compares all counters, or those of one entity or user, exactly.

use super::compare::Comparer;
use super::context::Context;
use super::keys::KeySweep;
use super::rows::RowSweep;
use crate::domain::error::{ConnectError, StoreError};
use crate::domain::event::CheckMode;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Partition, StoragePhase};
use crate::domain::progress::{Progress, Update};
use crate::log::inspect::inspect;
use crate::maintenance::pace::Pace;
use crate::maintenance::report::Report;
use crate::repair::{CheckSettings, Found, Outcome, settle};
use redis::RedisError;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HGETALL {report}", "DEL {report}"];

/// What the audit names as the source of corrections.
const SOURCE: &str = "reconcile";
/// The number of entities that are compared at once.
const PAGE: usize = 200;
/// The maximum number of keys of a node that a sample visits for each of its entities.
const KEYS_OF_SAMPLE: u64 = 50;
/// The number of counters whose checks wait for the consumers.
pub(super) const MAX_WAITING: usize = 2_000;
/// The interval between two looks at the positions.
pub(super) const POLL: Duration = Duration::from_millis(20);
/// How long to wait until events of other settings are counted.
const SETTLE: Duration = Duration::from_secs(60);
/// How long no consumer may make progress.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which counters are compared.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All.
    All,
    /// Those of an entity.
    Entity(Entity),
    /// Those of a user.
    User(Id),
    /// Those of the entities of some types.
    Types(Vec<Name>),
    /// Those of about this many entities of some types, in partitions chosen at random.
    Sample(Vec<Name>, usize),
}

impl Scope {
    /// Whether entities of a type are compared.
    fn has_type(&self, etype: &Name) -> bool {
        match self {
            Scope::All => true,
            Scope::Entity(entity) => entity.etype == *etype,
            Scope::Types(types) | Scope::Sample(types, _) => types.contains(etype),
            Scope::User(_) => false,
        }
    }
}

/// Why counters cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// It must not run now.
    #[error("{0}")]
    Refused(String),
    /// The server is unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The layout cannot be read.
    #[error(transparent)]
    Layout(#[from] ConnectError),
}

impl From<RedisError> for ReconcileError {
    fn from(error: RedisError) -> ReconcileError {
        ReconcileError::Store(error.into())
    }
}

/// A run of the command.
pub(super) struct Run<'a> {
    pub(super) context: &'a Context,
    scope: &'a Scope,
    pub(super) comparer: Comparer,
    pub(super) mode: CheckMode,
    pub(super) report: Id,
    pace: Pace,
    /// The number of rows and keys that were visited, and of all when the run began.
    visited: u64,
    all: Option<u64>,
    pub(super) progress: &'a dyn Progress,
}

/// Compares counters with their facts, and does with differences what `mode` says. Consumers have to run: they compare the counters that
/// they change.
///
/// # Errors
/// A migration moves counters, no consumer runs, or the store is unavailable.
pub async fn reconcile(
    context: &Context,
    scope: &Scope,
    mode: CheckMode,
    progress: &dyn Progress,
) -> Result<Report, ReconcileError> {
    context.store.refresh_layout().await?;
    refuse_moving(context, scope)?;
    if !settle(&context.store, &context.catalog.config, SETTLE).await? {
        return Err(ReconcileError::Refused(
            "processes or uncounted events have other settings: all processes need the same `count` and `facts` of metrics, and consumers must run".to_owned(),
        ));
    }
    let name = |_| StoreError::Unexpected("a name".to_owned());
    let report = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
    let report = Id::new(report).map_err(name)?;
    let settings = CheckSettings {
        mode,
        source: Name::new(SOURCE).map_err(name)?,
        round: 0,
        report: Some(report.clone()),
    };
    let mut run = Run {
        context,
        scope,
        comparer: Comparer::new(context, settings),
        mode,
        report,
        pace: Pace::new(context.catalog.config.reconcile.entities_per_second),
        visited: 0,
        all: None,
        progress,
    };
    match scope {
        Scope::Entity(entity) => run.check(std::slice::from_ref(entity)).await?,
        Scope::All | Scope::Types(_) => {
            run.all = Some(run.count().await?);
            if context.store.backend().has_tables() {
                run.check_rows(usize::MAX).await?;
            }
            run.check_keys(usize::MAX).await?;
        }
        Scope::Sample(_, size) => {
            if context.store.backend().has_tables() {
                run.check_rows(*size).await?;
            }
            run.check_keys(*size).await?;
        }
        Scope::User(uid) => run.check_users(Some(uid)).await?,
    }
    run.wait().await?;
    if matches!(scope, Scope::All) {
        run.check_users(None).await?;
    }
    Ok(run.comparer.report)
}

fn refuse_moving(context: &Context, scope: &Scope) -> Result<(), ReconcileError> {
    let layout = context.store.layout();
    let types = context.catalog.config.entities.keys();
    let mut types = types.filter(|etype| scope.has_type(etype));
    let is_of_users = matches!(scope, Scope::All | Scope::User(_));
    if is_of_users && layout.storage_of_users() == StoragePhase::Moving {
        return Err(ReconcileError::Refused(
            "counters of users are moved: finish `countd storage migrate user` first".to_owned(),
        ));
    }
    match types.find(|etype| layout.storage_of(etype) == StoragePhase::Moving) {
        Some(etype) => Err(ReconcileError::Refused(format!(
            "counters of {etype} are moved: finish `countd storage migrate {etype}` first"
        ))),
        None => Ok(()),
    }
}

impl Run<'_> {
    /// Shows a step after the comparison of what was visited so far.
    pub(super) fn show(&mut self, step: &str) {
        // Rows and keys may appear meanwhile.
        let all = self.all.map(|all| all.max(self.visited));
        let update = Update::new(step, self.visited, "keys and rows").of(all);
        self.progress.update(&update);
    }

    /// The number of rows and keys.
    async fn count(&mut self) -> Result<u64, ReconcileError> {
        let (context, mut all) = (self.context, 0);
        for server in context.store.servers()? {
            all += KeySweep::new(context, server, 0).await?.key_count().await?;
        }
        let has_tables = context.store.backend().has_tables();
        for partition in (0..context.store.keys().partitions()).filter(|_| has_tables) {
            for (etype, entity) in &context.catalog.config.entities {
                let is_compared = self.scope.has_type(etype);
                if is_compared && self.comparer.planner.of_type(etype).await?.is_some() {
                    let sweep = RowSweep::new(context, (&entity.schema, etype), partition);
                    all += sweep.row_count().await?;
                }
            }
        }
        Ok(all)
    }

    async fn check(&mut self, entities: &[Entity]) -> Result<(), ReconcileError> {
        self.comparer.check(entities).await?;
        self.show("comparing");
        self.pace.add(entities.len()).await;
        if self.comparer.waiting.len() >= MAX_WAITING {
            self.wait().await?;
        }
        Ok(())
    }

    /// Compares the counters in rows, of all entities or of about `limit`.
    async fn check_rows(&mut self, limit: usize) -> Result<(), ReconcileError> {
        let context = self.context;
        let mut partitions: Vec<Partition> = (0..context.store.keys().partitions()).collect();
        if limit < usize::MAX {
            fastrand::shuffle(&mut partitions);
        }
        // A sample has rows of many partitions.
        let page = PAGE.min(limit.div_ceil(partitions.len())).max(1);
        let is_sample = limit < usize::MAX;
        let mut left = limit;
        for partition in partitions {
            for (etype, entity) in &context.catalog.config.entities {
                let is_compared = self.scope.has_type(etype);
                if !is_compared || self.comparer.planner.of_type(etype).await?.is_none() {
                    continue;
                }
                let mut sweep = RowSweep::new(context, (&entity.schema, etype), partition);
                loop {
                    let (entities, is_last) = sweep.next(page).await?;
                    self.visited += entities.len() as u64;
                    self.check(&entities).await?;
                    left = left.saturating_sub(entities.len());
                    if left == 0 {
                        return Ok(());
                    }
                    if is_last || is_sample {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Compares the counters of entities that have keys of their own, of all or of about `limit`.
    async fn check_keys(&mut self, limit: usize) -> Result<(), ReconcileError> {
        let mut left = limit;
        for (node, server) in self.context.store.servers()?.into_iter().enumerate() {
            // The cursor is not saved, so the number does not matter.
            let mut sweep = KeySweep::new(self.context, server, node as Partition).await?;
            // A sample does not go through all keys to find the few of its types.
            let mut keys_left = (limit as u64).saturating_mul(KEYS_OF_SAMPLE);
            loop {
                let page = sweep.next(PAGE).await?;
                keys_left = keys_left.saturating_sub(page.keys);
                let is_last = page.is_last || keys_left == 0;
                self.visited += page.keys;
                let mut entities = self.comparer.entities_to_compare(page).await?;
                entities.retain(|entity| self.scope.has_type(&entity.etype));
                self.check(&entities).await?;
                left = left.saturating_sub(entities.len());
                if left == 0 {
                    return Ok(());
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits until the consumers have reached the checks, and collects what they have found.
    pub(super) async fn wait(&mut self) -> Result<(), ReconcileError> {
        let appended = std::mem::take(&mut self.comparer.appended);
        let mut left: BTreeMap<Partition, u64> = appended.clone();
        let mut since = Instant::now();
        loop {
            let partitions: Vec<Partition> = left.keys().copied().collect();
            let inspection = inspect(&self.context.store, &partitions).await;
            if let Some(error) = inspection.error {
                return Err(error.into());
            }
            let before = left.len();
            left.retain(|partition, last| {
                let state = inspection.states.get(partition);
                !state.is_some_and(|state| matches!(state.position, Ok(next) if next > *last))
            });
            if left.is_empty() {
                break;
            }
            if left.len() < before {
                since = Instant::now();
            }
            if since.elapsed() > PATIENCE {
                return Err(ReconcileError::Refused(
                    "no consumer counts the log: start `countd consume`".to_owned(),
                ));
            }
            self.show("waiting for the consumers");
            tokio::time::sleep(POLL).await;
        }
        for partition in appended.keys() {
            self.collect(*partition).await?;
        }
        // Commits compare nothing while processes have other settings, and an entry can become a dead letter.
        for (_, metric) in std::mem::take(&mut self.comparer.waiting) {
            self.comparer.report.add_unchecked(&metric);
        }
        Ok(())
    }

    /// Collects what the commits of a partition have found.
    pub(super) async fn collect(&mut self, partition: Partition) -> Result<(), ReconcileError> {
        let store = &self.context.store;
        let key = store.keys().check_report(&self.report, partition);
        let mut pipe = redis::pipe();
        pipe.cmd("HGETALL").arg(&key);
        pipe.cmd("DEL").arg(&key).ignore();
        let (found,): (BTreeMap<String, String>,) = pipe.query_async(&mut store.commands()).await?;
        for (field, value) in found {
            let Some((entity, metric, found)) = parse(&field, &value) else {
                continue;
            };
            self.comparer.add_found(&metric, found);
            self.comparer.waiting.remove(&(entity, metric));
        }
        Ok(())
    }
}

/// Parses a field of a report (`{etype}:{eid}:{metric}`) and its value (counter, number of facts, outcome and largest difference).
fn parse(field: &str, value: &str) -> Option<(Entity, Name, Found)> {
    let (etype, rest) = field.split_once(':')?;
    let (eid, metric) = rest.rsplit_once(':')?;
    let etype = Name::new(etype).ok()?;
    let (eid, metric) = (Id::new(eid).ok()?, Name::new(metric).ok()?);
    let mut numbers = value.split(' ').map(str::parse::<u64>);
    let mut number = || numbers.next()?.ok();
    let found = Found {
        before: number()?,
        expected: number()?,
        outcome: Outcome::of_code(number()?),
        difference: number()?,
    };
    Some((Entity { etype, eid }, metric, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_parsed() {
        let (entity, metric, found) = parse("note:7:like", "5 3 2 4").expect("a report");
        let names = [entity.etype.as_str(), entity.eid.as_str(), metric.as_str()];
        assert_eq!(names, ["note", "7", "like"]);
        assert_eq!((found.before, found.expected), (5, 3));
        assert_eq!(found.difference, 4);
        assert_eq!(found.outcome, Outcome::Corrected);
        for (field, value) in [
            ("", "5 3 2 2"),
            ("note:like", "5 3 2 2"),
            ("note:7:like", "5 3 2"),
            ("note:7:like", ""),
        ] {
            assert!(parse(field, value).is_none(), "{field} {value}");
        }
    }
}
