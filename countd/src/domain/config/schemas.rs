//! `[schemas]`: the schemas that countd creates.

use super::error::{ConfigError, invalid};
use super::metrics::USER;
use crate::domain::error::MAX_NAMES;
use crate::domain::ids::Name;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// `[schemas.{id}]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct SchemaConfig {
    /// The names of the counters, in the order of their fields.
    pub counters: Vec<Name>,
}

impl SchemaConfig {
    fn validate(&self, id: &Name) -> Result<(), ConfigError> {
        let setting = || format!("schemas.{id}.counters");
        if id.as_str() == USER {
            let problem = "the counters of users are those of users.counters";
            return Err(invalid(format!("schemas.{id}"), problem));
        }
        if !(1..=MAX_NAMES).contains(&self.counters.len()) {
            let problem = format!("must have 1 to {MAX_NAMES} names");
            return Err(invalid(setting(), problem));
        }
        let mut names = BTreeSet::new();
        match self.counters.iter().find(|name| !names.insert(*name)) {
            Some(name) => Err(invalid(setting(), format!("has {name} twice"))),
            None => Ok(()),
        }
    }
}

/// Checks all declared schemas.
pub(super) fn validate(schemas: &BTreeMap<Name, SchemaConfig>) -> Result<(), ConfigError> {
    schemas
        .iter()
        .try_for_each(|(id, schema)| schema.validate(id))
}
