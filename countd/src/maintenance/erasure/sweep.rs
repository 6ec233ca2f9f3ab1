//! Scans all keys, and selects the keys of a user or an entity by their names.

use super::context::Erasure;
use crate::domain::config::USER;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::KeyName;
use crate::domain::split::base_of;
use crate::maintenance::jobs::{Lease, Target};
use crate::redis::call::RedisCall;
use crate::redis::day_states::day_metrics;
use crate::redis::run_id::run_id;
use crate::redis::script::{AUTHOR, ScriptTemplate};
use redis::FromRedisValue;
use redis::aio::ConnectionManager;
use std::collections::BTreeSet;

/// Finds the entities of an author.
pub(super) static AUTHORED_BY: ScriptTemplate =
    ScriptTemplate::reading(&[AUTHOR, include_str!("../../lua/authored_by.lua")]);

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "SCAN 0",
    "UNLINK {dedup}",
    "UNLINK {limit}",
    "UNLINK {reverse}",
    "UNLINK {latest}",
];

/// The number of keys that a server looks at for one reply.
const KEYS: usize = 1_000;
/// The number of registered authors that a script reads.
const AUTHORS: usize = 500;
/// The keys that may concern a user begin with these letters. Objects with counters (`cnt:`) do not match.
const USER_PATTERN: &str = "[abcrswx][^n]*";
/// The cursor of a server whose keys were all visited.
const DONE: &str = "done";

impl Erasure {
    /// Visits all keys of all servers. Continues where an earlier attempt ended, unless a server was restarted: its cursors are then
    /// invalid.
    pub(super) async fn sweep(&self, lease: &mut Lease) -> Result<(), Problem> {
        let pattern = match &lease.job.target {
            Target::User(_) => USER_PATTERN.to_owned(),
            Target::Entity(Entity { etype, eid }) => format!("act:dedup:{etype}:{eid}:*"),
        };
        let day_metrics = day_metrics(&self.store, &self.catalog.config).await?;
        let sweep = (pattern.as_str(), &day_metrics);
        // A server that was restarted or replaced meanwhile has another run ID, and is visited again.
        loop {
            let mut is_complete = true;
            for mut server in self.store.servers()? {
                let run_id = run_id(&mut server).await?;
                is_complete &= self.sweep_server(lease, server, run_id, sweep).await?;
            }
            if is_complete {
                break;
            }
        }
        lease.job.progress.scan.clear();
        lease.save().await
    }

    /// Visits the keys of a server. Returns whether they had been visited before.
    async fn sweep_server(
        &self,
        lease: &mut Lease,
        mut server: ConnectionManager,
        run: String,
        (pattern, day_metrics): (&str, &BTreeSet<Name>),
    ) -> Result<bool, Problem> {
        let stored = lease.job.progress.scan.get(&run).cloned();
        if stored.as_deref() == Some(DONE) {
            return Ok(true);
        }
        let mut cursor: u64 = stored.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(pattern);
            scan.arg("COUNT").arg(KEYS);
            let (next, page): (u64, Vec<Vec<u8>>) = scan.query_async(&mut server).await?;
            self.visit(lease, page, day_metrics).await?;
            cursor = next;
            let (run, value) = (run.clone(), cursor.to_string());
            if cursor == 0 {
                break;
            }
            lease.job.progress.scan.insert(run, value);
            lease.keep_alive().await?;
        }
        if run_id(&mut server).await? == run {
            lease.job.progress.scan.insert(run, DONE.to_owned());
        } else {
            lease.job.progress.scan.remove(&run);
        }
        lease.save().await?;
        Ok(false)
    }

    async fn visit(
        &self,
        lease: &mut Lease,
        page: Vec<Vec<u8>>,
        day_metrics: &BTreeSet<Name>,
    ) -> Result<(), Problem> {
        let keys = self.store.keys();
        let target = lease.job.target.clone();
        let (mut facts, mut unlinked) = (BTreeSet::new(), Vec::new());
        let (mut timelines, mut latest) = (Vec::new(), Vec::new());
        let mut reports = Vec::new();
        for key in page {
            if let (Target::User(uid), true) = (&target, self.is_read_stream(day_metrics, &key)) {
                self.remove_from_stream(lease, uid, &key).await?;
                continue;
            }
            match (KeyName::parse(&keys, &key), &target) {
                (Some(KeyName::Facts { metric, entity }), Target::User(_)) => {
                    facts.insert((metric, entity));
                }
                (Some(KeyName::Authors { etype, is_table }), Target::User(uid)) => {
                    self.remove_author(lease, uid, (&key, &etype, is_table))
                        .await?;
                }
                (Some(KeyName::Dedup { entity, uid }), Target::User(erased)) => {
                    let is_user = entity.etype.as_str() == USER && entity.eid == *erased;
                    if uid == *erased || is_user {
                        unlinked.push(key);
                    }
                }
                (Some(KeyName::Limit(uid)), Target::User(erased)) if uid == *erased => {
                    unlinked.push(key);
                }
                // In the first pass, timelines follow the facts.
                (Some(KeyName::Reverse(uid)), Target::User(erased))
                    if uid == *erased && lease.job.progress.pass > 1 =>
                {
                    timelines.push(key);
                }
                (Some(KeyName::Latest { entity, is_table }), Target::User(erased))
                    if lease.job.progress.pass > 1 =>
                {
                    if entity.etype.as_str() == USER && entity.eid == *erased {
                        timelines.push(key);
                    } else {
                        latest.push((key, is_table));
                    }
                }
                (Some(KeyName::Report), Target::User(_)) => reports.push(key),
                (Some(KeyName::Dedup { entity, .. }), Target::Entity(erased))
                    if *base_of(&entity) == *erased =>
                {
                    unlinked.push(key);
                }
                _ => {}
            }
        }
        if let Target::User(uid) = &target {
            self.remove_facts_by(lease, uid, &facts).await?;
            self.remove_latest_user(lease, uid, &latest).await?;
            self.remove_from_reports(lease, uid, &reports).await?;
        }
        // A timeline that exists now may be that of a fact which the user added after the sweep had passed it. Another pass removes it.
        let deleted = self.unlink(lease, &timelines).await?;
        // An adoption moves members to keys that the sweep may have passed.
        lease.job.progress.is_dirty |= deleted > 0 || self.store.backend().is_mixed();
        self.unlink(lease, &unlinked).await?;
        Ok(())
    }

    /// The keys of the latest users of an entity.
    pub(super) fn latest_keys(&self, entity: &Entity) -> Vec<String> {
        let layout = self.store.keys();
        let mut keys = Vec::new();
        for (name, metric) in self.catalog.config.metrics.iter() {
            if metric.applies_to(&entity.etype) && metric.fact_kind().is_some() {
                let latest = layout.latest_users(name, entity);
                keys.extend(latest.all().map(str::to_owned));
            }
        }
        keys
    }

    /// Deletes keys. Returns how many existed.
    async fn unlink(&self, lease: &mut Lease, keys: &[Vec<u8>]) -> Result<u64, Problem> {
        if keys.is_empty() {
            return Ok(0);
        }
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd("UNLINK").arg(key);
        }
        let deleted: Vec<u64> = pipeline.query_async(&mut self.store.commands()).await?;
        let deleted = deleted.iter().sum();
        lease.job.progress.keys += deleted;
        Ok(deleted)
    }

    /// Unregisters a user as the author of the entities of a table or a Hash.
    async fn remove_author(
        &self,
        lease: &mut Lease,
        uid: &Id,
        (key, etype, is_table): (&[u8], &Name, bool),
    ) -> Result<(), Problem> {
        let unexpected = |error: String| StoreError::Unexpected(error);
        let text = std::str::from_utf8(key).map_err(|error| unexpected(error.to_string()))?;
        let kind = if is_table { "table" } else { "hash" };
        let mut cursor = "0".to_owned();
        loop {
            let mut call = RedisCall::script(AUTHORED_BY.on(self.store.backend()), &[text]);
            call.cmd
                .arg(kind)
                .arg(&cursor)
                .arg(AUTHORS)
                .arg(uid.as_str());
            let reply = match call.send_read(&self.store).await.map_err(StoreError::from) {
                Err(StoreError::WrongType(_)) => {
                    lease.job.progress.damaged += 1;
                    tracing::warn!(key = text, "the authors cannot be read");
                    return Ok(());
                }
                reply => reply?,
            };
            let (next, found) = <(String, Vec<String>)>::from_redis_value(reply)
                .map_err(|error| unexpected(error.to_string()))?;
            self.store.check_layout()?;
            for eid in found {
                let entity = Entity {
                    etype: etype.clone(),
                    eid: Id::stored(eid).map_err(|error| unexpected(error.to_string()))?,
                };
                // The shards of a split entity have the author of the base. What a merge has left of one is changed alone.
                let entity = match self.store.layout().is_former_shard(etype, &entity.eid) {
                    true => entity,
                    false => base_of(&entity).into_owned(),
                };
                let change = self.authors.put(&entity, None).await?;
                lease.job.progress.authors += u64::from(change.changed);
                lease.job.progress.is_dirty |= change.changed;
            }
            lease.keep_alive().await?;
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}
