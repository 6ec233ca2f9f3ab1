//! The log entry that checks counters which the consumer changes.

use crate::domain::ids::{Entity, Id, Name, stored_id};
use serde::{Deserialize, Serialize};

/// The maximum number of counters of an entry.
pub const MAX_CHECKS: usize = 64;

/// What a check does with a counter that differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckMode {
    /// Corrects it if the difference is above the thresholds.
    #[default]
    Correct,
    /// Corrects it if there is any difference.
    Exact,
    /// Only reports it.
    Report,
}

impl CheckMode {
    /// Its name in entries and arguments of scripts.
    pub fn name(self) -> &'static str {
        match self {
            CheckMode::Correct => "correct",
            CheckMode::Exact => "exact",
            CheckMode::Report => "report",
        }
    }
}

/// A log entry with the numbers of facts of an entity. The step that counts the facts appends it, so they include every change before the
/// entry and none after it. The consumer compares them with the counters as they are when all events before the entry are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Check {
    /// The type of the entity.
    pub etype: Name,
    /// The ID of the entity.
    #[serde(deserialize_with = "stored_id")]
    pub eid: Id,
    /// The metrics, and the number of facts of each.
    #[serde(default)]
    pub checks: Vec<(Name, u64)>,
    /// Facts on the entity: the metric, the user, and whether the fact exists. The timelines of the users must say the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<(Name, Id, bool)>,
    /// What to do with differences.
    #[serde(default)]
    pub mode: CheckMode,
    /// The report to which the commit adds what it has found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Id>,
    /// The round of the reconciliation; 0 outside of one.
    #[serde(default)]
    pub round: u64,
    /// What the audit names as the source of a correction.
    pub source: Name,
    /// The trace ID of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

impl Check {
    /// A check that corrects every difference, without counters and facts, outside of a round. `source` is the one in the audit.
    pub fn exact(entity: &Entity, source: Name) -> Check {
        Check {
            etype: entity.etype.clone(),
            eid: entity.eid.clone(),
            checks: Vec::new(),
            facts: Vec::new(),
            mode: CheckMode::Exact,
            report: None,
            round: 0,
            source,
            trace_id: None,
        }
    }

    /// The entity.
    pub fn entity(&self) -> Entity {
        Entity {
            etype: self.etype.clone(),
            eid: self.eid.clone(),
        }
    }

    /// Whether it has at most [`MAX_CHECKS`] counters and facts.
    pub fn is_in_range(&self) -> bool {
        self.checks.len() <= MAX_CHECKS && self.facts.len() <= MAX_CHECKS
    }

    /// The JSON form in the log, without the end: `append_checks.lua` adds the metrics and their numbers of facts.
    pub fn to_json_head(&self) -> String {
        let without_checks = Check {
            checks: Vec::new(),
            facts: Vec::new(),
            ..self.clone()
        };
        // Strings and numbers can always be serialized.
        let json = serde_json::to_string(&without_checks).unwrap_or_default();
        let json = json.replacen("\"checks\":[],", "", 1);
        json.trim_end_matches('}').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> Result<Check, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn scripts_complete_the_json_form() {
        let short = r#"{"etype":"note","eid":"7","source":"check"}"#;
        let all = r#"{"etype":"note","eid":"7","mode":"exact","report":"r","round":9,"source":"rebuild","traceId":"t"}"#;
        for json in [short, all] {
            let head = check(json).expect("an entry").to_json_head();
            let completed = format!(r#"{head},"checks":[["like",17],["fav",1099511627775]]}}"#);
            let found = check(&completed).expect("an entry");
            let name = |text| Name::new(text).expect("a name");
            let checks = vec![(name("like"), 17), (name("fav"), 1_099_511_627_775)];
            let expected = Check {
                checks,
                ..check(json).expect("an entry")
            };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn malformed_entries_are_rejected() {
        for json in [
            "{}",
            r#"{"etype":"note","eid":"7"}"#,
            r#"{"etype":"note","eid":"7","source":"check","more":1}"#,
            r#"{"etype":"note","eid":"7","source":"check","checks":[["like",-1]]}"#,
            r#"{"etype":"note","eid":"7","source":"check","mode":"guess"}"#,
        ] {
            assert!(check(json).is_err(), "{json}");
        }
    }
}
