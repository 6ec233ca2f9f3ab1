//! Visits the registered authors of all entities.

use super::sweep::SumSweep;
use crate::domain::config::USER;
use crate::domain::error::StoreError;
use crate::domain::ids::Name;
use crate::domain::keys::{KeyName, Partition};
use crate::maintenance::visits::{Observer, Visits, hash_sizes, table_sizes};
use crate::redis::author::author_keys;
use crate::redis::call::RedisCall;
use crate::redis::layout::Authors;
use crate::redis::script::{AUTHOR, SUMS_STATE, ScriptTemplate};
use crate::storage::schema::Schema;
use redis::{Cmd, FromRedisValue};
use std::collections::BTreeSet;
use tokio::sync::watch;

pub(super) static COLOUR: ScriptTemplate = ScriptTemplate::writing(&[
    AUTHOR,
    SUMS_STATE,
    include_str!("../../lua/credits.lua"),
    include_str!("../../lua/sections.lua"),
    include_str!("../../lua/sums.lua"),
    include_str!("../../lua/colour.lua"),
]);

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1"];

/// The number of registrations that a script visits.
const PAGE: usize = 100;
/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;

impl SumSweep {
    /// Visits all registered authors. Returns false if a slot does not colour entities now.
    pub(super) async fn visit_all(
        &self,
        sweep: u64,
        users: &Schema,
        stop: &watch::Receiver<bool>,
        observer: Observer<'_>,
    ) -> Result<bool, StoreError> {
        let columns = self.column_arguments(users);
        let kinds = self.author_kinds();
        let types = self.types_with_authors().await?;
        let step = ("visiting authors", "authors");
        let mut visits = Visits::begin(observer, step, self.author_sizes(&types)).await?;
        for etype in &types {
            for partition in 0..self.store.keys().partitions() {
                for kind in kinds {
                    let of = ((etype, partition), *kind);
                    if *stop.borrow() || !self.visit(sweep, of, &columns, &mut visits).await? {
                        return Ok(false);
                    }
                    visits.end_part();
                }
            }
        }
        Ok(true)
    }

    /// Where authors are registered.
    fn author_kinds(&self) -> &'static [&'static str] {
        match self.store.backend().has_tables() {
            true => &["table", "hash"],
            false => &["hash"],
        }
    }

    /// The number of registered authors at each key, in the order in which they are visited.
    async fn author_sizes(&self, types: &BTreeSet<Name>) -> Result<Vec<u64>, StoreError> {
        let keys = self.store.keys();
        let places = types
            .iter()
            .flat_map(|etype| (0..keys.partitions()).map(move |of| (etype, of)));
        let places: Vec<(&Name, Partition)> = places.collect();
        let hashes = places
            .iter()
            .map(|(etype, of)| keys.author_hash(etype, *of));
        let hashes = hash_sizes(&self.store, &hashes.collect::<Vec<_>>()).await?;
        if !self.store.backend().has_tables() {
            return Ok(hashes);
        }
        let tables = places
            .iter()
            .map(|(etype, of)| keys.author_table(etype, *of));
        let tables = table_sizes(&self.store, &tables.collect::<Vec<_>>()).await?;
        let sizes = tables.into_iter().zip(hashes);
        Ok(sizes.flat_map(|(table, hash)| [table, hash]).collect())
    }

    async fn visit(
        &self,
        sweep: u64,
        ((etype, partition), kind): ((&Name, Partition), &str),
        columns: &[String],
        visits: &mut Visits<'_>,
    ) -> Result<bool, StoreError> {
        let layout = self.store.keys();
        let mut keys = vec![layout.sums_state(partition)];
        if layout.tagged() {
            keys.extend([layout.sum_table(partition), layout.sum_hash(partition)]);
        }
        keys.extend(author_keys(layout, etype, partition));
        keys.push(layout.outbox(partition));
        let mut cursor = "0".to_owned();
        loop {
            let mut call = RedisCall::script(COLOUR.on(self.store.backend()), &keys);
            call.cmd.arg(if layout.tagged() { 2 } else { 1 });
            call.cmd.arg(columns).arg(0);
            call.cmd.arg(sweep).arg(kind).arg(&cursor).arg(PAGE);
            let reply = call.send(&self.store).await?;
            let page = Option::<(String, u64)>::from_redis_value(reply)
                .map_err(|error| StoreError::Unexpected(format!("a page of authors: {error}")))?;
            let Some((next, coloured)) = page else {
                return Ok(false);
            };
            metrics::counter!("countd_authors_visited_total").increment(coloured);
            visits.add(PAGE as u64, coloured);
            if next == "0" {
                return Ok(true);
            }
            self.pace(PAGE).await;
            cursor = next;
        }
    }

    /// The arguments of sums.lua from the number of counters to the columns.
    fn column_arguments(&self, users: &Schema) -> Vec<String> {
        let layout = self.store.layout();
        let Authors::Registry { feeds } = &layout.authors else {
            return Vec::new();
        };
        let mut columns = Vec::new();
        for (column, feed) in feeds.iter().enumerate() {
            let counter = self.config.metrics.author_counter(feed);
            let index = counter.and_then(|counter| users.index_of(counter.as_str()));
            if let (Some(counter), Some(index)) = (counter, index) {
                // Lua counts from 1.
                columns.extend([
                    (column + 1).to_string(),
                    index.to_string(),
                    counter.to_string(),
                ]);
            }
        }
        let mut arguments = vec![users.len().to_string(), (columns.len() / 3).to_string()];
        arguments.append(&mut columns);
        arguments
    }

    /// The types of the entities with registered authors: the configured ones, and those that were configured before.
    async fn types_with_authors(&self) -> Result<BTreeSet<Name>, StoreError> {
        let configured = self.config.entities.keys().cloned();
        let mut types: BTreeSet<Name> = configured.filter(|etype| etype.as_str() != USER).collect();
        let keys = self.store.keys();
        for mut server in self.store.servers()? {
            let mut cursor = 0_u64;
            loop {
                let mut scan: Cmd = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg("aut[:h]*");
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(&mut server).await?;
                for key in found {
                    if let Some(KeyName::Authors { etype, .. }) = KeyName::parse(&keys, &key) {
                        types.insert(etype);
                    }
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
                self.pace(SCAN_COUNT / 10).await;
            }
        }
        Ok(types)
    }
}
