//! What a user did to an entity.

use crate::domain::ids::Name;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// For each metric, whether a user performed it. Ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Shared by all entities for which the same metrics were read.
    metrics: Arc<[Name]>,
    performed: Vec<bool>,
}

impl Status {
    /// A status of each of these metrics, which are ordered by name.
    pub fn new(metrics: &Arc<[Name]>, performed: Vec<bool>) -> Status {
        Status {
            metrics: Arc::clone(metrics),
            performed,
        }
    }

    /// Adds metrics that the user did not perform.
    pub fn with_unperformed(self, metrics: &[Name]) -> Status {
        if metrics.is_empty() {
            return self;
        }
        let read = self.metrics.iter().cloned().zip(self.performed);
        let others = metrics.iter().map(|metric| (metric.clone(), false));
        let mut all: Vec<(Name, bool)> = read.chain(others).collect();
        all.sort();
        let (metrics, performed): (Vec<Name>, Vec<bool>) = all.into_iter().unzip();
        Status {
            metrics: metrics.into(),
            performed,
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let named = self.metrics.iter().map(Name::as_str);
        to.collect_map(named.zip(&self.performed))
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
        let metrics: Arc<[Name]> = names(&["fav", "like"]).into();
        let status = Status::new(&metrics, vec![false, true]);
        let json = |status: Status| serde_json::to_string(&status).expect("JSON");
        assert_eq!(
            json(status.clone().with_unperformed(&[])),
            r#"{"fav":false,"like":true}"#
        );
        let more = status.with_unperformed(&names(&["share", "follow"]));
        let expected = r#"{"fav":false,"follow":false,"like":true,"share":false}"#;
        assert_eq!(json(more), expected);
        assert_eq!(json(Status::default()), "{}");
    }
}
