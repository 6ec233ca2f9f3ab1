//! Rebuilds the counters of entities from the facts that they count, or from their totals and days.

use super::append::{CheckRequest, append_checks};
use super::day_states::{self, DaysState, read_states};
use super::flights::{Flights, Recounts};
use super::lost::{LostTable, RECORD_PERMISSIONS, record_lost};
use super::source::{Source, Sources, UserSource};
use super::users::reverse_counters;
use super::zeros::VerifiedZeros;
use crate::domain::changes::ChangedEntities;
use crate::domain::config::{BUILT_IN_COUNTERS, Config, Count, FactKind, USER};
use crate::domain::error::{Problem, StoreError, rejected_by_foreign_last_id};
use crate::domain::event::{Cause, Check, CheckMode, Journal, NewAuthor, now_ms};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::facts::recount_permissions;
use crate::facts::{Card, CardSource, CounterField, FactStores, cards, decode_cards};
use crate::log::renumber;
use crate::redis::call::RedisCall;
use crate::redis::day::DayNumbers;
use crate::redis::layout::Authors;
use crate::redis::permissions::Permissions;
use crate::redis::script::{
    AUDIT, CHANGES, CounterBackend, DAY_COUNTS, DAY_NUMBERS, SOURCES, ScriptTemplate,
};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::schema::user_schema_id;
use redis::{FromRedisValue, Value};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

const EXPECTED: &str = include_str!("../lua/expected.lua");
static REBUILD: ScriptTemplate = ScriptTemplate::writing(&[
    AUDIT,
    CHANGES,
    SOURCES,
    DAY_COUNTS,
    DAY_NUMBERS,
    EXPECTED,
    include_str!("../lua/rebuild.lua"),
]);
static READ: ScriptTemplate = ScriptTemplate::reading(&[
    SOURCES,
    DAY_COUNTS,
    DAY_NUMBERS,
    EXPECTED,
    include_str!("../lua/expected_read.lua"),
]);
/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["EXISTS {facts}", "EXISTS {day_counts}"];

/// The interval at which a lock of another process is checked.
const POLL: Duration = Duration::from_millis(20);
/// The maximum number of keys of an `EXISTS`.
const MAX_KEYS: usize = 2_000;

/// Rebuilds counters from facts. Cheap to clone.
#[derive(Clone)]
pub struct Rebuilder(Arc<Shared>);

pub(super) struct Shared {
    pub(super) catalog: Catalog,
    pub(super) store: Store,
    pub(super) facts: FactStores,
    flights: Flights,
    pub(super) recounts: Recounts,
    zeros: VerifiedZeros,
}

/// What a rebuild returns.
pub(super) struct Rebuilt {
    /// The values of the fields.
    pub values: Vec<u64>,
    /// Whether facts need a recount.
    pub is_large: bool,
}

/// A field of the counters of an entity.
pub(super) struct Field {
    idx: usize,
    name: Name,
    feeds_author: bool,
    /// What the counter is computed from.
    pub(super) source: FieldSource,
}

/// What a counter is computed from.
pub(super) enum FieldSource {
    /// When the counter changes, and its facts.
    Facts(&'static str, CardSource),
    /// Its total and days.
    Days(DayNumbers),
    /// Nothing.
    None,
}

/// The keys and arguments of `compare` in expected.lua.
pub(super) struct Comparison {
    keys: Vec<String>,
    arguments: Vec<String>,
    pub(super) fields: Vec<Field>,
    /// The schema of the counters of an entity; `None` for those of users.
    schema: Option<Name>,
    counters: CounterField,
}

impl Rebuilder {
    /// Uses the metrics and schemas of `catalog` and the fact stores of `store`.
    pub fn new(catalog: Catalog, store: Store, facts: FactStores) -> Rebuilder {
        let zeros = VerifiedZeros::new(catalog.config.rebuild.zero());
        Rebuilder(Arc::new(Shared {
            catalog,
            store,
            facts,
            flights: Flights::default(),
            recounts: Recounts::new(),
            zeros,
        }))
    }

    /// The permissions that rebuilds require.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        Permissions::of_commands(&[PERMISSIONS, RECORD_PERMISSIONS].concat())
            .and(Permissions::of_commands(day_states::PERMISSIONS))
            .and(REBUILD.required_permissions(backend))
            .and(recount_permissions(backend))
            .and(READ.required_permissions(backend))
    }

    /// Rebuilds the counters of an entity. Returns the values of the fields of its schema; `None` if they cannot be rebuilt: a migration
    /// moves them, or Redis failed. If facts need a recount that takes too long, returns their counters as they are, and the recount goes on.
    pub async fn entity(&self, entity: &Entity, trace_id: &str) -> Option<Arc<[u64]>> {
        let rebuild = || {
            let (shared, entity) = (Arc::clone(&self.0), entity.clone());
            let trace_id = trace_id.to_owned();
            async move { shared.rebuild_or_recount(entity, trace_id).await }
        };
        self.0.flights.share(entity, rebuild).await
    }

    /// Rebuilds the counters of an entity, and waits for the recount of its facts if they need one.
    pub async fn complete(&self, entity: &Entity, trace_id: &str) {
        self.entity(entity, trace_id).await;
        self.0.recounts.wait(entity).await;
    }

    /// Whether entities whose counters are all 0 have facts, so that their counters were lost. Entities without facts are remembered.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn have_facts(&self, entities: &[&Entity]) -> Result<Vec<bool>, StoreError> {
        let shared = &self.0;
        let now = Instant::now();
        let mut found = vec![false; entities.len()];
        let (mut unknown, mut verified) = (Vec::new(), Vec::new());
        for (at, entity) in entities.iter().enumerate() {
            if !shared.zeros.contains(entity, now) {
                verified.push(at);
                let keys = [shared.root_keys(entity), shared.keys_of_user(entity)];
                let keys = keys.into_iter().filter(|keys| !keys.is_empty());
                unknown.extend(keys.map(|keys| (at, keys)));
            }
        }
        for (at, exists) in shared.exist(&unknown).await? {
            found[at] |= exists;
        }
        // Those that were remembered are forgotten in time, however often they are read.
        for at in verified.into_iter().filter(|at| !found[*at]) {
            shared.zeros.add(entities[at], now);
        }
        Ok(found)
    }
}

impl Shared {
    /// The keys of which at least one exists if there are facts that are kept for a user. They are in the slot of the user.
    fn keys_of_user(&self, entity: &Entity) -> Vec<String> {
        if entity.etype.as_str() != USER {
            return Vec::new();
        }
        let counters = reverse_counters(&self.store, &self.catalog.config, &BTreeSet::new());
        let sources = counters
            .iter()
            .map(|of| of.source(&self.store, &entity.eid));
        sources.flat_map(|source| source.keys().to_vec()).collect()
    }

    /// The keys of which at least one exists if an entity has facts that its counters count, or the counters of a user.
    fn root_keys(&self, entity: &Entity) -> Vec<String> {
        let layout = self.store.layout();
        let sources = Sources::new(&self.catalog.config, &layout);
        let mut keys = Vec::new();
        if entity.etype.as_str() == USER {
            for (metric, kind) in target_metrics(&self.catalog.config, &sources) {
                keys.extend(self.facts.get(kind).root_keys(&metric, entity));
            }
            return keys;
        }
        for (name, metric) in self.catalog.config.metrics.iter() {
            if !metric.applies_to(&entity.etype) || metric.count == Count::Never {
                continue;
            }
            match sources.of_entity(name) {
                Source::Facts(kind) | Source::FactsBatched(kind) => {
                    keys.extend(self.facts.get(kind).root_keys(name, entity));
                }
                Source::Days => {
                    let layout = self.store.keys();
                    keys.push(layout.days_of(name, entity));
                    keys.push(layout.history_of(name, entity));
                }
                Source::None => {}
            }
        }
        keys
    }

    /// Whether at least one of the keys of each item exists.
    async fn exist(
        &self,
        items: &[(usize, Vec<String>)],
    ) -> Result<Vec<(usize, bool)>, StoreError> {
        // Usually none of a page's entities has facts. In a cluster their keys are in different slots.
        let count: usize = items.iter().map(|(_, keys)| keys.len()).sum();
        if !self.store.keys().tagged() && items.len() > 1 && count <= MAX_KEYS {
            let mut call = redis::cmd("EXISTS");
            items.iter().for_each(|(_, keys)| _ = call.arg(keys));
            let existing: u64 = call.query_async(&mut self.store.reads()).await?;
            if existing == 0 {
                return Ok(items.iter().map(|(at, _)| (*at, false)).collect());
            }
        }
        let mut pipeline = redis::pipe();
        for (_, keys) in items {
            pipeline.cmd("EXISTS").arg(keys);
        }
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let existing: Vec<u64> = pipeline.query_async(&mut self.store.reads()).await?;
        let existing = existing.into_iter().map(|count| count > 0);
        Ok(items.iter().map(|(at, _)| *at).zip(existing).collect())
    }

    /// Rebuilds the counters; if that fails, counts the facts.
    pub(super) async fn rebuild_or_count(
        &self,
        entity: &Entity,
        trace_id: &str,
    ) -> Option<Rebuilt> {
        let Entity { etype, eid } = entity;
        match self.rebuild(entity, trace_id).await {
            Ok(rebuilt) => rebuilt,
            Err(error) => {
                tracing::warn!(%etype, %eid, %error, "counters cannot be rebuilt now");
                let values = self.count(entity).await.unwrap_or_default();
                values.map(|values| Rebuilt {
                    values,
                    is_large: false,
                })
            }
        }
    }

    /// Rebuilds the counters under the lock. If another process keeps the lock for too long, counts the facts.
    async fn rebuild(&self, entity: &Entity, trace_id: &str) -> Result<Option<Rebuilt>, Problem> {
        let Some(comparison) = self.comparison(entity).await? else {
            return Ok(None);
        };
        let call = self.rebuild_call(entity, &comparison, trace_id);
        let partition = self.home(entity);
        let until = Instant::now() + self.catalog.config.rebuild.wait();
        loop {
            let reply = match call.send(&self.store).await {
                // A rejected append has no effect.
                Err(error) if rejected_by_foreign_last_id(&error) => {
                    renumber(&self.store, partition).await?;
                    call.send(&self.store).await?
                }
                reply => reply?,
            };
            let (wrong, flags, mut values) = decode(reply)?;
            let (is_table_lost, mut is_large) = (flags & 1 != 0, flags & 2 != 0);
            if wrong < 0 && Instant::now() < until {
                tokio::time::sleep(POLL).await;
                continue;
            }
            if let (true, Some(schema)) = (is_table_lost, &comparison.schema) {
                let table = LostTable::of(&self.store, schema, entity);
                record_lost(&self.store, [&table]).await?;
            }
            if wrong > 0 || is_table_lost {
                let Entity { etype, eid } = entity;
                tracing::warn!(%etype, %eid, is_table_lost, "counters were rebuilt from facts");
                metrics::counter!("countd_rebuilds_total").increment(1);
            }
            let is_user = entity.etype.as_str() == USER;
            if is_user {
                is_large |= self.check_followers(entity, &mut values, trace_id).await?;
            }
            // It is not rebuilt again while events of the user wait. Counts by day may add up to 0.
            if is_user || wrong >= 0 && values.iter().all(|value| *value == 0) {
                self.zeros.add(entity, Instant::now());
            }
            return Ok(Some(Rebuilt { values, is_large }));
        }
    }

    /// The partition of the counters of an entity or a user.
    fn home(&self, entity: &Entity) -> Partition {
        match entity.etype.as_str() {
            USER => self.store.keys().of_user(&entity.eid),
            _ => self.store.keys().of_entity(entity),
        }
    }

    /// Counts the facts on a user, puts the numbers into values of 0, and appends a check that corrects the counters. Returns whether facts
    /// need a recount: their counters are left alone.
    async fn check_followers(
        &self,
        user: &Entity,
        values: &mut [u64],
        trace_id: &str,
    ) -> Result<bool, Problem> {
        let (config, layout) = (&self.catalog.config, self.store.layout());
        let sources = Sources::new(config, &layout);
        let (mut metrics, mut is_large) = (Vec::new(), false);
        for name in config.users.names() {
            let Some(counter) = config.users.counter(&name) else {
                continue;
            };
            let UserSource::Target(names) = sources.of_user(&counter) else {
                continue;
            };
            let index = usize::from(counter.index());
            let Some(value) = values.get_mut(index).filter(|value| **value == 0) else {
                continue;
            };
            let of_counter = names.into_iter().filter_map(|name| {
                let kind = config.metrics.get(name.as_str())?.1.fact_kind()?;
                let source = self.facts.get(kind).card_source(&name, user);
                Some((name, source))
            });
            let of_counter: Vec<(Name, CardSource)> = of_counter.collect();
            let facts: Vec<CardSource> = of_counter.iter().map(|(_, of)| of.clone()).collect();
            let reply = cards(self.store.backend(), &facts)
                .send_read(&self.store)
                .await?;
            let found = decode_cards(reply)?;
            if found.contains(&Card::Large) {
                is_large = true;
                continue;
            }
            for card in found {
                if let Card::Known(count) = card {
                    *value += count;
                }
            }
            if *value > 0 {
                metrics.extend(of_counter);
            }
        }
        // Otherwise processes may change counters of facts in different steps.
        if metrics.is_empty() || layout.counting != config.counting() {
            return Ok(is_large);
        }
        let source = Name::new("rebuild");
        let source = source.map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let check = Check {
            etype: user.etype.clone(),
            eid: user.eid.clone(),
            checks: Vec::new(),
            facts: Vec::new(),
            mode: CheckMode::Exact,
            report: None,
            lock: None,
            round: 0,
            source,
            trace_id: (!trace_id.is_empty()).then(|| trace_id.to_owned()),
        };
        append_checks(&self.store, &[CheckRequest { check, metrics }]).await?;
        Ok(is_large)
    }

    /// What the counters would be after a rebuild.
    async fn count(&self, entity: &Entity) -> Result<Option<Vec<u64>>, Problem> {
        let Some(comparison) = self.comparison(entity).await? else {
            return Ok(None);
        };
        let script = READ.on(self.store.backend());
        let mut call = RedisCall::script(script, &comparison.keys);
        call.cmd.arg(&comparison.arguments);
        let reply = call.send_read(&self.store).await?;
        let values = Vec::<u64>::from_redis_value(reply);
        let unexpected = |error| StoreError::Unexpected(format!("counted facts: {error}"));
        Ok(Some(values.map_err(unexpected)?))
    }

    /// The counters and their sources; `None` while a migration moves the counters.
    pub(super) async fn comparison(&self, entity: &Entity) -> Result<Option<Comparison>, Problem> {
        if entity.etype.as_str() == USER {
            return self.comparison_of_user(entity).await;
        }
        let (id, schema) = self.catalog.schema(entity).await?;
        let locator = Locator::of(&self.store);
        let counters = CounterField {
            at: locator.entity(id, entity),
            idx: 0,
            len: schema.len(),
            min_len: schema.min_len(),
            verify: false,
        };
        if counters.at.moving().is_some() {
            return Ok(None);
        }
        let daily = self.complete_days().await?;
        let names = schema.names().iter().enumerate();
        let fields: Vec<Field> = names
            .map(|field| self.field(entity, field, &locator, &daily))
            .collect();
        let keys = self.store.keys();
        let partition = keys.of_entity(entity);
        let mut all = vec![
            counters.at.key().to_owned(),
            keys.log(partition),
            keys.position(partition),
        ];
        let [row, _, len, min_len] = counters.script_args();
        let mut arguments = vec![
            row,
            len,
            min_len,
            partition.to_string(),
            fields.len().to_string(),
        ];
        for field in &fields {
            let feeds = if field.feeds_author { "1" } else { "0" };
            arguments.extend([field.idx.to_string(), field.name.to_string(), feeds.into()]);
            match &field.source {
                FieldSource::None => arguments.push("none".to_owned()),
                FieldSource::Days(days) => {
                    arguments.extend(["days".to_owned(), days.row_argument()]);
                    arguments.push(entity.eid.to_string());
                    all.extend_from_slice(days.keys());
                }
                FieldSource::Facts(changes, source) => {
                    arguments.push((*changes).to_owned());
                    arguments.extend(source.arguments());
                    all.extend_from_slice(source.keys());
                }
            }
        }
        Ok(Some(Comparison {
            keys: all,
            arguments,
            fields,
            schema: Some(id.clone()),
            counters,
        }))
    }

    /// The counters of a user and their sources; `None` while a migration moves them. Counters of facts in other slots, and those of credits,
    /// are corrected later.
    async fn comparison_of_user(&self, user: &Entity) -> Result<Option<Comparison>, Problem> {
        let schema = self.catalog.schemas.get(user_schema_id()).await?;
        let (locator, config) = (Locator::of(&self.store), &self.catalog.config);
        let counters = CounterField {
            at: locator.user(&user.eid),
            idx: 0,
            len: schema.len(),
            min_len: BUILT_IN_COUNTERS.len(),
            verify: false,
        };
        if counters.at.moving().is_some() {
            return Ok(None);
        }
        let (keys, partition) = (self.store.keys(), self.home(user));
        let mut all = vec![
            counters.at.key().to_owned(),
            keys.log(partition),
            keys.position(partition),
        ];
        let [row, _, len, min_len] = counters.script_args();
        let partition = partition.to_string();
        let mut arguments = vec![row, len, min_len, partition, schema.len().to_string()];
        let sources = Sources::new(config, locator.layout());
        let reverse = reverse_counters(&self.store, config, &BTreeSet::new());
        for (idx, name) in schema.names().iter().enumerate() {
            arguments.extend([idx.to_string(), name.to_string(), "0".to_owned()]);
            let counter = config.users.counter(name);
            let source = reverse.iter().find(|of| of.counter.name() == name);
            match (source, counter.map(|counter| sources.of_user(&counter))) {
                (Some(of), _) => {
                    let source = of.source(&self.store, &user.eid);
                    arguments.push("now".to_owned());
                    arguments.extend(source.arguments());
                    all.extend_from_slice(source.keys());
                }
                (None, Some(UserSource::Target(_) | UserSource::Credits)) => {
                    arguments.push("pending".to_owned());
                }
                (None, _) => arguments.push("none".to_owned()),
            }
        }
        Ok(Some(Comparison {
            schema: None,
            keys: all,
            arguments,
            fields: Vec::new(),
            counters,
        }))
    }

    /// The metrics of which all counts are known by day.
    async fn complete_days(&self) -> Result<HashSet<Name>, StoreError> {
        if self.catalog.config.metrics.daily().next().is_none() {
            return Ok(HashSet::new());
        }
        let states = read_states(&self.store).await?.into_iter();
        let complete = states.filter(|(_, state)| matches!(state, DaysState::On(_)));
        Ok(complete.map(|(metric, _)| metric).collect())
    }

    fn field(
        &self,
        entity: &Entity,
        (idx, name): (usize, &Name),
        locator: &Locator,
        daily: &HashSet<Name>,
    ) -> Field {
        let layout = locator.layout();
        let config = &self.catalog.config;
        let metric = config.metrics.get(name.as_str()).map(|(_, metric)| metric);
        let applies = metric.is_some_and(|metric| metric.applies_to(&entity.etype));
        let facts = |changes, kind| {
            let store = self.facts.get(kind);
            FieldSource::Facts(changes, store.card_source(name, entity))
        };
        let source = match Sources::new(config, layout).of_entity(name) {
            Source::Facts(kind) if applies => facts("now", kind),
            Source::FactsBatched(kind) if applies => facts("batched", kind),
            Source::Days if applies && daily.contains(name) => {
                let layout = (self.store.keys(), self.store.backend());
                FieldSource::Days(DayNumbers::new(layout, name, entity))
            }
            _ => FieldSource::None,
        };
        let feeds = metric.is_some_and(|metric| metric.author_counters().next().is_some());
        Field {
            idx,
            name: name.clone(),
            feeds_author: feeds && matches!(layout.authors, Authors::Registry { .. }),
            source,
        }
    }

    fn rebuild_call(&self, entity: &Entity, of: &Comparison, trace_id: &str) -> RedisCall {
        let keys = self.store.keys();
        let partition = self.home(entity);
        let is_user = entity.etype.as_str() == USER;
        let lock = match is_user {
            true => keys.user_rebuild_lock(&entity.eid),
            false => keys.rebuild_lock(entity),
        };
        let mut all = of.keys.clone();
        all.extend([lock, keys.audit(partition)]);
        let changes = &self.catalog.config.changes;
        let mut content = String::new();
        if changes.enabled {
            all.push(keys.changes(partition));
            let mut changed = ChangedEntities::default();
            match is_user {
                true => changed.add_user(&entity.eid),
                false => changed.add(entity),
            }
            content = changed.contents().concat();
        }
        let feeds_author = of.fields.iter().any(|field| field.feeds_author);
        let entry = match (self.store.layout().archives, feeds_author) {
            (true, _) => Journal::of_changes(entity, Cause::Repair, now_ms()),
            (false, true) => NewAuthor::unchanged(entity).to_json(),
            (false, false) => String::new(),
        };
        let mut call = RedisCall::script(REBUILD.on(self.store.backend()), &all);
        call.cmd.arg(&of.arguments);
        call.cmd.arg(format!("{:016x}", fastrand::u64(..)));
        call.cmd.arg(entry);
        call.cmd
            .arg(self.catalog.config.audit.retain_per_stream(keys));
        call.cmd.arg(changes.retain_per_stream(keys)).arg(content);
        call.cmd.arg(check_entry(entity, trace_id));
        let (row, ts) = (of.counters.at.row(), now_ms().to_string());
        let row = row.map(|row| row.to_string());
        let details = [
            ("source", "rebuild"),
            ("etype", entity.etype.as_str()),
            ("eid", entity.eid.as_str()),
            ("key", of.counters.at.key()),
            ("row", row.as_deref().unwrap_or_default()),
            ("traceId", trace_id),
            ("ts", &ts),
        ];
        for (field, value) in details {
            if !value.is_empty() {
                call.cmd.arg(field).arg(value);
            }
        }
        call
    }
}

/// The beginning of the entry that checks counters whose events wait in the log. Empty only if the name of the source is invalid.
fn check_entry(entity: &Entity, trace_id: &str) -> String {
    let Ok(source) = Name::new("rebuild") else {
        return String::new();
    };
    let check = Check {
        etype: entity.etype.clone(),
        eid: entity.eid.clone(),
        checks: Vec::new(),
        facts: Vec::new(),
        mode: CheckMode::Exact,
        report: None,
        lock: None,
        round: 0,
        source,
        trace_id: (!trace_id.is_empty()).then(|| trace_id.to_owned()),
    };
    check.to_json_head()
}

/// The metrics whose facts on users are counted by counters of users.
pub(super) fn target_metrics(config: &Config, sources: &Sources<'_>) -> Vec<(Name, FactKind)> {
    let mut metrics = Vec::new();
    for name in config.users.names() {
        let counter = config.users.counter(&name);
        if let Some(UserSource::Target(names)) = counter.map(|counter| sources.of_user(&counter)) {
            metrics.extend(names.into_iter().filter_map(|name| {
                let kind = config.metrics.get(name.as_str())?.1.fact_kind()?;
                Some((name, kind))
            }));
        }
    }
    metrics
}

/// The number of wrong fields (-1 if another process has the lock), the flags of the reply (rebuild.lua), and the values of the fields.
fn decode(reply: Value) -> Result<(i64, i64, Vec<u64>), StoreError> {
    let unexpected = || StoreError::Unexpected("a rebuild".to_owned());
    let Value::Array(mut replies) = reply else {
        return Err(unexpected());
    };
    if replies.len() < 2 {
        return Err(unexpected());
    }
    let values = replies.split_off(2);
    let numbers = Vec::<i64>::from_redis_value(Value::Array(replies)).map_err(|_| unexpected())?;
    let values = Vec::<u64>::from_redis_value(Value::Array(values)).map_err(|_| unexpected())?;
    Ok((numbers[0], numbers[1], values))
}
