//! The progress of the sweeps: a Hash, so that any process can continue.

use super::sweep::Transposition;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use crate::repair::Sweeps;
use std::collections::{BTreeMap, BTreeSet};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "HGETALL {transposition}",
    "HSET {transposition} f v",
    "HDEL {transposition} f",
];

/// The maximum number of types of entities that are remembered.
const MAX_TYPES: usize = 1_000;
/// The prefix of the fields with cursors.
const CURSOR: &str = "at:";

/// The progress of the sweeps.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub sweeps: Sweeps,
    /// When the last sweep ended, in milliseconds since 1970.
    pub ended_at: Option<u64>,
    /// When all users were compared.
    pub passed_at: Option<u64>,
    /// Which node has which partition, when the sweep began.
    pub nodes: String,
    /// The metrics and types of entities of which facts were found.
    pub types: BTreeSet<(Name, Name)>,
    /// The cursor of each node.
    pub cursors: BTreeMap<String, String>,
}

/// The sweep over the facts of users, as processes have saved it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedTransposition {
    /// The number of the last sweep that has begun.
    pub begun: u64,
    /// The number of the last sweep that has ended.
    pub ended: u64,
    /// When the last sweep ended, in milliseconds since 1970.
    pub ended_at: Option<u64>,
    /// When all users were compared, in milliseconds since 1970.
    pub passed_at: Option<u64>,
}

/// Reads what processes have saved.
///
/// # Errors
/// The store is unavailable.
pub async fn saved_transposition(store: &Store) -> Result<SavedTransposition, StoreError> {
    let state = State::read(store).await?;
    Ok(SavedTransposition {
        begun: state.sweeps.begun,
        ended: state.sweeps.ended,
        ended_at: state.ended_at,
        passed_at: state.passed_at,
    })
}

impl State {
    /// Reads the progress.
    async fn read(store: &Store) -> Result<State, StoreError> {
        let mut hgetall = redis::cmd("HGETALL");
        hgetall.arg(store.keys().transposition());
        let mut fields: BTreeMap<String, String> = hgetall.query_async(&mut store.reads()).await?;
        let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
        let types = fields.get("types").map_or("", String::as_str);
        let types = types.split(' ').filter_map(|of| {
            let (metric, etype) = of.split_once('/')?;
            Some((Name::new(metric).ok()?, Name::new(etype).ok()?))
        });
        Ok(State {
            sweeps: Sweeps {
                begun: number("begun").unwrap_or(0),
                ended: number("ended").unwrap_or(0),
            },
            ended_at: number("ended_at"),
            passed_at: number("passed_at"),
            nodes: fields.get("nodes").cloned().unwrap_or_default(),
            types: types.collect(),
            cursors: {
                fields.retain(|name, _| name.starts_with(CURSOR));
                fields
            },
        })
    }
}

impl Transposition {
    /// Reads the progress.
    pub(super) async fn state(&self) -> Result<State, StoreError> {
        State::read(&self.store).await
    }

    /// Which node has which partition.
    pub(super) fn nodes(&self) -> String {
        let (nodes, keys) = (self.store.node_map(), self.store.keys());
        let nodes = (0..keys.partitions()).map(|partition| nodes.node_of(partition).to_string());
        let nodes: Vec<String> = nodes.collect();
        format!(
            "{:016x}",
            xxhash_rust::xxh3::xxh3_64(nodes.join(" ").as_bytes())
        )
    }

    /// Begins a sweep unless one is running. A running one begins again if keys have moved to other nodes.
    pub(super) async fn begin(&self) -> Result<State, StoreError> {
        let mut state = self.state().await?;
        let is_running = state.sweeps.begun > state.sweeps.ended;
        if !is_running {
            state.sweeps.begun = state.sweeps.ended + 1;
        }
        if !is_running || state.nodes != self.nodes() {
            self.restart(state.sweeps.begun).await?;
            state = self.state().await?;
        }
        Ok(state)
    }

    /// Begins a sweep again.
    pub(super) async fn restart(&self, sweep: u64) -> Result<(), StoreError> {
        let cursors = self.state().await?.cursors;
        let key = self.store.keys().transposition();
        // Not a transaction, which the connection to a cluster does not support. The cursors are deleted first: without the second command
        // the sweep begins again.
        let mut pipeline = redis::pipe();
        if !cursors.is_empty() {
            let hdel = pipeline.cmd("HDEL").arg(key);
            cursors.keys().for_each(|field| _ = hdel.arg(field));
        }
        let hset = pipeline.cmd("HSET").arg(key).arg("begun").arg(sweep);
        hset.arg("nodes").arg(self.nodes());
        Ok(pipeline.exec_async(&mut self.store.commands()).await?)
    }

    /// Records the end of a sweep.
    pub(super) async fn end(&self, sweep: u64) -> Result<(), StoreError> {
        self.save(&[
            ("ended", sweep.to_string()),
            ("ended_at", now_ms().to_string()),
        ])
        .await
    }

    /// Records that all users were compared.
    pub(super) async fn end_pass(&self) -> Result<(), StoreError> {
        self.save(&[("passed_at", now_ms().to_string())]).await
    }

    /// The field with the cursor of the node whose lowest partition this is.
    pub(super) fn cursor_field(lowest: Partition) -> String {
        format!("{CURSOR}{lowest}")
    }

    /// Saves the cursor of a node, and the types of entities of which facts were found.
    pub(super) async fn save_cursor(
        &self,
        lowest: Partition,
        cursor: String,
        types: &BTreeSet<(Name, Name)>,
    ) -> Result<(), StoreError> {
        let types = types.iter().take(MAX_TYPES);
        let types: Vec<String> = types
            .map(|(metric, etype)| format!("{metric}/{etype}"))
            .collect();
        let field = Transposition::cursor_field(lowest);
        self.save(&[(&field, cursor), ("types", types.join(" "))])
            .await
    }

    async fn save(&self, fields: &[(&str, String)]) -> Result<(), StoreError> {
        let mut hset = redis::cmd("HSET");
        hset.arg(self.store.keys().transposition());
        for (field, value) in fields {
            hset.arg(field).arg(value);
        }
        Ok(hset.exec_async(&mut self.store.commands()).await?)
    }
}
