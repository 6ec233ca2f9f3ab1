//! Removes entries of streams that name an entity or a user: counted entries of logs, dead letters, and entries of the audit.

use super::context::Erasure;
use super::names::{has_id, names, without_id};
use super::redact::{Redaction, redact, redact_entity};
use super::redact_audit::redact_audit;
use crate::domain::changes::ChangedEntities;
use crate::domain::config::USER;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::log::EntryKind;
use crate::log::dead_letters::{DeadLetters, StoredDeadLetter};
use crate::log::inspect::inspect;
use crate::maintenance::jobs::{Lease, Target};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::repair::retry;
use redis::FromRedisValue;
use std::sync::LazyLock;

/// Replaces or deletes an entry.
pub(super) static REDACT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/stream_redact.lua")));

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "XRANGE {log} - +",
    "XDEL {log} 0-1",
    "XRANGE {dead} - +",
    "XREVRANGE {dead} + - COUNT 1",
    "XDEL {dead} 0-1",
    "XRANGE {audit} - +",
];
/// Commands on streams of changes, which may exist although announcements are disabled.
const CHANGES_PERMISSIONS: &[&str] = &["XRANGE {changes} - +", "XDEL {changes} 0-1"];

/// The permissions to remove announcements.
pub fn changes_permissions() -> Permissions {
    Permissions::of_commands(CHANGES_PERMISSIONS)
}

/// The number of entries that are read at once.
const PAGE: usize = 200;
/// The number of logs that are read at once.
const LOGS: usize = 32;

/// Entries of a stream: ID, fields and values.
type Page = Vec<(String, Vec<Vec<u8>>)>;

fn unexpected(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unexpected(error.to_string())
}

impl Erasure {
    /// Deletes the counted entries of these logs that name the target. Returns why that is not possible now, if it is not.
    pub(super) async fn remove_entries(
        &self,
        lease: &mut Lease,
        partitions: &[Partition],
    ) -> Result<Option<String>, Problem> {
        for some in partitions.chunks(LOGS) {
            let inspection = inspect(&self.store, some).await;
            if let Some(error) = inspection.error {
                return Err(error.into());
            }
            // Each log, the next entry to read, and the last counted entry.
            let states = inspection.states.into_iter();
            let mut pending: Vec<(Partition, String, u64)> = states
                .filter_map(|(partition, state)| {
                    let counted = state.position.ok()?.checked_sub(1)?;
                    (state.end.is_ok() && counted > 0).then(|| (partition, "-".to_owned(), counted))
                })
                .collect();
            self.wait_until_archived(lease, &pending).await?;
            if let Some(reason) = self.held(lease, &pending).await? {
                return Ok(Some(reason));
            }
            while !pending.is_empty() {
                lease.keep_alive().await?;
                pending = self.remove_page(lease, pending).await?;
            }
        }
        Ok(None)
    }

    /// Reads a page of each log and deletes its entries that name the target. Returns the logs that have more.
    async fn remove_page(
        &self,
        lease: &mut Lease,
        pending: Vec<(Partition, String, u64)>,
    ) -> Result<Vec<(Partition, String, u64)>, Problem> {
        let keys = self.store.keys();
        let mut pipeline = redis::pipe();
        for (partition, from, counted) in &pending {
            let read = pipeline.cmd("XRANGE").arg(keys.log(*partition));
            read.arg(from).arg(format!("0-{counted}"));
            read.arg("COUNT").arg(PAGE);
        }
        let pages: Vec<Page> = pipeline.query_async(&mut self.store.reads()).await?;
        let (mut delete, mut more) = (redis::pipe(), Vec::new());
        let mut has_any = false;
        for ((partition, _, counted), page) in pending.into_iter().zip(pages) {
            let target = &lease.job.target;
            let named = page.iter().filter(|(_, fields)| {
                let mut values = fields.iter().skip(1).step_by(2);
                values.any(|value| names(target, value))
            });
            let ids: Vec<&String> = named.map(|(id, _)| id).collect();
            if !ids.is_empty() {
                has_any = true;
                delete.cmd("XDEL").arg(keys.log(partition)).arg(ids);
            }
            if let Some((last, _)) = page.last().filter(|_| page.len() == PAGE) {
                more.push((partition, format!("({last}"), counted));
            }
        }
        if has_any {
            let deleted: Vec<u64> = delete.query_async(&mut self.store.commands()).await?;
            lease.job.progress.entries += deleted.iter().sum::<u64>();
        }
        Ok(more)
    }

    /// Counts the dead letters that name the target again: they may be countable now.
    pub(super) async fn retry_dead_letters(&self, lease: &mut Lease) -> Result<(), Problem> {
        let mut all = DeadLetters::new(self.store.clone());
        while let Some(dead_letter) = all.next().await? {
            lease.keep_alive().await?;
            if names(&lease.job.target, dead_letter.payload.as_bytes()) {
                retry(&self.store, &self.catalog.config, &dead_letter).await?;
            }
        }
        Ok(())
    }

    /// Deletes the dead letters that name the target. Increments for other users are kept.
    pub(super) async fn remove_dead_letters(&self, lease: &mut Lease) -> Result<(), Problem> {
        let mut all = DeadLetters::new(self.store.clone());
        while let Some(dead_letter) = all.next().await? {
            lease.keep_alive().await?;
            let kind = EntryKind::of(dead_letter.kind.as_bytes());
            let payload = dead_letter.payload.as_bytes();
            let remainder = match &lease.job.target {
                target if !is_named(target, &dead_letter) => continue,
                // It takes credit back from the former author.
                Target::Entity(_) if kind == EntryKind::Author => continue,
                Target::Entity(entity) => redact_entity(payload, entity),
                Target::User(uid) => redact(kind, payload, uid.as_str()),
            };
            let reason = redacted(&lease.job.target, &dead_letter.reason);
            if remainder.keeps(payload) && reason == dead_letter.reason {
                continue;
            }
            let stream = self.store.keys().dead(dead_letter.partition);
            let mut call = RedisCall::script(&REDACT, &[&stream]);
            call.cmd.arg(&dead_letter.id);
            if let Redaction::Replace(payload) = remainder {
                let bytes = payload.len();
                call.cmd.arg("reason").arg(reason);
                call.cmd.arg("kind").arg(&dead_letter.kind);
                call.cmd.arg("payload").arg(payload);
                call.cmd.arg("partition").arg(dead_letter.partition);
                call.cmd.arg("offset").arg(dead_letter.offset);
                call.cmd.arg("bytes").arg(bytes);
                call.cmd.arg("ts").arg(dead_letter.ts);
            }
            let reply = call.send(&self.store).await?;
            let removed = u64::from_redis_value(reply).map_err(unexpected)?;
            lease.job.progress.entries += removed;
            metrics::counter!("countd_dead_letters_erased_total").increment(removed);
        }
        Ok(())
    }

    /// Deletes the announcements of changes that name a user. A reader that has not read them yet notices that it has missed some.
    pub(super) async fn remove_announcements(
        &self,
        lease: &mut Lease,
        uid: &Id,
    ) -> Result<(), Problem> {
        // The stream stays when announcements are disabled.
        for stream in self.store.keys().all_changes() {
            let mut from = "-".to_owned();
            loop {
                lease.keep_alive().await?;
                let mut read = redis::cmd("XRANGE");
                read.arg(&stream).arg(&[&from, "+", "COUNT"]).arg(PAGE);
                let page: Page = read.query_async(&mut self.store.reads()).await?;
                let Some((last, _)) = page.last() else {
                    break;
                };
                from = format!("({last}");
                let named = page.iter().filter(|(_, fields)| announces(fields, uid));
                let ids: Vec<&String> = named.map(|(id, _)| id).collect();
                if !ids.is_empty() {
                    let mut delete = redis::cmd("XDEL");
                    delete.arg(&stream).arg(ids);
                    let deleted: u64 = delete.query_async(&mut self.store.commands()).await?;
                    lease.job.progress.entries += deleted;
                }
            }
        }
        Ok(())
    }

    /// Replaces a user in the audit.
    pub(super) async fn redact_audits(&self, lease: &mut Lease, uid: &Id) -> Result<(), Problem> {
        for audit in self.store.keys().all_audits() {
            let mut from = "-".to_owned();
            loop {
                lease.keep_alive().await?;
                let mut read = redis::cmd("XRANGE");
                read.arg(&audit).arg(&[&from, "+", "COUNT"]).arg(PAGE);
                let page: Page = read.query_async(&mut self.store.reads()).await?;
                let Some((last, _)) = page.last() else {
                    break;
                };
                from = format!("({last}");
                for (id, fields) in &page {
                    let text = |field: &Vec<u8>| String::from_utf8_lossy(field).into_owned();
                    let fields: Vec<String> = fields.iter().map(text).collect();
                    let redacted = redact_audit(&fields, uid.as_str());
                    if redacted == fields {
                        continue;
                    }
                    let mut call = RedisCall::script(&REDACT, &[&audit]);
                    call.cmd.arg(id).arg(redacted);
                    let reply = call.send(&self.store).await?;
                    let removed = u64::from_redis_value(reply).map_err(unexpected)?;
                    lease.job.progress.entries += removed;
                }
            }
        }
        Ok(())
    }
}

/// Whether an entry of a stream of changes announces a user. IDs of entities can be the same number.
fn announces(fields: &[Vec<u8>], uid: &Id) -> bool {
    let mut contents = fields.iter().skip(1).step_by(2);
    contents.any(|content| {
        let content = String::from_utf8_lossy(content);
        let mut changed = ChangedEntities::default();
        if !has_id(&content, uid.as_str()) {
            return false;
        }
        let is_malformed = changed.add_content(&content).is_err();
        let mut types = changed.types();
        is_malformed || types.any(|(etype, ids)| etype.as_str() == USER && ids.contains(uid))
    })
}

/// Whether a dead letter names the target in its payload or its reason.
fn is_named(target: &Target, dead_letter: &StoredDeadLetter) -> bool {
    let payload = dead_letter.payload.as_bytes();
    let reason = dead_letter.reason.as_bytes();
    names(target, payload) || matches!(target, Target::User(_)) && names(target, reason)
}

/// The reason of a dead letter without the user.
fn redacted(target: &Target, reason: &str) -> String {
    match target {
        Target::User(uid) => without_id(reason, uid.as_str()),
        Target::Entity(_) => reason.to_owned(),
    }
}
