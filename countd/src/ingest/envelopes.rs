//! What outbox relays send: envelopes, checked and appended to the log.

use crate::domain::error::Problem;
use crate::domain::error::SchemaError;
use crate::domain::event::{Envelope, Event, InvalidEvent};
use crate::domain::event_class::changes_entity_counter;
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::domain::text::{brief, shorten};
use crate::log::{EntryKind, EventLog, Streams};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// So many envelopes are refused at most before the others are not looked at.
const MAX_REFUSED: usize = 100;

/// After so many envelopes others have a turn: nothing else here waits.
const YIELD_AFTER: usize = 256;

/// An envelope of a request that is refused.
pub struct Refused {
    /// Which: 0 is the first.
    pub item: usize,
    /// Its id, if it has one.
    pub event_id: Option<String>,
    /// Why.
    pub problem: Problem,
}

/// Envelopes that can be counted, as they are to be appended.
#[derive(Default)]
pub struct Checked {
    logs: BTreeMap<Partition, Vec<(EntryKind, Vec<u8>)>>,
    /// How many there are.
    pub count: usize,
    /// How many each user has.
    pub users: BTreeMap<Id, usize>,
}

/// Checks and appends envelopes of other services. Cheap to clone.
#[derive(Clone)]
pub struct Envelopes {
    catalog: Catalog,
    store: Store,
}

impl Envelopes {
    /// For the metrics of a catalog and the log of a store.
    pub fn new(catalog: Catalog, store: Store) -> Envelopes {
        Envelopes { catalog, store }
    }

    /// Checks envelopes.
    ///
    /// # Errors
    /// The store could not be asked. The inner error: those that are refused.
    pub async fn check_envelopes(
        &self,
        items: impl Iterator<Item = &[u8]> + Send,
    ) -> Result<Result<Checked, Vec<Refused>>, Problem> {
        let keys = self.store.keys();
        let mut all = Checked::default();
        let mut refused = Vec::new();
        for (item, json) in items.enumerate() {
            if item % YIELD_AFTER == YIELD_AFTER - 1 {
                tokio::task::yield_now().await;
            }
            match self.checked(json).await {
                Ok((event, stored)) => {
                    let log = all.logs.entry(keys.of_entity(&event.entity)).or_default();
                    log.push((EntryKind::Envelope, stored));
                    *all.users.entry(event.uid).or_default() += 1;
                    all.count += 1;
                }
                Err(problem @ (Problem::Store(_) | Problem::Schema(_))) => return Err(problem),
                Err(problem) => refused.push(Refused {
                    item,
                    event_id: event_id(json),
                    problem,
                }),
            }
            if refused.len() == MAX_REFUSED {
                break;
            }
        }
        Ok(match refused.is_empty() {
            true => Ok(all),
            false => Err(refused),
        })
    }

    /// Appends envelopes to the logs of their entities, in their order.
    ///
    /// # Errors
    /// The store could not do it: some of them may have been appended.
    pub async fn append_envelopes(&self, checked: &Checked) -> Result<(), Problem> {
        let log = Streams::new(self.store.clone(), &self.catalog.config);
        Ok(log.append(&checked.logs).await?)
    }

    /// The event of an envelope, and the envelope's form in the log.
    async fn checked(&self, json: &[u8]) -> Result<(Event, Vec<u8>), Problem> {
        let (event, stored) = opened(json)?;
        self.can_be_counted(&event).await?;
        Ok((event, stored))
    }

    /// What the consumer would send to the dead letters is better refused.
    async fn can_be_counted(&self, event: &Event) -> Result<(), Problem> {
        let of_type = self.catalog.schema_id(&event.entity.etype)?;
        if !changes_entity_counter(event, &self.catalog.config) {
            return Ok(());
        }
        let Some(id) = event.schema.as_ref().or(of_type) else {
            return Err(Problem::Unfit(
                "users have no counters of this kind".to_owned(),
            ));
        };
        let metric = self.catalog.config.metrics.resolve(event.metric.as_str());
        let known = self.catalog.config.metrics.get(metric);
        if known.is_some_and(|(_, known)| !known.applies_to(&event.entity.etype)) {
            let etype = &event.entity.etype;
            return Err(Problem::Unfit(format!("{etype} has no {metric}")));
        }
        let schema = match self.catalog.schemas.with_name(id, metric).await {
            Err(SchemaError::Missing(id)) if event.schema.is_some() => {
                return Err(Problem::Unfit(format!("there is no schema {id}")));
            }
            found => found?,
        };
        match schema.index_of(metric) {
            Some(_) => Ok(()),
            None => Err(Problem::Unfit(format!(
                "schema {id} has no metric {metric}"
            ))),
        }
    }
}

/// The event of an envelope, and the form that the log keeps: what is known of it, and nothing else that was sent.
fn opened(json: &[u8]) -> Result<(Event, Vec<u8>), Problem> {
    let envelope = serde_json::from_slice::<Envelope<'_>>(json);
    let envelope = envelope.map_err(|why| Problem::Malformed(brief(&why)))?;
    let event = envelope.event().map_err(|why| match why {
        InvalidEvent::Text(_) | InvalidEvent::Other(_) | InvalidEvent::Metric => {
            Problem::Unfit(brief(&why))
        }
        why => Problem::Malformed(brief(&why)),
    })?;
    if !event.is_in_range() {
        let problem = "payload: delta is out of range";
        return Err(Problem::Malformed(problem.to_owned()));
    }
    let stored = event.to_envelope(&envelope.event_id, &envelope.event_type);
    Ok((event, stored))
}

/// The id of what is no envelope, if it has one.
fn event_id(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        event_id: &'a RawValue,
    }
    let Named { event_id } = serde_json::from_slice(json).ok()?;
    match event_id.get().as_bytes().first()? {
        b'"' => Some(shorten(
            &serde_json::from_str::<String>(event_id.get()).ok()?,
        )),
        b'-' | b'0'..=b'9' => Some(shorten(event_id.get())),
        _ => None,
    }
}
