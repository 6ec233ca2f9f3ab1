//! What a user did to an entity.

use crate::domain::ids::Name;
use hashbrown::HashMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// For each metric, whether a user performed it: a JSON object, ordered by name. Most entities of a page have the same status, which is
/// formatted once.
#[derive(Clone, Debug)]
pub struct Status(Arc<RawValue>);

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(to)
    }
}

impl Default for Status {
    fn default() -> Status {
        Status(RawValue::NULL.to_owned().into())
    }
}

/// Formats the statuses of a page.
pub(super) struct StatusFormat {
    /// The metrics that are read, in their order, and those that the user cannot have performed.
    metrics: Vec<Name>,
    unperformed: Vec<Name>,
    formatted: HashMap<Vec<bool>, Status>,
}

impl StatusFormat {
    /// Statuses of these metrics. The user did not perform those in `unperformed`.
    pub(super) fn new(metrics: Vec<Name>, unperformed: &[Name]) -> StatusFormat {
        StatusFormat {
            metrics,
            unperformed: unperformed.to_vec(),
            formatted: HashMap::new(),
        }
    }

    /// The status of an entity: for each metric that is read, whether the user performed it.
    pub(super) fn status(&mut self, performed: &[bool]) -> Status {
        if let Some(status) = self.formatted.get(performed) {
            return status.clone();
        }
        let read = self.metrics.iter().zip(performed.iter().copied());
        let others = self.unperformed.iter().map(|metric| (metric, false));
        let all: BTreeMap<&Name, bool> = others.chain(read).collect();
        // Names and booleans can always be serialized.
        let status = serde_json::value::to_raw_value(&all);
        let status = status.map_or_else(|_| Status::default(), |json| Status(json.into()));
        self.formatted.insert(performed.to_vec(), status.clone());
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_ordered_by_name() {
        let names = |names: &[&str]| -> Vec<Name> {
            let name = |text: &&str| Name::new(*text).expect("a name");
            names.iter().map(name).collect()
        };
        let json = |status: Status| serde_json::to_string(&status).expect("JSON");
        let mut format = StatusFormat::new(names(&["like", "fav"]), &[]);
        for _ in 0..2 {
            let status = json(format.status(&[true, false]));
            assert_eq!(status, r#"{"fav":false,"like":true}"#);
            let status = json(format.status(&[false, true]));
            assert_eq!(status, r#"{"fav":true,"like":false}"#);
        }
        let unperformed = names(&["share", "follow"]);
        let mut format = StatusFormat::new(names(&["like"]), &unperformed);
        let expected = r#"{"follow":false,"like":true,"share":false}"#;
        assert_eq!(json(format.status(&[true])), expected);
        assert_eq!(json(StatusFormat::new(Vec::new(), &[]).status(&[])), "{}");
    }
}
