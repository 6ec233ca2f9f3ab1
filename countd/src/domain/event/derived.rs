//! Derived events: increments of users' counters, and changes of facts, that one partition sends to another.

use super::check::CheckMode;
use super::reverse::Rev;
use crate::domain::ids::{Id, Name};
use crate::domain::keys::Partition;
use serde::{Deserialize, Deserializer, Serialize};

/// The maximum number of increments in a derived event that countd writes.
pub const MAX_ADDS: usize = 1_000;

/// Increments of the counters of users in another slot of a cluster, or changes of their facts. The transaction that commits the
/// originating events writes it to the outbox; the relay forwards it to the log of the users' partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "DerivedFields")]
pub struct Derived {
    /// The source, by which repeats are recognised. An event without a source is always applied; this includes events that were
    /// retried from the dead letters.
    #[serde(flatten)]
    pub source: Option<Source>,
    /// The increments: user, counter, delta.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adds: Vec<(Id, Name, i64)>,
    /// The changes of facts, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revs: Vec<Rev>,
    /// The increments of sums of credits: user, counter, delta, number of the sweep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sums: Vec<SumIncrement>,
    /// The checks of counters, after the increments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ForwardedCounterCheck>,
}

/// A check of a user's counter: user, counter, the right value after the increments of the same event, round, and what is done with a
/// difference.
pub type ForwardedCounterCheck = (Id, Name, u64, u64, ForwardedMode);

/// What a forwarded check does with a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ForwardedMode {
    /// Whether any difference is corrected; otherwise those above the thresholds are.
    Exact(bool),
    /// The same, and the commit adds to the report what it has found.
    Reported(CheckMode, Id),
}

impl ForwardedMode {
    /// The form of a mode with an optional report.
    pub fn new(mode: CheckMode, report: Option<Id>) -> ForwardedMode {
        match report {
            Some(report) => ForwardedMode::Reported(mode, report),
            None => ForwardedMode::Exact(mode == CheckMode::Exact),
        }
    }

    /// The mode, and the report.
    pub fn parts(&self) -> (CheckMode, Option<Id>) {
        match self {
            ForwardedMode::Exact(true) => (CheckMode::Exact, None),
            ForwardedMode::Exact(false) => (CheckMode::Correct, None),
            ForwardedMode::Reported(mode, report) => (*mode, Some(report.clone())),
        }
    }
}

/// An increment of a sum of credits: user, counter, delta, number of the sweep.
pub type SumIncrement = (Id, Name, i64, u32);

/// The JSON fields of a derived event. With `serde(flatten)`, a malformed source would be parsed as an absent one, and the event
/// would be applied without a fence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DerivedFields {
    #[serde(default, deserialize_with = "non_null")]
    from: Option<Partition>,
    #[serde(default, deserialize_with = "non_null")]
    seq: Option<u64>,
    #[serde(default, deserialize_with = "non_null")]
    adds: Option<Vec<(Id, Name, i64)>>,
    #[serde(default, deserialize_with = "non_null")]
    revs: Option<Vec<Rev>>,
    #[serde(default, deserialize_with = "non_null")]
    sums: Option<Vec<SumIncrement>>,
    #[serde(default, deserialize_with = "non_null")]
    checks: Option<Vec<ForwardedCounterCheck>>,
}

/// Deserializes an optional field that must not be null.
fn non_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl TryFrom<DerivedFields> for Derived {
    type Error = &'static str;

    fn try_from(fields: DerivedFields) -> Result<Derived, &'static str> {
        let source = match (fields.from, fields.seq) {
            (Some(from), Some(seq)) => Some(Source { from, seq }),
            (None, None) => None,
            _ => return Err("only one of from and seq is present"),
        };
        let has_increments = fields.adds.is_some() || fields.sums.is_some();
        if !has_increments && fields.revs.is_none() && fields.checks.is_none() {
            return Err("missing field `adds`, `revs`, `sums` or `checks`");
        }
        Ok(Derived {
            source,
            adds: fields.adds.unwrap_or_default(),
            revs: fields.revs.unwrap_or_default(),
            sums: fields.sums.unwrap_or_default(),
            checks: fields.checks.unwrap_or_default(),
        })
    }
}

/// The origin of a derived event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The source partition.
    pub from: Partition,
    /// The offset in the outbox of the source partition. Offsets only increase.
    pub seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_events_survive_a_round_trip() {
        let uid = Id::new("42").expect("an ID");
        let counter = Name::new("likesReceived").expect("a name");
        for source in [None, Some(Source { from: 3, seq: 9 })] {
            let reported = ForwardedMode::new(CheckMode::Report, Some(uid.clone()));
            let derived = Derived {
                source,
                adds: vec![(uid.clone(), counter.clone(), -2)],
                revs: Vec::new(),
                sums: vec![(uid.clone(), counter.clone(), 5, 3)],
                checks: vec![
                    (
                        uid.clone(),
                        counter.clone(),
                        7,
                        0,
                        ForwardedMode::Exact(true),
                    ),
                    (uid.clone(), counter.clone(), 8, 0, reported),
                ],
            };
            let json = serde_json::to_string(&derived).expect("JSON");
            assert_eq!(
                serde_json::from_str::<Derived>(&json).ok(),
                Some(derived),
                "{json}"
            );
        }
    }

    #[test]
    fn the_wire_form_does_not_depend_on_the_configuration() {
        let json = r#"{"from":3,"seq":9,"adds":[["42","followings",1],["42","followers",1],["a","posts",-1],["7","likesReceived",2],["7","favsReceived",3]]}"#;
        let derived: Derived = serde_json::from_str(json).expect("a derived event");
        assert_eq!(serde_json::to_string(&derived).expect("JSON"), json);
        let unknown = json.replace("posts", "unread");
        assert!(serde_json::from_str::<Derived>(&unknown).is_ok());
        let invalid = json.replace("posts", "un:read");
        assert!(serde_json::from_str::<Derived>(&invalid).is_err());
    }

    #[test]
    fn entries_with_increments_keep_their_form() {
        for json in [
            r#"{"from":3,"seq":9,"adds":[["42","posts",1]]}"#,
            r#"{"from":3,"seq":9,"revs":[["42","like","note","7",0,5]]}"#,
        ] {
            let derived: Derived = serde_json::from_str(json).expect("a derived event");
            assert_eq!(serde_json::to_string(&derived).ok().as_deref(), Some(json));
        }
        assert!(serde_json::from_str::<Derived>(r#"{"from":3,"seq":9}"#).is_err());
    }

    #[test]
    fn a_malformed_source_is_rejected() {
        for source in [
            r#""from":"3","seq":9"#,
            r#""from":3,"seq":"9""#,
            r#""from":3,"seq":-1"#,
            r#""from":3,"seq":9.5"#,
            r#""from":3,"seq":18446744073709551616"#,
            r#""from":65536,"seq":9"#,
            r#""from":null,"seq":null"#,
            r#""from":3"#,
            r#""seq":9"#,
            r#""from":3,"from":3,"seq":9"#,
            r#""From":3,"Seq":9"#,
        ] {
            let json = format!(r#"{{{source},"adds":[["42","likesReceived",1]]}}"#);
            let parsed = serde_json::from_str::<Derived>(&json);
            assert!(parsed.is_err(), "{json}: {parsed:?}");
        }
    }
}
