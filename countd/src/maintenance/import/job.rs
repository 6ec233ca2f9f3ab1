//! The stored state of an import.

use super::error::ImportError;
use super::retry::retry;
use super::source::{FilePosition, Resume};
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::redis::permissions::Permissions;
use crate::redis::run_id::{self, run_ids};
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Writes the state if no other run has started.
static SAVE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/import_job.lua")));

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &[
    "HGETALL {import}",
    "HSETNX {import} f v",
    "HSET {import} f v",
    "UNLINK {import}",
    "HSET {import_state} 0 1",
    "UNLINK {import_state}",
    "UNLINK {ids}",
    "UNLINK {import_names}",
];

/// The number of keys that a pipeline writes or deletes.
const KEYS_AT_ONCE: usize = 1_000;
/// The sequence number of a finished import: 2^53 - 1, the greatest integer that scripts represent exactly.
const FINISHED: u64 = (1 << 53) - 1;
/// The value of `state` when everything was applied.
const APPLIED: &str = "applied";

/// The permissions that the state of imports requires.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
        .and(Permissions::of_commands(run_id::PERMISSIONS))
        .and(SAVE.required_permissions())
}

/// The stored state of an import, and the right of this run to change it.
pub struct Job {
    store: Store,
    name: Name,
    token: String,
    /// The state when this run started, and as it was saved since.
    pub state: JobState,
}

/// The stored state of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobState {
    /// Everything was applied.
    pub is_applied: bool,
    /// Where a file continues.
    pub file: Resume,
    /// The cursor of a live source.
    pub cursor: Option<String>,
    /// The number of records that were applied or skipped before.
    pub records: u64,
    /// The number of invalid records among them.
    pub skipped: u64,
    /// The run IDs of the servers to which the records before were applied.
    servers: String,
    /// The scopes of the ids of a live source.
    scopes: Vec<String>,
}

impl JobState {
    fn parse(fields: &HashMap<String, String>) -> JobState {
        let number = |name: &str| -> u64 {
            let value = fields.get(name).and_then(|value| value.parse().ok());
            value.unwrap_or(0)
        };
        let text = |name: &str| fields.get(name).cloned().unwrap_or_default();
        JobState {
            is_applied: text("state") == APPLIED,
            file: Resume {
                number: number("number"),
                offset: number("offset"),
                line: number("line"),
                sent: number("sent"),
                hash: text("hash"),
            },
            cursor: fields.get("cursor").filter(|c| !c.is_empty()).cloned(),
            servers: text("servers"),
            records: number("records"),
            skipped: number("skipped"),
            scopes: text("scopes")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }
    }
}

/// What an import must have in common with an earlier run of the same name.
pub struct Fixed {
    /// The options that determine what is imported.
    pub options: String,
    /// The size of the file.
    pub size: Option<u64>,
    /// The scopes of the ids of a live source.
    pub scopes: Vec<String>,
}

impl Job {
    /// Starts a run: the first one, or one that continues.
    ///
    /// # Errors
    /// An earlier run had other options or a file of another size, or Redis failed.
    pub async fn start(store: &Store, name: &Name, fixed: &Fixed) -> Result<Job, ImportError> {
        let key = store.keys().import_job(name);
        let token = format!("{:016x}{:08x}", fastrand::u64(..), std::process::id());
        let size = fixed
            .size
            .map_or("live".to_owned(), |size| size.to_string());
        let scopes = fixed.scopes.join(" ");
        let mut start = redis::pipe();
        for (field, value) in [
            ("options", &fixed.options),
            ("size", &size),
            ("scopes", &scopes),
        ] {
            let set = start.cmd("HSETNX").arg(&key).arg(field);
            set.arg(value).ignore();
        }
        start.cmd("HGETALL").arg(&key);
        let (fields,): (HashMap<String, String>,) =
            start.query_async(&mut store.commands()).await?;
        let stored = |field: &str| fields.get(field).map_or("", String::as_str);
        if stored("options") != fixed.options {
            return Err(ImportError::Refused(format!(
                "import {name} was started with other options ({}): use another name, or `countd import forget {name}`",
                stored("options")
            )));
        }
        if stored("size") != size {
            return Err(ImportError::Refused(format!(
                "import {name} was started with a file of {} bytes, and the file has {size}: it has changed",
                stored("size")
            )));
        }
        redis::cmd("HSET")
            .arg(&key)
            .arg(&["token", &token])
            .exec_async(&mut store.commands())
            .await?;
        let mut job = Job {
            store: store.clone(),
            name: name.clone(),
            token,
            state: JobState::parse(&fields),
        };
        job.restart_after_loss().await?;
        Ok(job)
    }

    /// Continues at the start of the source if a server was restarted or replaced since the records were applied: it may have lost
    /// the last of them. What it still has is not applied again. Returns whether that is so.
    ///
    /// # Errors
    /// Another run has started, or Redis failed.
    pub async fn restart_after_loss(&mut self) -> Result<bool, ImportError> {
        let servers = retry(ignore, async || Ok(run_ids(&self.store).await?)).await?;
        let servers = servers.join(",");
        let is_lost = !self.state.servers.is_empty() && self.state.servers != servers;
        if self.state.is_applied || self.state.servers == servers {
            return Ok(false);
        }
        let mut state = JobState {
            servers,
            ..self.state.clone()
        };
        if is_lost {
            let Resume { sent, hash, .. } = state.file;
            state.file = Resume {
                sent,
                hash,
                ..Resume::default()
            };
            (state.cursor, state.records, state.skipped) = (None, 0, 0);
        }
        self.save(state).await?;
        Ok(is_lost)
    }

    /// Records that a part of the file is about to be sent. Everything before it was applied.
    ///
    /// # Errors
    /// Another run has started, or Redis failed.
    pub async fn before(
        &mut self,
        part: &FilePosition,
        records: u64,
        skipped: u64,
    ) -> Result<(), ImportError> {
        // After a restart, more than this part was sent before.
        let (sent, hash) = match &self.state.file {
            file if file.sent > part.end => (file.sent, &file.hash),
            _ => (part.end, &part.hash),
        };
        let state = JobState {
            is_applied: false,
            file: Resume {
                number: part.number.saturating_sub(1),
                offset: part.start,
                line: part.lines_before,
                sent,
                hash: hash.clone(),
            },
            records,
            skipped,
            ..self.state.clone()
        };
        self.save(state).await
    }

    /// Records that everything before a cursor of a live source was applied.
    ///
    /// # Errors
    /// Another run has started, or Redis failed.
    pub async fn after(
        &mut self,
        cursor: String,
        records: u64,
        skipped: u64,
    ) -> Result<(), ImportError> {
        let state = JobState {
            is_applied: false,
            cursor: Some(cursor),
            records,
            skipped,
            ..self.state.clone()
        };
        self.save(state).await
    }

    /// Records that everything was applied, and deletes the ids of a live source.
    ///
    /// # Errors
    /// Another run has started, or Redis failed.
    pub async fn finish(&mut self, records: u64, skipped: u64) -> Result<(), ImportError> {
        let (store, keys) = (self.store.clone(), self.store.keys());
        // First, so that a delayed call of this or an earlier run applies nothing without the ids.
        let partitions: Vec<Partition> = (0..keys.partitions()).collect();
        for some in partitions.chunks(KEYS_AT_ONCE) {
            let mut close = redis::pipe();
            for partition in some {
                let key = keys.import_state(&self.name, *partition);
                let set = close.cmd("HSET").arg(key);
                set.arg(*partition).arg(FINISHED).ignore();
            }
            retry(ignore, async || {
                Ok(close.exec_async(&mut store.commands()).await?)
            })
            .await?;
        }
        let state = JobState {
            is_applied: true,
            records,
            skipped,
            ..self.state.clone()
        };
        self.save(state).await?;
        delete(&store, ids(&store, &self.name, &self.state.scopes)).await
    }

    async fn save(&mut self, state: JobState) -> Result<(), ImportError> {
        let key = self.store.keys().import_job(&self.name);
        let mut save = SAVE.script.key(key);
        save.arg(&self.token);
        for (field, value) in [
            ("number", state.file.number),
            ("offset", state.file.offset),
            ("line", state.file.line),
            ("sent", state.file.sent),
            ("records", state.records),
            ("skipped", state.skipped),
        ] {
            save.arg(field).arg(value);
        }
        save.arg("hash").arg(&state.file.hash);
        save.arg("servers").arg(&state.servers);
        save.arg("cursor")
            .arg(state.cursor.as_deref().unwrap_or_default());
        if state.is_applied {
            save.arg("state").arg(APPLIED);
        }
        let is_saved: bool = retry(ignore, async || {
            Ok(save.invoke_async(&mut self.store.commands()).await?)
        })
        .await?;
        if !is_saved {
            return Err(ImportError::Superseded);
        }
        self.state = state;
        Ok(())
    }
}

/// The progress already says that Redis is unavailable.
fn ignore(_: &str) {}

/// Deletes the state of an import, so that its name can be used again. Returns false if there was none.
///
/// # Errors
/// Redis failed.
pub async fn forget(store: &Store, name: &Name) -> Result<bool, ImportError> {
    let key = store.keys().import_job(name);
    let fields: HashMap<String, String> = redis::cmd("HGETALL")
        .arg(&key)
        .query_async(&mut store.commands())
        .await?;
    let scopes = JobState::parse(&fields).scopes;
    let partitions = 0..store.keys().partitions();
    let states = partitions.map(|partition| store.keys().import_state(name, partition));
    // The state of the import last: a later call deletes what is left.
    let mut all = ids(store, name, &scopes);
    all.extend(states);
    delete(store, all).await?;
    delete(store, vec![key]).await?;
    Ok(!fields.is_empty())
}

/// The keys with the ids of a live source.
fn ids(store: &Store, name: &Name, scopes: &[String]) -> Vec<String> {
    let keys = store.keys();
    let of_scope = |scope: &String| {
        let scope = scope.clone();
        (0..keys.partitions()).flat_map(move |partition| {
            [
                keys.import_ids(name, &scope, partition),
                keys.import_names(name, &scope, partition),
            ]
        })
    };
    scopes.iter().flat_map(of_scope).collect()
}

/// Deletes keys.
async fn delete(store: &Store, mut keys: Vec<String>) -> Result<(), ImportError> {
    keys.sort_unstable();
    keys.dedup();
    for some in keys.chunks(KEYS_AT_ONCE) {
        let mut delete = redis::pipe();
        for key in some {
            delete.cmd("UNLINK").arg(key).ignore();
        }
        retry(ignore, async || {
            Ok(delete.exec_async(&mut store.commands()).await?)
        })
        .await?;
    }
    Ok(())
}
