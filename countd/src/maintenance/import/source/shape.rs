//! The forms in which products keep facts and counts in Redis.

use super::packed::Packed;
use super::pattern::KeyPattern;
use crate::domain::ids::Name;
use crate::domain::text::shorten;
use std::collections::BTreeMap;

/// A form of existing data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A Set of user IDs per entity: `praised_by:{id}`.
    Sets {
        /// The keys.
        pattern: KeyPattern,
        /// The metric of the facts.
        metric: Name,
    },
    /// A bitmap per entity: the offset of a bit is a user ID.
    Bitmap {
        /// The keys.
        pattern: KeyPattern,
        /// The metric of the facts.
        metric: Name,
    },
    /// A Hash per entity: a field per counter.
    HashPerEntity {
        /// The keys.
        pattern: KeyPattern,
        /// The metrics of the fields.
        fields: FieldMap,
    },
    /// A Hash per counter: the fields are entity IDs. Keys, and the metric of each.
    HashPerCounter(Vec<(String, String)>),
    /// A String per entity, of 4-byte counters.
    Packed(Packed),
}

/// The metrics of the fields of a Hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldMap {
    /// Metrics by field. If it is empty, fields are named after their metrics.
    pub metrics: BTreeMap<String, String>,
    /// Fields that are not imported.
    pub ignored: Vec<String>,
}

impl FieldMap {
    /// The metric of a field; `None` if it is ignored.
    ///
    /// # Errors
    /// The field is neither mapped nor ignored.
    pub fn metric(&self, field: &str) -> Result<Option<String>, String> {
        if self.ignored.iter().any(|ignored| ignored == field) {
            return Ok(None);
        }
        match self.metrics.get(field) {
            Some(metric) => Ok(Some(metric.clone())),
            None if self.metrics.is_empty() => Ok(Some(field.to_owned())),
            None => {
                let field = shorten(field);
                Err(format!("field {field} is neither mapped nor ignored"))
            }
        }
    }
}
