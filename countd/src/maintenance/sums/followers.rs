//! Compares counters of users that count facts on the user, like followers, with these facts.
//!
//! Plain reads find the counters that may differ. For these the step that counts the facts appends a check to the log, and the commit that
//! reaches it compares exactly.

use super::sweep::SumSweep;
use crate::domain::config::{FactKind, USER, UserCounter};
use crate::domain::error::StoreError;
use crate::domain::event::{Check, CheckMode};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{KeyName, StoragePhase};
use crate::facts::{Card, CardSource, FactStores, cards, decode_cards, may_differ};
use crate::query::fields::{CountersToRead, read_page};
use crate::redis::script::CounterBackend;
use crate::repair::{CheckRequest, Sources, UserSource, append_checks};
use crate::storage::locator::Locator;
use std::collections::BTreeSet;
use tokio::sync::watch;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1"];
/// Commands that this file sends on data with tables.
pub(super) const TABLE_PERMISSIONS: &[&str] = &["CTAB.SCAN {tables} 0 COUNT 1"];

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// The number of rows that a step looks at.
const PAGE: usize = 500;
/// The facts of all stores, and objects with counters of users.
const PATTERN: &str = "[brsu]*";

/// A counter that counts facts on users.
struct Counted {
    counter: UserCounter,
    metrics: Vec<(Name, FactKind)>,
}

/// What a pass compares.
struct Pass {
    counted: Vec<Counted>,
    user_len: usize,
    round: u64,
}

impl SumSweep {
    /// Compares the counters of all users with the facts on them. Returns the number of users for whom checks were appended.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn check_followers(
        &self,
        round: u64,
        stop: &watch::Receiver<bool>,
    ) -> Result<usize, StoreError> {
        let pass = Pass {
            counted: self.counted(),
            user_len: self.user_schema().await?.len(),
            round,
        };
        let mut suspects = 0;
        // Otherwise processes may change counters of facts in different steps.
        if self.store.layout().counting != self.config.counting() {
            return Ok(0);
        }
        if pass.counted.is_empty()
            || Locator::of(&self.store).storage_of_users() == StoragePhase::Moving
        {
            return Ok(0);
        }
        for mut server in self.store.servers()? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(PATTERN);
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(&mut server).await?;
                let ids = found.iter().filter_map(|key| self.user_of(key, &pass));
                suspects += self.compare_followers(&pass, ids.collect()).await?;
                cursor = next;
                if cursor == 0 || *stop.borrow() {
                    break;
                }
            }
        }
        if self.store.backend() == CounterBackend::Strings {
            return Ok(suspects);
        }
        let keys = self.store.keys();
        for partition in 0..keys.partitions() {
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = redis::cmd("CTAB.SCAN");
                scan.arg(keys.user_table(partition)).arg(&cursor);
                scan.arg("COUNT").arg(PAGE);
                let (next, ids): (String, Vec<String>) =
                    scan.query_async(&mut self.store.reads()).await?;
                let ids = ids.iter().filter_map(|id| Id::new(id.as_str()).ok());
                suspects += self.compare_followers(&pass, ids.collect()).await?;
                cursor = next;
                if cursor == "0" || *stop.borrow() {
                    break;
                }
            }
        }
        Ok(suspects)
    }

    /// The counters that count facts on users.
    fn counted(&self) -> Vec<Counted> {
        let (layout, users) = (self.store.layout(), &self.config.users);
        let sources = Sources::new(&self.config, &layout);
        let mut counted = Vec::new();
        for counter in users.names().iter().filter_map(|name| users.counter(name)) {
            if let UserSource::Target(names) = sources.of_user(&counter) {
                let metrics = names.into_iter().filter_map(|name| {
                    let (_, metric) = self.config.metrics.get(name.as_str())?;
                    Some((name, metric.fact_kind()?))
                });
                let metrics = metrics.collect();
                counted.push(Counted { counter, metrics });
            }
        }
        counted
    }

    /// The user of a key with facts on a user, or of an object with counters.
    fn user_of(&self, key: &[u8], pass: &Pass) -> Option<Id> {
        let keys = self.store.keys();
        if let Some(uid) = keys.user_of_counters(std::str::from_utf8(key).ok()?) {
            return Some(uid);
        }
        let KeyName::Facts { metric, entity } = KeyName::parse(&keys, key)? else {
            return None;
        };
        let mut metrics = pass.counted.iter().flat_map(|counted| &counted.metrics);
        let is_counted = metrics.any(|(name, _)| *name == metric);
        (is_counted && entity.etype.as_str() == USER).then_some(entity.eid)
    }

    /// Compares the counters of these users by plain reads. Appends checks for those that differ, and returns their number.
    async fn compare_followers(&self, pass: &Pass, ids: BTreeSet<Id>) -> Result<usize, StoreError> {
        if ids.is_empty() {
            return Ok(0);
        }
        let backend = self.store.backend();
        let locator = Locator::of(&self.store);
        let stores = FactStores::new(self.store.keys(), backend, self.config.facts.shards);
        let entity = |uid: &Id| {
            let etype =
                Name::new(USER).map_err(|error| StoreError::Unexpected(error.to_string()))?;
            let eid = uid.clone();
            Ok::<_, StoreError>(Entity { etype, eid })
        };
        let (mut counters, mut calls, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for uid in &ids {
            let entity = entity(uid)?;
            let metrics = pass.counted.iter().flat_map(|counted| &counted.metrics);
            let of_user: Vec<(Name, CardSource)> = metrics
                .map(|(name, kind)| (name.clone(), stores.get(*kind).card_source(name, &entity)))
                .collect();
            let all: Vec<CardSource> = of_user.iter().map(|(_, source)| source.clone()).collect();
            calls.push(cards(backend, &all));
            counters.push(CountersToRead {
                at: locator.user(uid),
                len: pass.user_len,
            });
            sources.push(of_user);
        }
        let page = read_page(&self.store, &counters, &calls).await?;
        let mut requests = Vec::new();
        for (((uid, fields), reply), sources) in
            ids.iter().zip(page.fields).zip(page.replies).zip(sources)
        {
            // Damaged counters cannot be corrected.
            let (Ok(fields), Ok(reply)) = (fields, reply) else {
                continue;
            };
            let mut facts = decode_cards(reply)?.into_iter();
            let is_suspect = pass.counted.iter().any(|Counted { counter, metrics }| {
                let count = fields.get(usize::from(counter.index()));
                let facts: Vec<Card> = facts.by_ref().take(metrics.len()).collect();
                may_differ(facts, count.copied())
            });
            if is_suspect {
                requests.push(CheckRequest {
                    check: self.user_check(entity(uid)?, pass.round)?,
                    metrics: sources,
                });
            }
        }
        append_checks(&self.store, &requests).await?;
        self.pace(ids.len()).await;
        Ok(requests.len())
    }

    fn user_check(&self, entity: Entity, round: u64) -> Result<Check, StoreError> {
        let source =
            Name::new("user").map_err(|error| StoreError::Unexpected(error.to_string()))?;
        Ok(Check {
            etype: entity.etype,
            eid: entity.eid,
            checks: Vec::new(),
            facts: Vec::new(),
            mode: CheckMode::Correct,
            report: None,
            lock: None,
            round,
            source,
            trace_id: None,
        })
    }
}
