//! Validates envelopes of outbox relays and appends them to the log.

use super::records::{record_of, rejected};
use crate::domain::error::{Problem, SchemaError};
use crate::domain::event::{Envelope, Event, InvalidEvent};
use crate::domain::event_class::changes_entity_counter;
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::domain::text::{brief, shorten};
use crate::log::kafka::{OutgoingRecord, Topic};
use crate::log::{EntryKind, EventLog, Streams};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotTracker;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The maximum number of invalid envelopes that are reported. Validation stops there.
const MAX_REJECTED: usize = 100;

/// The number of envelopes after which validation yields to other tasks.
const YIELD_AFTER: usize = 256;

/// An envelope that was rejected.
pub struct RejectedEnvelope {
    /// The 0-based position in the request.
    pub item: usize,
    /// The ID of the envelope, if it can be parsed.
    pub event_id: Option<String>,
    /// Why it was rejected.
    pub problem: Problem,
}

/// Validated envelopes, ready to be appended.
#[derive(Default)]
pub struct ValidEnvelopes {
    logs: BTreeMap<Partition, Vec<(EntryKind, Vec<u8>)>>,
    /// The records of the topic, if the log is in Kafka.
    records: Vec<OutgoingRecord>,
    /// The number of envelopes.
    pub count: usize,
    /// The number of envelopes of each user.
    pub users: BTreeMap<Id, usize>,
}

impl ValidEnvelopes {
    fn push(&mut self, (store, topic): (&Store, Option<&Topic>), event: Event, stored: Vec<u8>) {
        let partition = store.keys().of_entity(&event.entity);
        match topic {
            Some(topic) => {
                let record = record_of(topic, &event, partition, stored);
                self.records.push(record);
            }
            None => {
                let log = self.logs.entry(partition).or_default();
                log.push((EntryKind::Envelope, stored));
            }
        }
        *self.users.entry(event.uid).or_default() += 1;
        self.count += 1;
    }
}

/// Validates and appends envelopes of other services. Cheap to clone.
#[derive(Clone)]
pub struct EnvelopeWriter {
    catalog: Catalog,
    store: Store,
    hot: HotTracker,
    /// The topic, if the log is in Kafka.
    topic: Option<Topic>,
}

impl EnvelopeWriter {
    /// Uses the metrics and schemas of `catalog` and the log of `store`. `hot` counts the events of entities.
    pub fn new(catalog: Catalog, store: Store, hot: HotTracker) -> EnvelopeWriter {
        EnvelopeWriter {
            catalog,
            store,
            hot,
            topic: None,
        }
    }

    /// Appends envelopes to a topic, if there is one.
    pub fn with_topic(self, topic: Option<Topic>) -> EnvelopeWriter {
        EnvelopeWriter { topic, ..self }
    }

    /// Where envelopes are appended.
    fn target(&self) -> (&Store, Option<&Topic>) {
        (&self.store, self.topic.as_ref())
    }

    /// Validates envelopes.
    ///
    /// # Errors
    /// A schema cannot be read. The inner error lists the invalid envelopes.
    pub async fn validate(
        &self,
        items: impl Iterator<Item = &[u8]> + Send,
    ) -> Result<Result<ValidEnvelopes, Vec<RejectedEnvelope>>, Problem> {
        let mut valid = ValidEnvelopes::default();
        let mut rejected = Vec::new();
        for (item, json) in items.enumerate() {
            if item % YIELD_AFTER == YIELD_AFTER - 1 {
                tokio::task::yield_now().await;
            }
            match self.validate_one(json).await {
                Ok((event, stored)) => {
                    self.hot.record_write(&event.entity);
                    valid.push(self.target(), event, stored);
                }
                Err(problem) if !is_invalid(&problem) => return Err(problem),
                Err(problem) => rejected.push(RejectedEnvelope {
                    item,
                    event_id: event_id(json),
                    problem,
                }),
            }
            if rejected.len() == MAX_REJECTED {
                break;
            }
        }
        Ok(match rejected.is_empty() {
            true => Ok(valid),
            false => Err(rejected),
        })
    }

    /// Validates an envelope and adds it to `valid`, or returns why it cannot be counted.
    ///
    /// # Errors
    /// A schema cannot be read.
    pub async fn add(
        &self,
        envelope: &Envelope<'_>,
        valid: &mut ValidEnvelopes,
    ) -> Result<Result<(), Problem>, Problem> {
        let added = async {
            let (event, stored) = event_of(envelope)?;
            self.check_counter(&event).await?;
            valid.push(self.target(), event, stored);
            Ok(())
        };
        match added.await {
            Err(problem) if !is_invalid(&problem) => Err(problem),
            added => Ok(added),
        }
    }

    /// Appends envelopes to the logs of their partitions, in order.
    ///
    /// # Errors
    /// Redis or Kafka failed. Some envelopes may have been appended.
    pub async fn append(&self, envelopes: &ValidEnvelopes) -> Result<(), Problem> {
        if let Some(topic) = &self.topic {
            if let Some(refusal) = topic.refusal(&self.store.layout()) {
                return Err(rejected(&refusal));
            }
            let results = topic.producer().send(&envelopes.records).await;
            let failed = results.into_iter().find_map(Result::err);
            return failed.map_or(Ok(()), |error| Err(rejected(&error)));
        }
        let log = Streams::new(self.store.clone(), &self.catalog.config);
        Ok(log.append(&envelopes.logs).await?)
    }

    /// Returns the event of an envelope, and the form of the envelope in the log.
    async fn validate_one(&self, json: &[u8]) -> Result<(Event, Vec<u8>), Problem> {
        let (event, stored) = parse(json)?;
        self.check_counter(&event).await?;
        Ok((event, stored))
    }

    /// Rejects an event that the consumer would move to the dead letters.
    async fn check_counter(&self, event: &Event) -> Result<(), Problem> {
        let default_schema = self.catalog.schema_id(&event.entity.etype)?;
        let metrics = &self.catalog.config.metrics;
        let (etype, layout) = (&event.entity.etype, self.store.layout());
        let name = event.metric.as_str();
        let name = self.catalog.metric_name(&layout, etype, name);
        if metrics
            .get(name)
            .is_some_and(|(_, metric)| !metric.applies_to(etype))
        {
            let problem = format!("entity type {etype} has no metric {name}");
            return Err(Problem::Unprocessable(problem));
        }
        if !changes_entity_counter(event, &self.catalog.config) {
            return Ok(());
        }
        let named = event.schema.as_ref();
        let named = named.map(|schema| layout.columns_of(etype, schema));
        let Some(id) = named.or(default_schema) else {
            return Err(Problem::Unprocessable(
                "users have no counter of this metric".to_owned(),
            ));
        };
        let schema = match self.catalog.schemas.with_name(id, name).await {
            Err(SchemaError::Missing(id)) if event.schema.is_some() => {
                return Err(Problem::Unprocessable(format!("there is no schema {id}")));
            }
            schema => schema?,
        };
        match schema.served_index_of(name) {
            Some(_) => Ok(()),
            None => Err(self.catalog.missing_field(id, name)),
        }
    }
}

/// Whether the problem is one of the envelope. Otherwise validation failed.
fn is_invalid(problem: &Problem) -> bool {
    !matches!(
        problem,
        Problem::Store(_) | Problem::Schema(_) | Problem::TopicUnavailable(_)
    )
}

/// Parses an envelope. The stored form has no unknown fields.
fn parse(json: &[u8]) -> Result<(Event, Vec<u8>), Problem> {
    let envelope = serde_json::from_slice::<Envelope<'_>>(json);
    let envelope = envelope.map_err(|error| Problem::Malformed(brief(&error)))?;
    event_of(&envelope)
}

/// The event of an envelope, and the form of the envelope in the log.
fn event_of(envelope: &Envelope<'_>) -> Result<(Event, Vec<u8>), Problem> {
    let event = envelope.event().map_err(|error| match error {
        InvalidEvent::StringPayload(_)
        | InvalidEvent::EntityMismatch(_)
        | InvalidEvent::MissingMetric => Problem::Unprocessable(brief(&error)),
        error => Problem::Malformed(brief(&error)),
    })?;
    if !event.is_in_range() {
        let problem = "payload: delta is out of range";
        return Err(Problem::Malformed(problem.to_owned()));
    }
    let stored = event.to_envelope(&envelope.event_id, &envelope.event_type);
    Ok((event, stored))
}

/// The `event_id` of an invalid envelope, if it is a string or a number.
fn event_id(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct WithEventId<'a> {
        #[serde(borrow)]
        event_id: &'a RawValue,
    }
    let WithEventId { event_id } = serde_json::from_slice(json).ok()?;
    match event_id.get().as_bytes().first()? {
        b'"' => Some(shorten(
            &serde_json::from_str::<String>(event_id.get()).ok()?,
        )),
        b'-' | b'0'..=b'9' => Some(shorten(event_id.get())),
        _ => None,
    }
}
