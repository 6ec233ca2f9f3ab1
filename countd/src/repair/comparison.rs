//! What a rebuild compares: the counters of an entity or a user, and where their facts, totals and days are.

use super::rebuild::Shared;
use super::source::{Source, Sources, UserSource};
use super::users::reverse_counters;
use crate::domain::config::{BUILT_IN_COUNTERS, USER};
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Name};
use crate::facts::{CardSource, CounterField, SplitFacts};
use crate::redis::day::DayNumbers;
use crate::redis::day_states::complete_days;
use crate::redis::layout::Authors;
use crate::storage::locator::Locator;
use crate::storage::schema::user_schema_id;
use std::collections::{BTreeSet, HashSet};

/// A field of the counters of an entity.
pub(super) struct Field {
    pub(super) idx: usize,
    pub(super) name: Name,
    pub(super) feeds_author: bool,
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
    pub(super) keys: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) fields: Vec<Field>,
    /// The schema of the counters of an entity; `None` for those of users.
    pub(super) schema: Option<Name>,
    pub(super) counters: CounterField,
}

impl Shared {
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
        let is_settled = locator.layout().counting == self.catalog.config.counting();
        let daily = match is_settled {
            true => self.complete_days().await?,
            false => HashSet::new(),
        };
        let names = schema.names().iter().enumerate();
        let fields: Vec<Field> = names
            .map(|field| self.field(entity, field, &locator, (is_settled, &daily)))
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
        Ok(complete_days(&self.store).await?)
    }

    fn field(
        &self,
        entity: &Entity,
        (idx, name): (usize, &Name),
        locator: &Locator,
        (is_settled, daily): (bool, &HashSet<Name>),
    ) -> Field {
        let layout = locator.layout();
        let config = &self.catalog.config;
        let metric = config.metrics.get(name.as_str()).map(|(_, metric)| metric);
        let applies = metric.is_some_and(|metric| metric.applies_to(&entity.etype));
        let facts = |changes, kind, state| {
            let splits = SplitFacts::new(self.store.keys(), self.facts.clone());
            FieldSource::Facts(changes, splits.counted_source((name, kind), entity, state))
        };
        let state = layout.split_of(entity).map(|state| &**state);
        let source = match Sources::new(config, layout).of_entity(name) {
            Source::Facts(kind) if applies && is_settled => facts("now", kind, state),
            // Events that wait in the log may count facts of a process with other settings.
            Source::Facts(kind) if applies => facts("batched", kind, None),
            Source::FactsBatched(kind) if applies => facts("batched", kind, None),
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
}
