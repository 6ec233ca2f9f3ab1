//! Compares the received counters of all users with the sums.

use super::sweep::SumSweep;
use crate::domain::config::{BUILT_IN_COUNTERS, UserCounter};
use crate::domain::error::StoreError;
use crate::domain::event::{CheckMode, now_ms};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::{CounterLocation, Partition, StoragePhase};
use crate::maintenance::report::Report;
use crate::maintenance::visits::{Observer, Visits, hash_sizes, node_sizes, table_sizes};
use crate::redis::call::RedisCall;
use crate::redis::script::{AUDIT, AUTHOR, CHANGES, SUMS_STATE, ScriptTemplate};
use crate::repair::{Outcome, record_difference};
use crate::storage::locator::Locator;
use crate::storage::schema::Schema;
use redis::{FromRedisValue, Value};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::watch;

pub(super) static COMPARE: ScriptTemplate = ScriptTemplate::writing(&[
    AUTHOR,
    SUMS_STATE,
    AUDIT,
    CHANGES,
    include_str!("../../lua/compare_sums.lua"),
]);

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HSCAN {sums} 0 COUNT 1", "SCAN 0 MATCH x COUNT 1"];
/// Commands that this file sends on data with tables.
pub(super) const TABLE_PERMISSIONS: &[&str] = &["CTAB.SCAN {tables} 0 COUNT 1"];

/// The number of users that a script compares.
const PAGE: usize = 100;
/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;

/// How a sweep compares.
#[derive(Clone, Debug)]
pub struct SumCheck {
    /// What to do with differences.
    pub mode: CheckMode,
    /// The user whose counters are in the report; `None` for those of all users. A sweep compares all in any case.
    pub only: Option<Id>,
}

/// What a comparison uses.
pub(super) struct Comparison<'a> {
    pub sweep: u64,
    pub counters: &'a [UserCounter],
    pub users: &'a Schema,
    pub how: &'a SumCheck,
    pub report: &'a mut Report,
}

impl SumSweep {
    /// Compares the counters of all users. Returns why it cannot be done now.
    pub(super) async fn compare_all(
        &self,
        mut comparison: Comparison<'_>,
        stop: &watch::Receiver<bool>,
        observer: Observer<'_>,
    ) -> Result<Option<String>, StoreError> {
        let step = ("comparing received counters", "users");
        let mut visits = Visits::begin(observer, step, self.sizes()).await?;
        let refused = || Some("a migration moves the counters of users".to_owned());
        let keys = self.store.keys();
        for partition in 0..keys.partitions() {
            for (key, command) in self.keys_with_users(partition) {
                let mut cursor = "0".to_owned();
                loop {
                    if *stop.borrow() {
                        return Ok(Some("the process stops".to_owned()));
                    }
                    let mut scan = redis::cmd(command);
                    scan.arg(&key).arg(&cursor).arg("COUNT").arg(PAGE);
                    let page = scan.query_async(&mut self.store.reads()).await;
                    let page: (String, Vec<String>) = match page.map_err(StoreError::from) {
                        // A read of one of its users rebuilds it. Other users are compared.
                        Err(StoreError::WrongType(_)) if key == keys.user_table(partition) => {
                            break;
                        }
                        page => page?,
                    };
                    // The Hash has `{uid}:{idx}` and sums in turn.
                    let step = if command == "HSCAN" { 2 } else { 1 };
                    let ids = page.1.iter().step_by(step);
                    let ids = ids.map(|id| id.split(':').next().unwrap_or_default());
                    let ids: BTreeSet<Id> = ids.filter_map(|id| Id::new(id).ok()).collect();
                    visits.add((page.1.len() / step) as u64, ids.len() as u64);
                    if !self.compare(&mut comparison, ids).await? {
                        return Ok(refused());
                    }
                    cursor = page.0;
                    if cursor == "0" {
                        break;
                    }
                }
                visits.end_part();
            }
        }
        match self.compare_objects(&mut comparison, &mut visits).await? {
            true => Ok(None),
            false => Ok(refused()),
        }
    }

    /// The keys with users of a partition, each with the command that lists them.
    fn keys_with_users(&self, partition: Partition) -> Vec<(String, &'static str)> {
        let keys = self.store.keys();
        let mut sources = vec![(keys.sum_hash(partition), "HSCAN")];
        if self.store.backend().has_tables() {
            sources.push((keys.sum_table(partition), "CTAB.SCAN"));
            sources.push((keys.user_table(partition), "CTAB.SCAN"));
        }
        sources
    }

    /// The number of users at each of these keys, and of the keys of each node, in the order in which they are visited.
    async fn sizes(&self) -> Result<Vec<u64>, StoreError> {
        let partitions = 0..self.store.keys().partitions();
        let sources = partitions.flat_map(|partition| self.keys_with_users(partition));
        let sources: Vec<(String, &str)> = sources.collect();
        let of = |command: &str| -> Vec<String> {
            let sources = sources.iter().filter(|(_, other)| *other == command);
            sources.map(|(key, _)| key.clone()).collect()
        };
        let hashes = hash_sizes(&self.store, &of("HSCAN")).await?;
        let tables = table_sizes(&self.store, &of("CTAB.SCAN")).await?;
        let (mut hashes, mut tables) = (hashes.into_iter(), tables.into_iter());
        let sizes = sources.iter().filter_map(|(_, command)| match *command {
            "HSCAN" => hashes.next(),
            _ => tables.next(),
        });
        let mut sizes: Vec<u64> = sizes.collect();
        sizes.extend(node_sizes(&self.store).await?);
        Ok(sizes)
    }

    /// Compares the counters of users that are objects.
    async fn compare_objects(
        &self,
        comparison: &mut Comparison<'_>,
        visits: &mut Visits<'_>,
    ) -> Result<bool, StoreError> {
        let keys = self.store.keys();
        for mut server in self.store.servers()? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor)
                    .arg("MATCH")
                    .arg(keys.user_counters_pattern());
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(&mut server).await?;
                let ids = found.iter().filter_map(|key| {
                    let key = std::str::from_utf8(key).ok()?;
                    keys.user_of_counters(key)
                });
                let ids: BTreeSet<Id> = ids.collect();
                // A step looks at about so many keys, of which it returns those of the pattern.
                visits.add(SCAN_COUNT as u64, ids.len() as u64);
                if !self.compare(comparison, ids).await? {
                    return Ok(false);
                }
                cursor = next;
                if cursor == 0 {
                    visits.end_part();
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Compares the counters of these users. Returns false if that is not possible now.
    async fn compare(
        &self,
        comparison: &mut Comparison<'_>,
        ids: BTreeSet<Id>,
    ) -> Result<bool, StoreError> {
        let keys = self.store.keys();
        let mut by_slot: BTreeMap<Partition, Vec<Id>> = BTreeMap::new();
        for uid in ids {
            by_slot.entry(keys.of_user(&uid)).or_default().push(uid);
        }
        for (partition, ids) in by_slot {
            for ids in ids.chunks(PAGE) {
                if !self.compare_page(comparison, partition, ids).await? {
                    return Ok(false);
                }
                self.pace(ids.len()).await;
            }
        }
        Ok(true)
    }

    async fn compare_page(
        &self,
        comparison: &mut Comparison<'_>,
        partition: Partition,
        ids: &[Id],
    ) -> Result<bool, StoreError> {
        let (layout, locator) = (self.store.keys(), Locator::of(&self.store));
        if locator.storage_of_users() == StoragePhase::Moving {
            return Ok(false);
        }
        let places: Vec<CounterLocation> = ids.iter().map(|uid| locator.user(uid)).collect();
        let mut keys = vec![
            layout.sums_state(partition),
            layout.storage_phases(partition),
            layout.sum_table(partition),
            layout.sum_hash(partition),
            layout.audit(partition),
        ];
        keys.extend(places.iter().map(|place| place.key().to_owned()));
        let changes = &self.config.changes;
        keys.extend(changes.enabled.then(|| layout.changes(partition)));
        let mut call = RedisCall::script(COMPARE.on(self.store.backend()), &keys);
        let settings = &self.config.reconcile;
        let (min_difference, min_percent) = match comparison.how.mode {
            CheckMode::Exact => (0, 0.0),
            _ => (settings.min_difference, settings.min_percent),
        };
        let retain_changes = changes.enabled.then(|| changes.retain_per_stream(layout));
        call.cmd
            .arg(comparison.sweep)
            .arg(locator.storage_of_users().name())
            .arg(min_difference)
            .arg(min_percent)
            .arg(self.config.audit.retain_per_stream(layout))
            .arg(now_ms())
            .arg(
                retain_changes
                    .map(|retain| retain.to_string())
                    .unwrap_or_default(),
            )
            .arg(u8::from(comparison.how.mode == CheckMode::Report))
            .arg(comparison.users.len())
            .arg(BUILT_IN_COUNTERS.len())
            .arg(comparison.counters.len());
        for counter in comparison.counters {
            call.cmd.arg(counter.index()).arg(counter.name().as_str());
        }
        for (uid, place) in ids.iter().zip(&places) {
            let row = place.row().map(|row| row.to_string());
            call.cmd.arg(uid.as_str()).arg(row.unwrap_or_default());
        }
        match call.send(&self.store).await? {
            Value::Nil => Ok(false),
            reply => comparison.add(ids, reply).map(|()| true),
        }
    }
}

impl Comparison<'_> {
    fn is_reported(&self, uid: &str) -> bool {
        let only = self.how.only.as_ref();
        only.is_none_or(|only| only.as_str() == uid)
    }

    /// Adds the reply of the script for these users.
    fn add(&mut self, ids: &[Id], reply: Value) -> Result<(), StoreError> {
        let unexpected = || StoreError::Unexpected("the comparison of sums".to_owned());
        let values = Vec::<Value>::from_redis_value(reply).map_err(|_| unexpected())?;
        let (compared, differences) = values.split_first().ok_or_else(unexpected)?;
        let compared = u64::from_redis_value_ref(compared).map_err(|_| unexpected())?;
        // Users whose counters are damaged are not compared.
        let users = compared / self.counters.len().max(1) as u64;
        let users = match &self.how.only {
            None => users,
            Some(only) => u64::from(users == ids.len() as u64 && ids.contains(only)),
        };
        let mut equal: BTreeMap<&Name, u64> = BTreeMap::new();
        for counter in self.counters {
            equal.insert(counter.name(), users);
        }
        for difference in differences.chunks(4) {
            let [uid, counter, difference, corrected] = difference else {
                return Err(unexpected());
            };
            let uid = String::from_redis_value_ref(uid).map_err(|_| unexpected())?;
            let counter = String::from_redis_value_ref(counter).map_err(|_| unexpected())?;
            let difference = i64::from_redis_value_ref(difference).map_err(|_| unexpected())?;
            let is_corrected = bool::from_redis_value_ref(corrected).map_err(|_| unexpected())?;
            let size = difference.unsigned_abs();
            let outcome = match is_corrected {
                true => Outcome::Corrected,
                false => Outcome::Differs,
            };
            record_difference("credits", size, outcome);
            if is_corrected {
                // The audit names the user.
                tracing::warn!(counter, difference, "a received counter was corrected");
            }
            let name = Name::new(counter).map_err(|_| unexpected())?;
            if self.is_reported(&uid) {
                self.report.add_difference(&name, size, outcome);
                if let Some(equal) = equal.get_mut(&name) {
                    *equal = equal.saturating_sub(1);
                }
            }
        }
        for (name, count) in equal {
            for _ in 0..count {
                self.report.add_equal(name);
            }
        }
        Ok(())
    }
}
