//! The catalog: the configured metrics and entity types, and the schemas of their counters.

use super::schema::{Schema, Schemas, user_schema_id};
use crate::domain::config::{Config, Metric};
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Name};
use crate::domain::text::shorten;
use crate::redis::layout::StoredLayout;
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
    /// Creates a catalog. `store` has the schemas.
    pub fn new(config: Arc<Config>, store: Store) -> Catalog {
        let schemas = Schemas::new(store);
        // The names of a valid configuration are a schema.
        if let Ok(users) = Schema::new(config.users.names()) {
            schemas.seed(user_schema_id(), users);
        }
        Catalog { config, schemas }
    }

    /// Returns the metric with this name or alias.
    ///
    /// # Errors
    /// The metric is not configured.
    pub fn metric(&self, name: &str) -> Result<(&Name, &Metric), Problem> {
        let metric = self.config.metrics.get(name);
        metric.ok_or_else(|| Problem::UnknownMetric(shorten(name)))
    }

    /// The name of a metric by its name, an alias, or the name that a migrated schema has for its counter. Facts, counts by day and credits
    /// have the name of the metric.
    pub fn metric_name<'a>(
        &'a self,
        layout: &'a StoredLayout,
        etype: &Name,
        name: &'a str,
    ) -> &'a str {
        metric_name((&*self.config, layout), etype, name)
    }

    /// The schema id of an entity's type; `None` for users.
    ///
    /// # Errors
    /// The entity type is not configured.
    pub fn schema_id(&self, etype: &Name) -> Result<Option<&Name>, Problem> {
        let schema = self.config.schema_of(etype);
        schema.ok_or_else(|| Problem::UnknownType(etype.clone()))
    }

    /// The schema of an entity's counters.
    ///
    /// # Errors
    /// The entity type has no schema, or the schema cannot be read.
    pub async fn schema(&self, entity: &Entity) -> Result<(&Name, Arc<Schema>), Problem> {
        let id = self.entity_schema_id(entity)?;
        Ok((id, self.schemas.get(id).await?))
    }

    /// The schema of an entity's counters, if it is in memory and need not be read again.
    ///
    /// # Errors
    /// The entity type has no schema.
    pub fn fresh_schema(&self, entity: &Entity) -> Result<Option<Arc<Schema>>, Problem> {
        Ok(self.schemas.fresh(self.entity_schema_id(entity)?))
    }

    /// The schema id of an entity's counters, the index of a metric's field, and the schema.
    ///
    /// # Errors
    /// The entity type has no schema, the schema does not have the metric, or the schema cannot be read.
    pub async fn field(
        &self,
        entity: &Entity,
        metric: &str,
    ) -> Result<(&Name, usize, Arc<Schema>), Problem> {
        let id = self.entity_schema_id(entity)?;
        let schema = self.schemas.with_name(id, metric).await?;
        let idx = schema.served_index_of(metric);
        let idx = idx.ok_or_else(|| self.missing_field(id, metric))?;
        Ok((id, idx, schema))
    }

    /// The problem of a metric that a schema does not have.
    pub fn missing_field(&self, schema: &Name, metric: &str) -> Problem {
        match self.config.metrics.get(metric) {
            None => Problem::UnknownMetric(shorten(metric)),
            Some((name, _)) => {
                Problem::Unprocessable(format!("schema {schema} has no metric {name}"))
            }
        }
    }

    fn entity_schema_id(&self, entity: &Entity) -> Result<&Name, Problem> {
        let id = self.schema_id(&entity.etype)?;
        id.ok_or_else(|| {
            Problem::Unprocessable(
                "the type user has no schema: its counters are the user counters".to_owned(),
            )
        })
    }
}

/// [`Catalog::metric_name`].
pub fn metric_name<'a>(
    (config, layout): (&'a Config, &'a StoredLayout),
    etype: &Name,
    name: &'a str,
) -> &'a str {
    let resolved = config.metrics.resolve(name);
    match (
        config.metrics.get(resolved),
        config.schema_of(etype).flatten(),
    ) {
        (None, Some(columns)) => layout.column_name(columns, resolved),
        _ => resolved,
    }
}
