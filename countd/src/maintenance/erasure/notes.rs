//! Deletes what reconciliation has noted of an entity or a user: counters that differed in earlier rounds, sums of a sweep over authors,
//! and reports of comparisons.

use super::context::Erasure;
use crate::domain::config::USER;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id, Name};
use crate::maintenance::jobs::Lease;
use crate::redis::call::RedisCall;
use crate::redis::script::{AUTHOR, SUMS_STATE, ScriptTemplate};
use crate::storage::schema::user_schema_id;
use std::collections::BTreeSet;

/// Deletes the sums of a user.
pub(super) static SUMS: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, SUMS_STATE, include_str!("../../lua/sums_erase.lua")]);

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "HKEYS {drift}",
    "HDEL {drift} f",
    "HSCAN {user_notes} 0 COUNT 1",
    "HDEL {user_notes} f",
    "HSCAN {report} 0 MATCH x COUNT 1",
    "HDEL {report} f",
];

/// The number of fields that a step of `HSCAN` looks at.
const SCAN_COUNT: usize = 1_000;

impl Erasure {
    /// Deletes the noted differences of an entity.
    pub(super) async fn remove_notes(&self, entity: &Entity) -> Result<(), Problem> {
        let keys = self.store.keys();
        let Entity { etype, eid } = entity;
        let prefix = format!("{etype}:{eid}:");
        self.remove_fields(keys.drift(keys.of_entity(entity)), &prefix)
            .await
    }

    /// Deletes the noted differences of a user.
    pub(super) async fn remove_user_notes(&self, uid: &Id) -> Result<(), Problem> {
        let etype = Name::new(USER).map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let user = Entity {
            etype,
            eid: uid.clone(),
        };
        let keys = self.store.keys();
        // Facts on a user are in the partition of the entity; the user's counters may be in another one.
        let partitions = BTreeSet::from([keys.of_entity(&user), keys.of_user(uid)]);
        for partition in partitions {
            let prefix = format!("{USER}:{uid}:");
            self.remove_fields(keys.drift(partition), &prefix).await?;
        }
        let notes = keys.user_notes(keys.of_user(uid));
        self.remove_scanned(notes, &format!("{uid}:")).await
    }

    /// Deletes the fields of a Hash of notes that begin with `prefix`. The Hash may be long.
    async fn remove_scanned(&self, hash: String, prefix: &str) -> Result<(), Problem> {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(&hash).arg(&cursor).arg("COUNT").arg(SCAN_COUNT);
            let (next, found): (String, Vec<(String, String)>) =
                scan.query_async(&mut self.store.reads()).await?;
            let fields = found.into_iter().map(|(field, _)| field).collect();
            self.delete_fields(&hash, fields, prefix).await?;
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Deletes the fields of a Hash of notes that begin with `prefix`. Such a Hash has at most 1,000 fields.
    async fn remove_fields(&self, hash: String, prefix: &str) -> Result<(), Problem> {
        let mut read = redis::cmd("HKEYS");
        read.arg(&hash);
        let fields: Vec<String> = read.query_async(&mut self.store.reads()).await?;
        self.delete_fields(&hash, fields, prefix).await
    }

    /// Deletes those of the fields that begin with `prefix`.
    async fn delete_fields(
        &self,
        hash: &str,
        mut fields: Vec<String>,
        prefix: &str,
    ) -> Result<(), Problem> {
        fields.retain(|field| field.starts_with(prefix));
        if !fields.is_empty() {
            let mut delete = redis::cmd("HDEL");
            delete.arg(hash).arg(fields);
            delete.exec_async(&mut self.store.commands()).await?;
        }
        Ok(())
    }

    /// Deletes the sums of a user, of whom nothing is left that could be credited. A sweep may be running, or have been interrupted.
    pub(super) async fn remove_sums(&self, uid: &Id) -> Result<(), Problem> {
        let schema = self.catalog.schemas.get(user_schema_id()).await?;
        let (keys, partition) = (self.store.keys(), self.store.keys().of_user(uid));
        let of_user = [
            keys.sums_state(partition),
            keys.sum_table(partition),
            keys.sum_hash(partition),
        ];
        let mut call = RedisCall::script(SUMS.on(self.store.backend()), &of_user);
        call.cmd.arg(uid.as_str()).arg(schema.len());
        call.send(&self.store).await?;
        Ok(())
    }

    /// Deletes what reports have about a user. The reports of a comparison that was killed remain until they expire.
    pub(super) async fn remove_from_reports(
        &self,
        lease: &mut Lease,
        uid: &Id,
        reports: &[Vec<u8>],
    ) -> Result<(), Problem> {
        for report in reports {
            let mut cursor = 0;
            loop {
                let mut scan = redis::cmd("HSCAN");
                scan.arg(report).arg(cursor);
                scan.arg("MATCH").arg(format!("{USER}:{uid}:*"));
                scan.arg("COUNT").arg(SCAN_COUNT);
                type Page = (u64, Vec<(String, String)>);
                let page: Result<Page, _> = scan.query_async(&mut self.store.reads()).await;
                let (next, found) = match page {
                    // It is no report of countd.
                    Err(error) if error.code() == Some("WRONGTYPE") => break,
                    page => page?,
                };
                if !found.is_empty() {
                    let fields: Vec<String> = found.into_iter().map(|(field, _)| field).collect();
                    let mut delete = redis::cmd("HDEL");
                    delete.arg(report).arg(fields);
                    let deleted: u64 = delete.query_async(&mut self.store.commands()).await?;
                    // The check may have been in the log when the sweep began.
                    lease.job.progress.is_dirty |= deleted > 0;
                }
                if next == 0 {
                    break;
                }
                cursor = next;
                lease.keep_alive().await?;
            }
        }
        Ok(())
    }
}
