//! Verifies the counters of users who are read: those of the facts that are kept for them, and of the facts on them.
//!
//! A read only adds the user to a queue. A task verifies them; what differs is corrected as by the sweeps.

use super::fields::{CountersToRead, read_page};
use crate::domain::config::USER;
use crate::domain::error::StoreError;
use crate::domain::event::{Check, CheckMode};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::StoragePhase;
use crate::facts::{Card, CardSource, FactStores, cards, decode_cards, may_differ};
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::repair::{
    CheckRequest, CheckUsers, Sources, Sweeps, UserSource, append_checks, append_permissions,
    check_users, check_users_permissions, reverse_counters,
};
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::schema::user_schema_id;
use hashbrown::HashSet;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["HMGET {transposition} f"];
/// The maximum number of users that are remembered. Further ones are not verified until some are forgotten.
const CAPACITY: usize = 65_536;
/// The maximum number of users that wait.
const QUEUE: usize = 10_000;
/// The number of users that are verified at once.
const PAGE: usize = 50;

/// The permissions that verifying users on reading requires.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(PERMISSIONS)
        .and(append_permissions(backend))
        .and(check_users_permissions(backend))
}

/// Verifies users. Cheap to clone.
#[derive(Clone)]
pub(super) struct UserVerifier(Arc<Shared>);

struct Shared {
    work: Work,
    interval: Duration,
    is_enabled: bool,
    seen: Mutex<Seen>,
    queue: OnceLock<mpsc::Sender<Id>>,
}

/// Users who were added, in two generations. Each is remembered for one interval at least, and two at most.
struct Seen {
    since: Instant,
    current: HashSet<Id>,
    previous: HashSet<Id>,
}

impl Seen {
    /// Whether a user has not been added for one interval, and can be remembered.
    fn insert(&mut self, uid: &Id, interval: Duration, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        if age >= interval {
            let current = std::mem::take(&mut self.current);
            self.previous = match age >= 2 * interval {
                true => HashSet::new(),
                false => current,
            };
            self.since = now;
        }
        if self.previous.contains(uid) || self.current.len() >= CAPACITY / 2 {
            return false;
        }
        !self.current.contains(uid) && self.current.insert(uid.clone())
    }
}

/// What the task uses.
#[derive(Clone)]
struct Work {
    catalog: Catalog,
    store: Store,
    facts: FactStores,
}

impl UserVerifier {
    /// Verifies with the settings of `catalog`.
    pub fn new(catalog: Catalog, store: Store, facts: FactStores) -> UserVerifier {
        let settings = catalog.config.reconcile;
        let seen = Seen {
            since: Instant::now(),
            current: HashSet::new(),
            previous: HashSet::new(),
        };
        UserVerifier(Arc::new(Shared {
            interval: Duration::from_secs(settings.user_seconds),
            is_enabled: settings.enabled,
            work: Work {
                catalog,
                store,
                facts,
            },
            seen: Mutex::new(seen),
            queue: OnceLock::new(),
        }))
    }

    /// Adds users who were read. This process verifies a user at most once in `reconcile.user_seconds`.
    pub fn add(&self, uids: &[Id]) {
        let shared = &self.0;
        if !shared.is_enabled {
            return;
        }
        let now = Instant::now();
        let queue = shared.queue.get_or_init(|| {
            let (queue, waiting) = mpsc::channel(QUEUE);
            tokio::spawn(run(shared.work.clone(), waiting));
            queue
        });
        let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for uid in uids {
            if seen.insert(uid, shared.interval, now) {
                // A user for whom there is no room is verified by the sweeps.
                let _ = queue.try_send(uid.clone());
            }
        }
    }
}

/// Verifies the users of a queue until no read can add any.
async fn run(work: Work, mut waiting: mpsc::Receiver<Id>) {
    let mut uids = Vec::with_capacity(PAGE);
    while waiting.recv_many(&mut uids, PAGE).await > 0 {
        let users: BTreeSet<Id> = uids.drain(..).collect();
        let count = users.len();
        match work.verify(&users).await {
            Ok(()) => metrics::counter!("countd_users_verified_total").increment(count as u64),
            Err(error) => tracing::debug!(%error, "users cannot be verified now"),
        }
        let rate = work.catalog.config.reconcile.entities_per_second.max(1);
        tokio::time::sleep(Duration::from_secs_f64(count as f64 / rate as f64)).await;
    }
}

impl Work {
    async fn verify(&self, uids: &BTreeSet<Id>) -> Result<(), StoreError> {
        let (config, layout) = (&self.catalog.config, self.store.layout());
        // Otherwise processes may change counters of facts in different steps.
        if layout.counting != config.counting()
            || Locator::of(&self.store).storage_of_users() == StoragePhase::Moving
        {
            return Ok(());
        }
        let schema = self.catalog.schemas.get(user_schema_id()).await;
        let schema = schema.map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let mut hmget = redis::cmd("HMGET");
        hmget.arg(self.store.keys().transposition());
        hmget.arg(&["begun", "ended", "types"]);
        let (begun, ended, types): (Option<u64>, Option<u64>, Option<String>) =
            hmget.query_async(&mut self.store.reads()).await?;
        let types = types.unwrap_or_default();
        let types = types.split(' ').filter_map(|of| {
            let (metric, etype) = of.split_once('/')?;
            Some((Name::new(metric).ok()?, Name::new(etype).ok()?))
        });
        let settings = CheckUsers {
            mode: CheckMode::Correct,
            round: 0,
            trace_id: "-",
            sweeps: Sweeps {
                begun: begun.unwrap_or(0),
                ended: ended.unwrap_or(0),
            },
            user_len: schema.len(),
        };
        let counters = reverse_counters(&self.store, config, &types.collect());
        check_users(&self.store, config, settings, &counters, uids).await?;
        self.verify_followers(uids, schema.len()).await
    }

    /// Compares the counters of facts on users by plain reads, and appends checks of those that differ.
    async fn verify_followers(
        &self,
        uids: &BTreeSet<Id>,
        user_len: usize,
    ) -> Result<(), StoreError> {
        let (config, layout) = (&self.catalog.config, self.store.layout());
        let unexpected =
            |error: crate::domain::ids::Invalid| StoreError::Unexpected(error.to_string());
        let etype = Name::new(USER).map_err(unexpected)?;
        let source = Name::new("user").map_err(unexpected)?;
        let sources = Sources::new(config, &layout);
        let names = config.users.names();
        let counters = names.iter().filter_map(|name| config.users.counter(name));
        let counted: Vec<(usize, Vec<Name>)> = counters
            .filter_map(|counter| match sources.of_user(&counter) {
                UserSource::Target(metrics) => Some((usize::from(counter.index()), metrics)),
                _ => None,
            })
            .collect();
        let (locator, backend) = (Locator::of(&self.store), self.store.backend());
        let (mut counters, mut calls, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for uid in uids {
            let entity = Entity {
                etype: etype.clone(),
                eid: uid.clone(),
            };
            let metrics = counted.iter().flat_map(|(_, metrics)| metrics);
            let metrics = metrics.filter_map(|name| {
                let kind = config.metrics.get(name.as_str())?.1.fact_kind()?;
                Some((
                    name.clone(),
                    self.facts.get(kind).card_source(name, &entity),
                ))
            });
            let metrics: Vec<(Name, CardSource)> = metrics.collect();
            let facts: Vec<CardSource> = metrics.iter().map(|(_, of)| of.clone()).collect();
            calls.push(cards(backend, &facts));
            counters.push(CountersToRead {
                at: locator.user(uid),
                len: user_len,
                min_len: 0,
            });
            let check = Check {
                etype: entity.etype,
                eid: entity.eid,
                checks: Vec::new(),
                facts: Vec::new(),
                mode: CheckMode::Correct,
                report: None,
                round: 0,
                source: source.clone(),
                trace_id: None,
            };
            requests.push(CheckRequest { check, metrics });
        }
        if counted.is_empty() {
            return Ok(());
        }
        let page = read_page(&self.store, &counters, &calls).await?;
        let mut suspects = Vec::new();
        for ((request, fields), reply) in requests.into_iter().zip(page.fields).zip(page.replies) {
            // Damaged counters are rebuilt by a read.
            let (Ok(fields), Ok(reply)) = (fields, reply) else {
                continue;
            };
            let mut facts = decode_cards(reply)?.into_iter();
            let is_suspect = counted.iter().any(|(index, metrics)| {
                let facts: Vec<Card> = facts.by_ref().take(metrics.len()).collect();
                may_differ(facts, fields.get(*index).copied())
            });
            if is_suspect {
                suspects.push(request);
            }
        }
        append_checks(&self.store, &suspects).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_verified_once_in_an_interval() {
        let (now, interval) = (Instant::now(), Duration::from_secs(300));
        let mut seen = Seen {
            since: now,
            current: HashSet::new(),
            previous: HashSet::new(),
        };
        let [seven, eight] = ["7", "8"].map(|id| Id::new(id).expect("an ID"));
        let mut insert =
            |uid, seconds| seen.insert(uid, interval, now + Duration::from_secs(seconds));
        assert!(insert(&seven, 0) && insert(&eight, 299));
        assert!(!insert(&seven, 1) && !insert(&seven, 299));
        // The second generation has it.
        assert!(!insert(&seven, 300) && !insert(&eight, 598));
        assert!(insert(&seven, 601) && insert(&eight, 602));
    }
}
