//! The metrics and the types of entities of the configuration, and the schemas of their counters.

use super::schema::{Schema, Schemas};
use crate::domain::config::{Config, Metric};
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Name};
use crate::domain::text::shorten;
use crate::redis::store::Store;
use std::sync::Arc;

/// The configuration and the schemas that it names. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    /// The configuration.
    pub config: Arc<Config>,
    /// The schemas, cached.
    pub schemas: Schemas,
}

impl Catalog {
    /// Of a configuration and the Redis that has the schemas.
    pub fn new(config: Arc<Config>, store: Store) -> Catalog {
        Catalog {
            config,
            schemas: Schemas::new(store),
        }
    }

    /// The metric of a name or alias.
    ///
    /// # Errors
    /// There is none.
    pub fn metric(&self, name: &str) -> Result<(&Name, &Metric), Problem> {
        let metric = self.config.metrics.get(name);
        metric.ok_or_else(|| Problem::UnknownMetric(shorten(name)))
    }

    /// The schema id of an entity's type; `None` for users.
    ///
    /// # Errors
    /// There is no such type.
    pub fn schema_id(&self, etype: &Name) -> Result<Option<&Name>, Problem> {
        let schema = self.config.schema_of(etype);
        schema.ok_or_else(|| Problem::UnknownType(etype.clone()))
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
            Problem::Unprocessable(format!("schema {id} has no metric {}", shorten(metric)))
        })?;
        Ok((id, idx, schema))
    }

    fn entity_schema_id(&self, entity: &Entity) -> Result<&Name, Problem> {
        let id = self.schema_id(&entity.etype)?;
        id.ok_or_else(|| {
            Problem::Unprocessable(
                "users have no counters of this kind: see /relation/counter".to_owned(),
            )
        })
    }
}
