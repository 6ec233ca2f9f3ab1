//! Validates actions and prepares their commands.

pub use super::action::{Action, ActionOutcome};
pub use super::prepared::PreparedAction;

use super::groups::Groups;
use super::homes::Homes;
use super::requests::Request;
use super::split_totals::SplitTotals;
use crate::domain::config::Count;
use crate::domain::error::Problem;
use crate::domain::event::{Event, now_ms};
use crate::domain::ids::{Entity, Name};
use crate::domain::split::SplitPhase;
use crate::facts::{CounterField, FactStores};
use crate::log::kafka::Topic;
use crate::redis::script::{CHANGES, JOURNAL, OPTIONAL_KEYS, ScriptTemplate};
use crate::redis::store::Store;
use crate::repair::{Rebuilder, Source, Sources};
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotTracker;
use crate::storage::locator::Locator;

/// Sets a counter to 0.
pub(super) static RESET: ScriptTemplate = ScriptTemplate::writing(&[
    CHANGES,
    JOURNAL,
    OPTIONAL_KEYS,
    include_str!("../lua/counter_reset.lua"),
])
.with_days();

/// Prepares and executes actions. Cheap to clone.
#[derive(Clone)]
pub struct Actions {
    pub(super) catalog: Catalog,
    pub(super) store: Store,
    pub(super) facts: FactStores,
    pub(super) groups: Groups,
    pub(super) authors: Authors,
    pub(super) rebuilder: Rebuilder,
    /// `Config::counting`.
    counting: String,
    pub(super) hot: HotTracker,
    /// The topic, if the log is in Kafka.
    pub(super) topic: Option<Topic>,
    /// The users of split entities whose home is the base.
    pub(super) homes: Homes,
    /// The counters of split entities.
    pub(super) totals: SplitTotals,
}

impl Actions {
    /// Uses the metrics and schemas of `catalog` and the fact stores of `store`. `rebuilder` rebuilds lost counters. `hot` counts the
    /// actions on entities.
    pub fn new(
        catalog: Catalog,
        store: Store,
        facts: FactStores,
        authors: Authors,
        rebuilder: Rebuilder,
        hot: HotTracker,
    ) -> Actions {
        Actions {
            counting: catalog.config.counting(),
            hot,
            rebuilder,
            authors,
            catalog,
            store,
            facts,
            groups: Groups::default(),
            topic: None,
            homes: Homes::default(),
            totals: SplitTotals::default(),
        }
    }

    /// Appends the events of repeatable metrics to a topic, if there is one. Those that change something else in the same step stay in the
    /// streams.
    pub fn with_topic(self, topic: Option<Topic>) -> Actions {
        Actions { topic, ..self }
    }

    /// Validates an action and builds its command. `metric` is a name, an alias, or a *once* metric with the prefix `un`, which
    /// removes the fact; a metric with that very name takes precedence.
    ///
    /// # Errors
    /// The action is not possible for the metric or the entity, or the schema cannot be read.
    pub async fn prepare(
        &self,
        metric: &str,
        action: &Action,
        trace_id: &str,
    ) -> Result<PreparedAction, Problem> {
        self.prepare_at(metric, action, trace_id, now_ms()).await
    }

    /// [`prepare`](Self::prepare) for an action at a time, in milliseconds since 1970.
    ///
    /// # Errors
    /// See [`prepare`](Self::prepare).
    pub async fn prepare_at(
        &self,
        metric: &str,
        action: &Action,
        trace_id: &str,
        ts: u64,
    ) -> Result<PreparedAction, Problem> {
        let (name, metric, op) = self.resolve_metric(metric, action.op)?;
        // Before the state of the entity: a later change makes the action fail, and prepares it again.
        let epoch = self.store.layout().epoch;
        let entity = Entity {
            etype: Actions::entity_type(name, metric, action)?,
            eid: action.eid.clone(),
        };
        let schema = self.catalog.schema_id(&entity.etype)?;
        if !metric.applies_to(&entity.etype) {
            let problem = format!("entity type {} has no metric {name}", entity.etype);
            return Err(Problem::Unprocessable(problem));
        }
        let counter = match metric.count {
            Count::Never => None,
            Count::Now => Some(self.counter(&entity, name).await?),
            Count::Batched => {
                // Without the field, the event would become a dead letter.
                self.catalog.field(&entity, name.as_str()).await?;
                None
            }
        };
        let author = self.author(metric, op, action, &entity.etype)?.cloned();
        let split = self.split_of(&entity);
        if let (Some(state), Some(author)) = (&split, &author)
            && self.authors.are_registered()
        {
            self.authors.claim(&entity, state, author).await?;
        }
        let split = split.filter(|state| state.has(name));
        if split
            .as_ref()
            .is_some_and(|state| state.phase == SplitPhase::Merging)
        {
            return Err(Problem::Merging(entity));
        }
        let request = Request::of((name, metric, op), action, (trace_id, ts, epoch));
        if split.is_some() && request.is_none() {
            return Err(Problem::Unprocessable(format!(
                "{name} of this entity is split, but its configuration has changed: merge the entity with the earlier one first (countd hot merge)"
            )));
        }
        self.hot.record_write(&entity);
        let event = Event {
            schema: schema.cloned(),
            entity,
            metric: name.clone(),
            delta: op.delta(),
            uid: action.uid.clone(),
            author,
            trace_id: Some(trace_id.into()),
            ts,
            counted: metric.count == Count::Now,
            corrected: Vec::new(),
            retried: None,
        };
        if let Some(state) = split {
            let prepared = self.prepare_split((metric, op), action, event, state);
            return Ok(PreparedAction {
                request,
                ..prepared.await?
            });
        }
        let prepared = self.build_at((metric, op), action, &event, counter.as_ref())?;
        Ok(PreparedAction {
            request,
            ..prepared
        })
    }

    pub(super) async fn counter(
        &self,
        entity: &Entity,
        metric: &Name,
    ) -> Result<CounterField, Problem> {
        let (id, idx, schema) = self.catalog.field(entity, metric.as_str()).await?;
        let locator = Locator::of(&self.store);
        let at = locator.entity(id, entity);
        let sources = Sources::new(&self.catalog.config, locator.layout());
        // Otherwise a counter may be 0 because events of other settings, which count its facts, wait in the log.
        let is_settled = locator.layout().counting == self.counting;
        let verify = at.moving().is_none()
            && is_settled
            && matches!(sources.of_entity(metric), Source::Facts(_));
        Ok(CounterField {
            at,
            idx,
            len: schema.len(),
            min_len: schema.min_len(),
            verify,
        })
    }
}
