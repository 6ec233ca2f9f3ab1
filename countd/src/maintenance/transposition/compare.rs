//! Compares facts with the timelines of their users, and timelines with facts.

use super::keys::{Form, Subject};
use super::sweep::Transposition;
use crate::domain::error::StoreError;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::ReverseKey;
use crate::facts::{Fact, FactStores};
use crate::maintenance::pace::Pace;
use crate::redis::call::{RedisCall, send_reads};
use crate::redis::script::CounterBackend;
use crate::repair::{SuspectFact, verify_facts};
use redis::{FromRedisValue, Value};
use tokio::sync::{Mutex, watch};

/// The commands that read facts and timelines.
pub(super) fn permissions(backend: CounterBackend) -> &'static [&'static str] {
    match backend.has_tables() {
        true => &[
            "RBM.SCAN {ids} 0 COUNT 1",
            "SSCAN {set} 0 COUNT 1",
            "GET {bits}",
            "CTAB.SCAN {newest_table} 0 COUNT 1",
            "ZSCAN {newest_set} 0 COUNT 1",
            "RBM.SCAN {older_ids} 0 COUNT 1",
            "SSCAN {older_set} 0 COUNT 1",
            "CTAB.MGET {newest_table} 0",
            "ZSCORE {newest_set} m",
            "RBM.CONTAINS {older_ids} 0",
            "SISMEMBER {older_set} m",
        ],
        false => &[
            "SSCAN {set} 0 COUNT 1",
            "GET {bits}",
            "ZSCAN {newest_set} 0 COUNT 1",
            "SSCAN {older_set} 0 COUNT 1",
            "ZSCORE {newest_set} m",
            "SISMEMBER {older_set} m",
        ],
    }
}

/// The number of facts that are compared at once.
const PAGE: usize = 500;
/// The number of bits of a bitmap, as facts/bitmap.rs divides users.
const CHUNK: u64 = 32_768;

impl Transposition {
    /// Compares the IDs at a key. Returns false if `stop` turns true first.
    pub(super) async fn compare_key(
        &self,
        key: &str,
        form: Form,
        subject: &Subject,
        (pace, stop): (&Mutex<Pace>, &watch::Receiver<bool>),
    ) -> Result<bool, StoreError> {
        let mut cursor = "0".to_owned();
        loop {
            let (next, ids) = match self.page(key, form, &cursor).await {
                Ok(page) => page,
                // A damaged key cannot be compared.
                Err(StoreError::WrongType(_)) => return Ok(true),
                Err(error) => return Err(error),
            };
            for ids in ids.chunks(PAGE) {
                if *stop.borrow() {
                    return Ok(false);
                }
                let suspects = match subject {
                    Subject::Facts(metric, entity) => self.not_listed(metric, entity, ids).await?,
                    Subject::Timeline(timeline) => self.without_fact(timeline, ids).await?,
                };
                metrics::counter!("countd_facts_compared_total").increment(ids.len() as u64);
                metrics::counter!("countd_suspect_facts_total").increment(suspects.len() as u64);
                verify_facts(&self.store, &self.config, &suspects).await?;
                pace.lock().await.add(ids.len()).await;
            }
            cursor = next;
            if cursor == "0" {
                return Ok(true);
            }
        }
    }

    /// A page of the IDs at a key, and the next cursor.
    async fn page(
        &self,
        key: &str,
        form: Form,
        cursor: &str,
    ) -> Result<(String, Vec<Id>), StoreError> {
        let mut reads = self.store.reads();
        let command = match form {
            Form::Bits(chunk) => {
                let bits: Option<Vec<u8>> =
                    redis::cmd("GET").arg(key).query_async(&mut reads).await?;
                let bits = bits.unwrap_or_default();
                let set = (0..bits.len() as u64 * 8)
                    .filter(|bit| bits[*bit as usize / 8] & (0x80 >> (bit % 8)) != 0);
                let ids = set.filter_map(|bit| Id::new((chunk * CHUNK + bit).to_string()).ok());
                return Ok(("0".to_owned(), ids.collect()));
            }
            Form::Ids => "RBM.SCAN",
            Form::Set => "SSCAN",
            Form::Table => "CTAB.SCAN",
            Form::Scored => "ZSCAN",
        };
        let mut scan = redis::cmd(command);
        scan.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
        let (next, found): (String, Vec<String>) = scan.query_async(&mut reads).await?;
        // A sorted set has members and scores in turn.
        let step = if form == Form::Scored { 2 } else { 1 };
        let ids = found.into_iter().step_by(step);
        Ok((next, ids.filter_map(|id| Id::new(id).ok()).collect()))
    }

    /// The facts of these users on an entity that their timelines do not have.
    async fn not_listed(
        &self,
        metric: &Name,
        entity: &Entity,
        uids: &[Id],
    ) -> Result<Vec<SuspectFact>, StoreError> {
        let (keys, eid) = (self.store.keys(), entity.eid.as_str());
        let is_row =
            self.store.backend() == CounterBackend::Module && entity.eid.number().is_some();
        let mut calls = Vec::with_capacity(2 * uids.len());
        for uid in uids {
            let timeline = keys.reverse(metric, &entity.etype, uid);
            let (newest, older) = match is_row {
                true => (
                    ["CTAB.MGET", &timeline.newest_table, eid],
                    &timeline.older_ids,
                ),
                false => (["ZSCORE", &timeline.newest_set, eid], &timeline.older_set),
            };
            let contains = if is_row { "RBM.CONTAINS" } else { "SISMEMBER" };
            calls.push(RedisCall::guarded(&newest, &[], None));
            let older = older.as_deref().unwrap_or_default();
            calls.push(RedisCall::guarded(&[contains, older, eid], &[], None));
        }
        let replies = send_reads(&self.store, &calls).await?;
        let mut suspects = Vec::new();
        for (uid, replies) in uids.iter().zip(replies.chunks(2)) {
            // A damaged timeline cannot be compared.
            if let [Ok(newest), Ok(older)] = replies
                && !is_listed(newest)
                && *older == Value::Int(0)
            {
                suspects.push(suspect(metric, entity, uid));
            }
        }
        Ok(suspects)
    }

    /// The facts of a timeline that do not exist.
    async fn without_fact(
        &self,
        timeline: &ReverseKey,
        eids: &[Id],
    ) -> Result<Vec<SuspectFact>, StoreError> {
        let shards = self.config.facts.shards;
        let stores = FactStores::new(self.store.keys(), self.store.current_backend(), shards);
        let ReverseKey {
            metric, etype, uid, ..
        } = timeline;
        let settings = self.config.metrics.get(metric.as_str());
        let Some(facts) = settings.and_then(|(_, settings)| stores.of(settings)) else {
            return Ok(Vec::new());
        };
        let entities = eids.iter().map(|eid| Entity {
            etype: etype.clone(),
            eid: eid.clone(),
        });
        let entities: Vec<Entity> = entities.collect();
        if facts.check_uid(uid).is_err() {
            let suspects = entities.iter().map(|entity| suspect(metric, entity, uid));
            return Ok(suspects.collect());
        }
        let contains = |entity| {
            facts.contains(&Fact {
                metric,
                entity,
                uid,
            })
        };
        let calls: Vec<RedisCall> = entities.iter().map(contains).collect();
        let replies = send_reads(&self.store, &calls).await?;
        let mut suspects = Vec::new();
        for (entity, reply) in entities.iter().zip(replies) {
            if let Ok(reply) = reply
                && matches!(bool::from_redis_value(reply), Ok(false))
            {
                suspects.push(suspect(metric, entity, uid));
            }
        }
        Ok(suspects)
    }
}

fn suspect(metric: &Name, entity: &Entity, uid: &Id) -> SuspectFact {
    SuspectFact {
        metric: metric.clone(),
        etype: entity.etype.clone(),
        eid: entity.eid.clone(),
        uid: uid.clone(),
    }
}

/// Whether the reply for the newest facts has the fact: `CTAB.MGET` has a list of rows, `ZSCORE` a score.
fn is_listed(reply: &Value) -> bool {
    match reply {
        Value::Nil => false,
        Value::Array(rows) => rows.first().is_some_and(|row| *row != Value::Nil),
        _ => true,
    }
}
