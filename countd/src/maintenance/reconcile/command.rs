//! `countd reconcile`: compares all counters, or those of one entity or user, exactly.

use super::compare::Comparer;
use super::context::Context;
use super::keys::KeySweep;
use super::rows::RowSweep;
use crate::domain::error::{ConnectError, StoreError};
use crate::domain::event::CheckMode;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Partition, StoragePhase};
use crate::log::inspect::inspect;
use crate::maintenance::pace::Pace;
use crate::maintenance::report::Report;
use crate::redis::script::CounterBackend;
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
}

/// Gets each step, and how much of it is done: the number of entities or keys, and about the number of all, if it is known.
pub type Progress<'a> = &'a mut (dyn FnMut(&str, u64, Option<u64>) + Send);

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
    pub(super) comparer: Comparer,
    pub(super) mode: CheckMode,
    pub(super) report: Id,
    pace: Pace,
    /// The number of rows and keys that were visited, and of all when the run began.
    visited: u64,
    all: Option<u64>,
    pub(super) progress: Progress<'a>,
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
    progress: Progress<'_>,
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
        Scope::All => {
            run.all = Some(run.count().await?);
            if context.store.backend() == CounterBackend::Module {
                run.check_rows().await?;
            }
            run.check_keys().await?;
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
    let mut types = types.filter(|etype| match scope {
        Scope::All => true,
        Scope::Entity(entity) => entity.etype == **etype,
        Scope::User(_) => false,
    });
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
        (self.progress)(step, self.visited, all);
    }

    /// The number of rows and keys.
    async fn count(&mut self) -> Result<u64, ReconcileError> {
        let (context, mut all) = (self.context, 0);
        for server in context.store.servers()? {
            all += KeySweep::new(context, server, 0).await?.key_count().await?;
        }
        let has_tables = context.store.backend() == CounterBackend::Module;
        for partition in (0..context.store.keys().partitions()).filter(|_| has_tables) {
            for (etype, entity) in &context.catalog.config.entities {
                if self.comparer.planner.of_type(etype).await?.is_some() {
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

    async fn check_rows(&mut self) -> Result<(), ReconcileError> {
        let context = self.context;
        for partition in 0..context.store.keys().partitions() {
            for (etype, entity) in &context.catalog.config.entities {
                if self.comparer.planner.of_type(etype).await?.is_none() {
                    continue;
                }
                let mut sweep = RowSweep::new(context, (&entity.schema, etype), partition);
                loop {
                    let (entities, is_last) = sweep.next(PAGE).await?;
                    self.visited += entities.len() as u64;
                    self.check(&entities).await?;
                    if is_last {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    async fn check_keys(&mut self) -> Result<(), ReconcileError> {
        for (node, server) in self.context.store.servers()?.into_iter().enumerate() {
            // The cursor is not saved, so the number does not matter.
            let mut sweep = KeySweep::new(self.context, server, node as Partition).await?;
            loop {
                let page = sweep.next(PAGE).await?;
                let is_last = page.is_last;
                self.visited += page.keys;
                let entities = self.comparer.entities_to_compare(page).await?;
                self.check(&entities).await?;
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
