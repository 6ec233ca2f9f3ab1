//! What requests need: the configuration, the store, the schemas; and what can be wrong with a request.

use crate::domain::config::{Config, Metric};
use crate::domain::health::{Failed, Health};
use crate::domain::ids::{Entity, Invalid, Name};
use crate::facts::{Facts, Misfit, Ways};
use crate::redis::store::{Store, StoreError};
use crate::storage::schema::{Schema, SchemaError, Schemas};
use std::fmt::{self, Display, Write};
use std::sync::Arc;

/// Why a request is not done.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It is malformed.
    #[error("{0}")]
    Malformed(String),
    /// A name or an id in it is none.
    #[error("{0}: {1}")]
    Invalid(String, Invalid),
    /// There is no such metric.
    #[error("there is no metric {0}")]
    NoMetric(String),
    /// There is no such type of entity.
    #[error("there is no type of entity {0}")]
    NoType(Name),
    /// Well-formed, but it makes no sense for this metric or this entity.
    #[error("{0}")]
    Unfit(String),
    /// It has more items than are allowed.
    #[error("at most {0} items in a request")]
    TooMany(usize),
    /// A client does more than it may.
    #[error("too much of this {of}: try again in {retry_after} s")]
    Limited {
        /// What is limited: an address, a device or a user.
        of: &'static str,
        /// When it is worth another try, in seconds.
        retry_after: u64,
    },
    /// Requests that are under way have taken all the memory for bodies and items.
    #[error("too many bodies or items are under way: try again")]
    Busy,
    /// The user's id does not fit.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The schema cannot be used.
    #[error(transparent)]
    Schema(SchemaError),
    /// Some partitions of this process are not counted.
    #[error("{}", in_words(.0))]
    Failed(Vec<Failed>),
    /// The consumer does not get its share of the partitions.
    #[error("the consumer gets no partitions: {0}")]
    NoShare(String),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many failed partitions are named in a sentence.
const NAMED: usize = 3;

fn in_words(failed: &[Failed]) -> String {
    let some = failed.iter().take(NAMED);
    let mut words: Vec<String> = some
        .map(|one| format!("partition {}: {}", one.partition, one.reason))
        .collect();
    if failed.len() > NAMED {
        words.push(format!("and {} more", failed.len() - NAMED));
    }
    words.join("; ")
}

impl From<SchemaError> for Problem {
    fn from(error: SchemaError) -> Problem {
        match error {
            SchemaError::Store(error) => Problem::Store(error),
            error => Problem::Schema(error),
        }
    }
}

impl From<redis::RedisError> for Problem {
    fn from(error: redis::RedisError) -> Problem {
        Problem::Store(error.into())
    }
}

impl Problem {
    /// One word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::Malformed(_) | Problem::Invalid(..) => "malformed",
            Problem::NoMetric(_) => "unknown_metric",
            Problem::NoType(_) => "unknown_type",
            Problem::Unfit(_) | Problem::Misfit(_) => "unfit",
            Problem::TooMany(_) => "too_many",
            Problem::Limited { .. } => "limited",
            Problem::Busy => "busy",
            Problem::Schema(_) => "schema",
            Problem::Failed(_) | Problem::NoShare(_) => "not_counting",
            Problem::Store(StoreError::Unavailable(_)) => "unavailable",
            Problem::Store(StoreError::WrongType(_)) => "damaged",
            Problem::Store(_) => "internal",
        }
    }
}

/// Everything that requests share. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    /// The configuration.
    pub config: Arc<Config>,
    /// The server.
    pub store: Store,
    /// The schemas.
    pub schemas: Schemas,
    /// Which partitions have failed.
    pub health: Health,
    ways: Ways,
}

impl Service {
    /// Of a configuration and a server.
    pub fn new(config: Arc<Config>, store: Store) -> Service {
        let schemas = Schemas::new(store.clone());
        let ways = Ways::new(store.keys(), store.backing(), config.facts.shards);
        Service {
            config,
            store,
            schemas,
            health: Health::default(),
            ways,
        }
    }

    /// The same with what is known of partitions by others in this process.
    pub fn sharing(self, health: &Health) -> Service {
        let health = health.clone();
        Service { health, ..self }
    }

    /// The way in which the facts of a metric are kept; `None` if it is repeatable.
    pub fn facts(&self, metric: &Metric) -> Option<&dyn Facts> {
        metric.kept().map(|kind| self.ways.get(kind))
    }

    /// The same for one of which somebody asks who did it.
    ///
    /// # Errors
    /// It is repeatable.
    pub fn kept_facts(&self, name: &Name, metric: &Metric) -> Result<&dyn Facts, Problem> {
        let unkept = || Problem::Unfit(format!("{name} is repeatable: nobody knows who did it"));
        self.facts(metric).ok_or_else(unkept)
    }

    /// The metric of a name or alias.
    ///
    /// # Errors
    /// There is none.
    pub fn metric(&self, name: &str) -> Result<(&Name, &Metric), Problem> {
        let found = self.config.metrics.get(name);
        found.ok_or_else(|| Problem::NoMetric(shorten(name)))
    }

    /// The schema id of an entity's type; `None` for users.
    ///
    /// # Errors
    /// There is no such type.
    pub fn schema_id(&self, etype: &Name) -> Result<Option<&Name>, Problem> {
        let found = self.config.schema_of(etype);
        found.ok_or_else(|| Problem::NoType(etype.clone()))
    }

    /// The schema of an entity's counters.
    ///
    /// # Errors
    /// Its type has none, or the store cannot be asked.
    pub async fn schema(&self, entity: &Entity) -> Result<(&Name, Arc<Schema>), Problem> {
        let id = self.entity_schema_id(entity)?;
        Ok((id, self.schemas.get(id).await?))
    }

    /// The schema of an entity's counters and the field of a metric in it.
    ///
    /// # Errors
    /// There is no such field.
    pub async fn field(
        &self,
        entity: &Entity,
        metric: &str,
    ) -> Result<(&Name, usize, Arc<Schema>), Problem> {
        let id = self.entity_schema_id(entity)?;
        let schema = self.schemas.with_name(id, metric).await?;
        let idx = schema.index_of(metric);
        let idx = idx.ok_or_else(|| {
            Problem::Unfit(format!("schema {id} has no metric {}", shorten(metric)))
        })?;
        Ok((id, idx, schema))
    }

    fn entity_schema_id(&self, entity: &Entity) -> Result<&Name, Problem> {
        let id = self.schema_id(&entity.etype)?;
        id.ok_or_else(|| {
            Problem::Unfit("users have no counters of this kind: see /relation/counter".to_owned())
        })
    }
}

/// The longest message about what a client sent, in bytes.
const MAX_MESSAGE: usize = 256;

/// An error's message, at most 256 bytes of it: parsers quote what they read, which may be as long as a body.
pub fn brief(error: &impl Display) -> String {
    let mut message = Brief(String::new());
    // It fails where the message is cut off.
    if write!(message, "{error}").is_err() {
        message.0.push_str(" ...");
    }
    message.0
}

struct Brief(String);

impl fmt::Write for Brief {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_MESSAGE - self.0.len();
        let kept = start(text, room);
        self.0.push_str(kept);
        if kept.len() < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// The longest start of a text that has at most so many bytes.
pub fn start(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The start of a text that somebody sent.
pub fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(brief(&"short"), "short");
        let exact = "x".repeat(MAX_MESSAGE);
        assert_eq!(brief(&exact), exact);
        let long = brief(&"\u{20ac}".repeat(100_000));
        assert_eq!(long, format!("{} ...", "\u{20ac}".repeat(85)));
    }
}
