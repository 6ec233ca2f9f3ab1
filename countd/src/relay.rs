//! What outbox relays send: envelopes, checked and appended to the log.

use crate::consumer::is_to_count;
use crate::event::{Envelope, Event, NoEvent};
use crate::ids::Id;
use crate::keys::Partition;
use crate::log::{Kind, Log, Streams};
use crate::schema::SchemaError;
use crate::service::{Problem, Service};
use serde_json::Value;
use std::collections::BTreeMap;

/// So many envelopes are refused at most before the others are not looked at.
const MAX_REFUSED: usize = 100;

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
    logs: BTreeMap<Partition, Vec<(Kind, Vec<u8>)>>,
    /// How many there are.
    pub count: usize,
    /// How many each user has.
    pub users: BTreeMap<Id, usize>,
}

impl Service {
    /// Checks envelopes.
    ///
    /// # Errors
    /// The store could not be asked. The inner error: those that are refused.
    pub async fn check_envelopes(
        &self,
        items: Vec<Result<Value, Problem>>,
    ) -> Result<Result<Checked, Vec<Refused>>, Problem> {
        let keys = self.store.keys();
        let mut all = Checked::default();
        let mut refused = Vec::new();
        for (item, value) in items.into_iter().enumerate() {
            let event_id = value.as_ref().ok().and_then(event_id);
            let checked = match value {
                Ok(value) => self.checked(value).await,
                Err(problem) => Err(problem),
            };
            match checked {
                Ok((event, json)) => {
                    let log = all.logs.entry(keys.of_entity(&event.entity)).or_default();
                    log.push((Kind::Envelope, json));
                    *all.users.entry(event.uid).or_default() += 1;
                    all.count += 1;
                }
                Err(problem @ (Problem::Store(_) | Problem::Schema(_))) => return Err(problem),
                Err(problem) => refused.push(Refused {
                    item,
                    event_id,
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
        let log = Streams::new(self.store.clone(), self.config.log.retain);
        Ok(log.append(&checked.logs).await?)
    }

    /// The event of an envelope, and the envelope's form in the log.
    async fn checked(&self, value: Value) -> Result<(Event, Vec<u8>), Problem> {
        let malformed = |why: String| Problem::Malformed(why);
        let envelope = serde_json::from_value::<Envelope>(value);
        let envelope = envelope.map_err(|why| malformed(why.to_string()))?;
        let event = envelope.event();
        let event = event.map_err(|why| match why {
            NoEvent::Text(_) | NoEvent::Other(_) | NoEvent::Metric => {
                Problem::Unfit(why.to_string())
            }
            why => malformed(why.to_string()),
        })?;
        if !event.is_in_range() {
            return Err(malformed("payload: delta is out of range".to_owned()));
        }
        self.can_be_counted(&event).await?;
        let json = serde_json::to_vec(&envelope).map_err(|why| malformed(why.to_string()))?;
        Ok((event, json))
    }

    /// What the consumer would send to the dead letters is better refused.
    async fn can_be_counted(&self, event: &Event) -> Result<(), Problem> {
        let of_type = self.schema_id(&event.entity.etype)?;
        if !is_to_count(event, &self.config) {
            return Ok(());
        }
        let Some(id) = event.schema.as_ref().or(of_type) else {
            return Err(Problem::Unfit(
                "users have no counters of this kind".to_owned(),
            ));
        };
        let metric = self.config.metrics.resolve(event.metric.as_str());
        let known = self.config.metrics.get(metric);
        if known.is_some_and(|(_, known)| !known.applies_to(&event.entity.etype)) {
            let etype = &event.entity.etype;
            return Err(Problem::Unfit(format!("{etype} has no {metric}")));
        }
        let schema = match self.schemas.with_name(id, metric).await {
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

fn event_id(value: &Value) -> Option<String> {
    match value.get("event_id")? {
        Value::String(id) => Some(crate::service::shorten(id)),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}
