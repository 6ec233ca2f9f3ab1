//! Records the progress of migrations and adoptions in Redis, for the console: what runs, what the last run has done, and whether it was killed.

use super::lease::WAITING_FOR_LOCK;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::progress::{Progress, Update};
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Commands that record.
pub(super) const PERMISSIONS: &[&str] = &["HSET {migration_progress} f v"];
/// Commands that read what was recorded.
const READ_PERMISSIONS: &[&str] = &["HGETALL {migration_progress}"];

/// The interval between two writes.
const INTERVAL: Duration = Duration::from_secs(1);
/// A run that has not written for so long has ended without saying so: its process was killed, or lost its connection.
const SILENCE_MS: u64 = 10_000;
/// The maximum length of a recorded error in characters.
const MAX_ERROR: usize = 300;
/// The name of an adoption, which no entity type has.
const ADOPTION: &str = "adopt:";
/// Between the migration and the name of a field.
const SEPARATOR: char = '/';

/// What is recorded of a migration at one moment.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    /// Since when it runs, in milliseconds since 1970; `None` before the first step under the lock.
    started: Option<u64>,
    step: String,
    keys: u64,
    all: u64,
    counts: Vec<(&'static str, u64)>,
}

/// Passes progress on, and records it about once a second.
pub struct Recorder<'a> {
    store: Store,
    name: String,
    progress: &'a dyn Progress,
    snapshot: Arc<Mutex<Snapshot>>,
    writer: JoinHandle<()>,
}

impl<'a> Recorder<'a> {
    /// A recorder of the migration of an entity type or of users. Nothing is recorded before the migration has the lock.
    pub fn of_migration(store: &Store, target: &str, progress: &'a dyn Progress) -> Recorder<'a> {
        Recorder::start(store, target.to_owned(), progress)
    }

    /// A recorder of an adoption.
    pub fn of_adoption(store: &Store, progress: &'a dyn Progress) -> Recorder<'a> {
        Recorder::start(store, ADOPTION.to_owned(), progress)
    }

    fn start(store: &Store, name: String, progress: &'a dyn Progress) -> Recorder<'a> {
        let snapshot = Arc::<Mutex<Snapshot>>::default();
        let writer = write_often(store.clone(), name.clone(), Arc::clone(&snapshot));
        Recorder {
            store: store.clone(),
            name,
            progress,
            snapshot,
            writer: tokio::spawn(writer),
        }
    }

    /// Records the end: the number of passes and of the values that were left, or the error.
    pub async fn end<E: std::fmt::Display>(self, result: Result<(u64, u64), &E>) {
        self.writer.abort();
        let snapshot = lock(&self.snapshot).clone();
        if snapshot.started.is_none() {
            return;
        }
        let mut fields = fields_of(&snapshot);
        match result {
            Ok((passes, left)) => {
                fields.push(("passes", passes.to_string()));
                fields.push(("left", left.to_string()));
            }
            Err(error) => {
                let error: String = error.to_string().chars().take(MAX_ERROR).collect();
                fields.push(("error", error));
            }
        }
        fields.push(("ended", now_ms().to_string()));
        write(&self.store, &self.name, &fields).await;
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

impl Progress for Recorder<'_> {
    fn update(&self, update: &Update<'_>) {
        if update.step != WAITING_FOR_LOCK {
            let mut snapshot = lock(&self.snapshot);
            snapshot.started.get_or_insert_with(now_ms);
            update.step.clone_into(&mut snapshot.step);
            snapshot.keys = update.done.unwrap_or(0);
            snapshot.all = update.total.unwrap_or(0);
            snapshot.counts = update.counts.to_vec();
        }
        self.progress.update(update);
    }

    fn note(&self, text: &str) {
        self.progress.note(text);
    }
}

fn lock(snapshot: &Mutex<Snapshot>) -> MutexGuard<'_, Snapshot> {
    snapshot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the snapshot in an interval, also if it has not changed: that says that the process lives.
async fn write_often(store: Store, name: String, snapshot: Arc<Mutex<Snapshot>>) {
    let mut is_first = true;
    loop {
        tokio::time::sleep(if is_first { INTERVAL / 10 } else { INTERVAL }).await;
        let current = lock(&snapshot).clone();
        if current.started.is_none() {
            continue;
        }
        let mut fields = fields_of(&current);
        if std::mem::take(&mut is_first) {
            // Those of the last run.
            let stale = ["ended", "error", "passes", "left"];
            fields.extend(stale.map(|field| (field, String::new())));
        }
        write(&store, &name, &fields).await;
    }
}

fn fields_of(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("started", snapshot.started.unwrap_or(0).to_string()),
        ("updated", now_ms().to_string()),
        ("step", snapshot.step.clone()),
        ("keys", snapshot.keys.to_string()),
        ("all", snapshot.all.to_string()),
    ];
    let counts = snapshot.counts.iter();
    fields.extend(counts.map(|(name, count)| (*name, count.to_string())));
    fields
}

/// Writes fields. A failure is not one of the migration, which notices itself that Redis is unavailable.
async fn write(store: &Store, name: &str, fields: &[(&str, String)]) {
    let mut hset = redis::cmd("HSET");
    hset.arg(store.keys().migration_progress());
    for (field, value) in fields {
        hset.arg(format!("{name}{SEPARATOR}{field}")).arg(value);
    }
    if let Err(error) = hset.exec_async(&mut store.commands()).await {
        tracing::debug!(%error, "the progress of the migration was not recorded");
    }
}

/// How a recorded run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It runs, in this step.
    Running(String),
    /// Its process was killed in this step, or cannot reach Redis.
    Silent(String),
    /// It has ended, at this time in milliseconds since 1970.
    Ended(u64),
    /// It has failed at this time, for this reason.
    Failed(u64, String),
}

/// The last run of a migration or an adoption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRun {
    /// The entity type, or `user`; `None` for an adoption.
    pub target: Option<String>,
    /// How it stands.
    pub state: RunState,
    /// When it began, in milliseconds since 1970.
    pub started: u64,
    /// When it has last recorded something, in milliseconds since 1970.
    pub updated: u64,
    /// About the number of keys that the last pass has visited, and of all keys; 0 before the first pass.
    pub keys: (u64, u64),
    /// Counts by name, such as `moved`, `converted`, `passes`, and `left` for values that are damaged.
    pub counts: BTreeMap<String, u64>,
}

/// The permissions that [`recorded_runs`] requires.
pub fn recorded_permissions() -> Permissions {
    Permissions::of_commands(READ_PERMISSIONS)
}

/// The last run of each migration, and of the adoption.
///
/// # Errors
/// Redis failed.
pub async fn recorded_runs(store: &Store) -> Result<Vec<RecordedRun>, StoreError> {
    let mut hgetall = redis::cmd("HGETALL");
    hgetall.arg(store.keys().migration_progress());
    let fields: BTreeMap<String, String> = hgetall.query_async(&mut store.reads()).await?;
    Ok(parse(&fields, now_ms()))
}

fn parse(fields: &BTreeMap<String, String>, now: u64) -> Vec<RecordedRun> {
    let mut runs: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for (field, value) in fields {
        if let Some((run, name)) = field.split_once(SEPARATOR) {
            runs.entry(run).or_default().insert(name, value);
        }
    }
    let runs = runs
        .into_iter()
        .map(|(name, mut fields)| RecordedRun::parse(name, &mut fields, now));
    runs.collect()
}

impl RecordedRun {
    fn parse(name: &str, fields: &mut BTreeMap<&str, &str>, now: u64) -> RecordedRun {
        let number = |value: Option<&str>| value.and_then(|text| text.parse::<u64>().ok());
        let started = number(fields.remove("started")).unwrap_or(0);
        let updated = number(fields.remove("updated")).unwrap_or(0);
        let keys = number(fields.remove("keys")).unwrap_or(0);
        let all = number(fields.remove("all")).unwrap_or(0);
        let (ended, error) = (number(fields.remove("ended")), fields.remove("error"));
        let step = fields.remove("step").unwrap_or_default().to_owned();
        let state = match (ended, error.unwrap_or_default()) {
            (Some(ended), "") => RunState::Ended(ended),
            (Some(ended), error) => RunState::Failed(ended, error.to_owned()),
            (None, _) if now.saturating_sub(updated) > SILENCE_MS => RunState::Silent(step),
            (None, _) => RunState::Running(step),
        };
        let counts = fields.iter();
        let counts =
            counts.filter_map(|(name, count)| Some(((*name).to_owned(), count.parse().ok()?)));
        RecordedRun {
            target: (name != ADOPTION).then(|| name.to_owned()),
            state,
            started,
            updated,
            keys: (keys, all),
            counts: counts.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_parsed_as_they_are_written() {
        let snapshot = Snapshot {
            started: Some(1_000),
            step: "moving".to_owned(),
            keys: 7,
            all: 20,
            counts: vec![("found", 3), ("moved", 2)],
        };
        let written = |name: &str, more: &[(&'static str, &str)]| {
            let more = more
                .iter()
                .map(|(field, value)| (*field, (*value).to_owned()));
            let fields = fields_of(&snapshot).into_iter().chain(more);
            let fields = fields.map(|(field, value)| (format!("{name}/{field}"), value));
            fields.collect::<BTreeMap<String, String>>()
        };
        let mut fields = written("note", &[("ended", ""), ("error", ""), ("left", "")]);
        fields.extend(written("user", &[("ended", "5000"), ("error", "no room")]));
        fields.extend(written(
            "adopt:",
            &[("ended", "6000"), ("passes", "2"), ("left", "1")],
        ));
        let now = now_ms();
        let runs = parse(&fields, now);
        let states: Vec<&RunState> = runs.iter().map(|run| &run.state).collect();
        let failed = RunState::Failed(5_000, "no room".to_owned());
        let running = RunState::Running("moving".to_owned());
        assert_eq!(states, [&RunState::Ended(6_000), &running, &failed]);
        let targets = runs.iter().map(|run| run.target.as_deref());
        assert_eq!(
            targets.collect::<Vec<_>>(),
            [None, Some("note"), Some("user")]
        );
        assert_eq!((runs[1].started, runs[1].keys), (1_000, (7, 20)));
        let counts = |run: &RecordedRun| run.counts.clone().into_iter().collect::<Vec<_>>();
        let named = |counts: &[(&str, u64)]| {
            let counts = counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count));
            counts.collect::<Vec<_>>()
        };
        assert_eq!(counts(&runs[1]), named(&[("found", 3), ("moved", 2)]));
        let expected = named(&[("found", 3), ("left", 1), ("moved", 2), ("passes", 2)]);
        assert_eq!(counts(&runs[0]), expected);
        let later = parse(&fields, now + SILENCE_MS + 5_000);
        assert_eq!(later[1].state, RunState::Silent("moving".to_owned()));
        assert_eq!(later[2].state, failed);
    }
}
