//! Compares counters of users that count facts on the user, like followers, with these facts.
//!
//! Plain reads find the counters that may differ. For these the step that counts the facts appends a check to the log, and the commit that
//! reaches it compares exactly.

use super::sweep::SumSweep;
use crate::domain::config::{FactKind, USER, UserCounter};
use crate::domain::error::StoreError;
use crate::domain::event::{Check, CheckMode};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{KeyName, Partition, StoragePhase};
use crate::facts::{Card, CardSource, FactStores, cards, decode_cards, may_differ};
use crate::maintenance::report::Report;
use crate::maintenance::visits::{Observer, Visits, user_sizes};
use crate::query::fields::{CountersToRead, read_page};
use crate::repair::{CheckRequest, Rebuilder, Sources, UserSource, append_checks};
use crate::storage::locator::Locator;
use redis::aio::ConnectionManager;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
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

/// How counters of facts on users are compared.
#[derive(Clone, Debug)]
pub struct FollowersCheck {
    /// What to do with differences.
    pub mode: CheckMode,
    /// The round; 0 outside of one.
    pub round: u64,
    /// The report to which commits add what they have found.
    pub report: Option<Id>,
}

/// A comparison of the counters of users, page by page.
pub struct FollowersPass<'a> {
    counted: Vec<Counted>,
    user_len: usize,
    how: FollowersCheck,
    /// The servers whose keys are left, and the cursor in those of the first one.
    servers: VecDeque<ConnectionManager>,
    cursor: u64,
    /// The tables that are left, and the cursor in the rows of the first one.
    tables: Range<Partition>,
    row: String,
    /// The counters that are right by plain reads.
    pub report: Report,
    visits: Visits<'a>,
    /// The number of users for whom checks were appended.
    pub suspects: usize,
    /// The last check that was appended to each log.
    pub appended: BTreeMap<Partition, u64>,
    /// The partitions of the counters of these users, whose commits report.
    pub homes: BTreeSet<Partition>,
}

impl FollowersPass<'_> {
    /// The names of the counters.
    pub fn counters(&self) -> impl Iterator<Item = &Name> {
        self.counted.iter().map(|counted| counted.counter.name())
    }
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
        let how = FollowersCheck {
            mode: CheckMode::Correct,
            round,
            report: None,
        };
        let Some(mut pass) = self.followers_pass(how, None).await? else {
            return Ok(0);
        };
        while !*stop.borrow() && self.next_followers(&mut pass).await? {}
        Ok(pass.suspects)
    }

    /// A comparison of the counters of all users. `None` if nothing can be compared now.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn followers_pass<'a>(
        &self,
        how: FollowersCheck,
        observer: Observer<'a>,
    ) -> Result<Option<FollowersPass<'a>>, StoreError> {
        let counted = self.counted();
        // Otherwise processes may change counters of facts in different steps.
        if self.store.layout().counting != self.config.counting()
            || counted.is_empty()
            || Locator::of(&self.store).storage_of_users() == StoragePhase::Moving
        {
            return Ok(None);
        }
        let tables = match self.store.backend().has_tables() {
            true => 0..self.store.keys().partitions(),
            false => 0..0,
        };
        Ok(Some(FollowersPass {
            counted,
            user_len: self.user_schema().await?.len(),
            how,
            servers: self.store.servers()?.into(),
            cursor: 0,
            tables,
            row: "0".to_owned(),
            report: Report::default(),
            visits: Visits::begin(
                observer,
                ("comparing users", "users"),
                user_sizes(&self.store),
            )
            .await?,
            suspects: 0,
            appended: BTreeMap::new(),
            homes: BTreeSet::new(),
        }))
    }

    /// Compares the next page of users by plain reads, and appends a check for each difference. Returns false at the end.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn next_followers(&self, pass: &mut FollowersPass<'_>) -> Result<bool, StoreError> {
        if let Some(server) = pass.servers.front_mut() {
            let mut scan = redis::cmd("SCAN");
            scan.arg(pass.cursor).arg("MATCH").arg(PATTERN);
            scan.arg("COUNT").arg(SCAN_COUNT);
            let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(server).await?;
            let ids = found.iter().filter_map(|key| self.user_of(key, pass));
            let ids = ids.collect();
            self.compare_followers(pass, ids, SCAN_COUNT).await?;
            pass.cursor = next;
            if next == 0 {
                pass.servers.pop_front();
                pass.visits.end_part();
            }
            return Ok(true);
        }
        if pass.tables.is_empty() {
            return Ok(false);
        }
        let mut scan = redis::cmd("CTAB.SCAN");
        let table = self.store.keys().user_table(pass.tables.start);
        scan.arg(table).arg(&pass.row).arg("COUNT").arg(PAGE);
        let page = scan.query_async(&mut self.store.reads()).await;
        let (next, ids): (String, Vec<String>) = match page.map_err(StoreError::from) {
            // Its users are rebuilt when they are compared, as users with facts on them.
            Err(StoreError::WrongType(_)) => ("0".to_owned(), Vec::new()),
            page => page?,
        };
        let rows = ids.len();
        let ids = ids.iter().filter_map(|id| Id::new(id.as_str()).ok());
        let ids = ids.collect();
        self.compare_followers(pass, ids, rows).await?;
        if next == "0" {
            pass.tables.start += 1;
            pass.visits.end_part();
        }
        pass.row = next;
        Ok(true)
    }

    /// Appends a check of the counters of a user.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn check_followers_of(
        &self,
        pass: &mut FollowersPass<'_>,
        uid: &Id,
    ) -> Result<(), StoreError> {
        let metrics = self.sources(pass, uid)?;
        let check = self.user_check(user(uid)?, &pass.how)?;
        self.append(pass, vec![CheckRequest { check, metrics }])
            .await
    }

    async fn append(
        &self,
        pass: &mut FollowersPass<'_>,
        requests: Vec<CheckRequest>,
    ) -> Result<(), StoreError> {
        let homes = requests.iter().map(|request| &request.check.eid);
        let homes = homes.map(|uid| self.store.keys().of_user(uid));
        pass.homes.extend(homes);
        pass.suspects += requests.len();
        let appended = append_checks(&self.store, &requests).await?;
        pass.appended.extend(appended.last);
        Ok(())
    }

    /// Whether this counter of users counts facts on them.
    pub fn counts_followers(&self, counter: &Name) -> bool {
        let counted = self.counted();
        counted
            .iter()
            .any(|counted| counted.counter.name() == counter)
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
    fn user_of(&self, key: &[u8], pass: &FollowersPass<'_>) -> Option<Id> {
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

    /// Where the facts on a user are.
    fn sources(
        &self,
        pass: &FollowersPass<'_>,
        uid: &Id,
    ) -> Result<Vec<(Name, CardSource)>, StoreError> {
        let entity = user(uid)?;
        let (keys, backend) = (self.store.keys(), self.store.backend());
        let stores = FactStores::new(keys, backend, self.config.facts.shards);
        let metrics = pass.counted.iter().flat_map(|counted| &counted.metrics);
        let sources = metrics
            .map(|(name, kind)| (name.clone(), stores.get(*kind).card_source(name, &entity)));
        Ok(sources.collect())
    }

    /// Compares the counters of these users, who were found among so many keys or rows, by plain reads. Appends a check for each difference.
    async fn compare_followers(
        &self,
        pass: &mut FollowersPass<'_>,
        ids: BTreeSet<Id>,
        visited: usize,
    ) -> Result<(), StoreError> {
        pass.visits.add(visited as u64, ids.len() as u64);
        if ids.is_empty() {
            return Ok(());
        }
        let backend = self.store.backend();
        let locator = Locator::of(&self.store);
        let (mut counters, mut calls, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for uid in &ids {
            let of_user = self.sources(pass, uid)?;
            let all: Vec<CardSource> = of_user.iter().map(|(_, source)| source.clone()).collect();
            calls.push(cards(backend, &all));
            counters.push(CountersToRead {
                at: locator.user(uid),
                len: pass.user_len,
                min_len: 0,
            });
            sources.push(of_user);
        }
        let page = read_page(&self.store, &counters, &calls).await?;
        let (mut requests, mut damaged) = (Vec::new(), BTreeSet::new());
        for (((uid, fields), reply), metrics) in
            ids.iter().zip(page.fields).zip(page.replies).zip(sources)
        {
            let is_damaged = matches!(fields, Err(StoreError::WrongType(_)));
            let (Ok(fields), Ok(reply)) = (fields, reply) else {
                damaged.extend(is_damaged.then(|| uid.clone()));
                let names = pass.counted.iter().map(|counted| counted.counter.name());
                names.for_each(|name| pass.report.add_unchecked(name));
                continue;
            };
            let mut facts = decode_cards(reply)?.into_iter();
            let is_suspect = pass.counted.iter().any(|Counted { counter, metrics }| {
                let count = fields.get(usize::from(counter.index()));
                let facts: Vec<Card> = facts.by_ref().take(metrics.len()).collect();
                may_differ(facts, count.copied())
            });
            if is_suspect {
                let check = self.user_check(user(uid)?, &pass.how)?;
                requests.push(CheckRequest { check, metrics });
            } else {
                let names = pass.counted.iter().map(|counted| counted.counter.name());
                names.for_each(|name| pass.report.add_equal(name));
            }
        }
        self.append(pass, requests).await?;
        // A key of another type cannot be compared. The rebuild deletes it, and later sweeps correct what it does not restore.
        if pass.how.mode != CheckMode::Report && !damaged.is_empty() {
            Rebuilder::of(&self.config, &self.store)
                .users(damaged)
                .await;
        }
        self.pace(ids.len()).await;
        Ok(())
    }

    fn user_check(&self, entity: Entity, how: &FollowersCheck) -> Result<Check, StoreError> {
        let source =
            Name::new("user").map_err(|error| StoreError::Unexpected(error.to_string()))?;
        Ok(Check {
            mode: how.mode,
            report: how.report.clone(),
            round: how.round,
            ..Check::exact(&entity, source)
        })
    }
}

/// A user as an entity.
fn user(uid: &Id) -> Result<Entity, StoreError> {
    let etype = Name::new(USER).map_err(|error| StoreError::Unexpected(error.to_string()))?;
    let eid = uid.clone();
    Ok(Entity { etype, eid })
}
