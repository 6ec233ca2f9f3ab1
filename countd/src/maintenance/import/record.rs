//! The records of an import, and why one is invalid.

use crate::domain::ids::{Entity, Id, Name};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::Arc;

/// The maximum value of a counter.
pub const MAX_COUNT: u64 = (1 << 40) - 1;
/// Smaller timestamps are probably in seconds: in milliseconds they are before 1973.
const MIN_TS: u64 = 100_000_000_000;
/// The maximum timestamp: the end of the year 9999.
const MAX_TS: u64 = 253_402_300_799_999;

/// Where a record comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file, counted from 1.
    Line(Arc<str>, u64),
    /// A key of the source.
    Key(Arc<str>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line(file, line) => write!(f, "{file}:{line}"),
            Origin::Key(key) => write!(f, "key {key}"),
        }
    }
}

/// A record with its origin.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where it comes from.
    pub origin: Origin,
    /// The record.
    pub record: Record,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A fact.
    Fact(FactRecord),
    /// Counts of an entity.
    Counts(CountsRecord),
    /// The author of an entity.
    Author(AuthorRecord),
}

/// The author of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorRecord {
    /// The entity.
    pub entity: Entity,
    /// The author.
    pub author: Id,
}

/// A user performed a metric on an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactRecord {
    /// The metric or an alias.
    pub metric: Name,
    /// The entity.
    pub entity: Entity,
    /// The user.
    pub uid: Id,
    /// The author of the entity.
    pub author: Option<Id>,
    /// The time, in milliseconds since 1970.
    pub ts: Option<u64>,
}

/// Counts of an entity, by metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountsRecord {
    /// The entity.
    pub entity: Entity,
    /// The counts: names of metrics or aliases, and values.
    pub counts: Vec<(String, u64)>,
}

/// Values for fields that the records do not have.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// The metric.
    pub metric: Option<Name>,
    /// The entity type.
    pub etype: Option<Name>,
    /// Names of counts that are not imported.
    pub ignored: Vec<String>,
}

/// The fields of a record, before they are checked. A file of facts has no `counts`, and one of counts no `uid`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    /// The metric.
    pub metric: Option<Name>,
    /// The entity type.
    pub etype: Option<Name>,
    /// The ID of the entity.
    pub eid: Option<Id>,
    /// The user.
    pub uid: Option<Id>,
    /// The author of the entity.
    pub author: Option<Id>,
    /// The time.
    pub ts: Option<i64>,
    /// The count of `metric`.
    pub count: Option<i64>,
    /// The counts of several metrics.
    pub counts: Option<CountMap>,
}

/// A JSON object of counts. Unlike a map, it keeps duplicate names, which are an error later.
#[derive(Debug, Default)]
pub struct CountMap(pub Vec<(String, i64)>);

impl<'de> Deserialize<'de> for CountMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CountMap, D::Error> {
        struct CountsVisitor;

        impl<'de> Visitor<'de> for CountsVisitor {
            type Value = CountMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of counts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CountMap, A::Error> {
                let mut counts = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    counts.push(entry);
                }
                Ok(CountMap(counts))
            }
        }

        from.deserialize_map(CountsVisitor)
    }
}

fn required<T>(name: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("{name} is missing"))
}

fn unexpected<T>(name: &str, value: &Option<T>) -> Result<(), String> {
    match value {
        Some(_) => Err(format!("{name} is not expected here")),
        None => Ok(()),
    }
}

/// Checks a count.
///
/// # Errors
/// It is negative or greater than [`MAX_COUNT`].
pub fn count(name: &str, value: i64) -> Result<u64, String> {
    match u64::try_from(value) {
        Ok(value) if value <= MAX_COUNT => Ok(value),
        Ok(value) => Err(format!("{name}: {value} is greater than {MAX_COUNT}")),
        Err(_) => Err(format!("{name}: {value} is negative")),
    }
}

fn timestamp(ts: i64) -> Result<u64, String> {
    match u64::try_from(ts) {
        Ok(ts) if (MIN_TS..=MAX_TS).contains(&ts) => Ok(ts),
        _ => Err(format!("ts: {ts} is not a time in milliseconds since 1970")),
    }
}

impl Fields {
    fn entity(&mut self, defaults: &Defaults) -> Result<Entity, String> {
        let etype = self.etype.take().or_else(|| defaults.etype.clone());
        Ok(Entity {
            etype: required("etype", etype)?,
            eid: required("eid", self.eid.take())?,
        })
    }

    /// The fields as a fact.
    ///
    /// # Errors
    /// A field is missing, unexpected or out of range.
    pub fn fact(mut self, defaults: &Defaults) -> Result<Record, String> {
        unexpected("count", &self.count)?;
        unexpected("counts", &self.counts)?;
        let entity = self.entity(defaults)?;
        let metric = self.metric.take().or_else(|| defaults.metric.clone());
        Ok(Record::Fact(FactRecord {
            metric: required("metric", metric)?,
            entity,
            uid: required("uid", self.uid)?,
            author: self.author,
            ts: self.ts.map(timestamp).transpose()?,
        }))
    }

    /// The fields as the author of an entity.
    ///
    /// # Errors
    /// A field is missing or unexpected.
    pub fn author(mut self, defaults: &Defaults) -> Result<Record, String> {
        unexpected("metric", &self.metric)?;
        unexpected("uid", &self.uid)?;
        unexpected("ts", &self.ts)?;
        unexpected("count", &self.count)?;
        unexpected("counts", &self.counts)?;
        Ok(Record::Author(AuthorRecord {
            entity: self.entity(defaults)?,
            author: required("author", self.author)?,
        }))
    }

    /// The fields as counts.
    ///
    /// # Errors
    /// A field is missing, unexpected or out of range.
    pub fn counts(mut self, defaults: &Defaults) -> Result<Record, String> {
        unexpected("uid", &self.uid)?;
        unexpected("author", &self.author)?;
        unexpected("ts", &self.ts)?;
        let entity = self.entity(defaults)?;
        let counts: Vec<(String, i64)> = match (self.counts, self.count) {
            (Some(_), Some(_)) => return Err("count and counts exclude each other".to_owned()),
            (Some(counts), None) => {
                unexpected("metric", &self.metric)?;
                counts.0
            }
            (None, value) => {
                let metric = self.metric.take().or_else(|| defaults.metric.clone());
                let value = required("count or counts", value)?;
                vec![(required("metric", metric)?.to_string(), value)]
            }
        };
        let is_used = |(name, _): &(String, i64)| !defaults.ignored.contains(name);
        let counts = counts.into_iter().filter(is_used);
        let counts = counts.map(|(name, value)| count(&name, value).map(|value| (name, value)));
        Ok(Record::Counts(CountsRecord {
            entity,
            counts: counts.collect::<Result<_, _>>()?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        serde_json::from_str(json).expect("fields")
    }

    fn problem(record: Result<Record, String>) -> String {
        record.expect_err("it is invalid")
    }

    #[test]
    fn facts_require_their_fields() {
        let defaults = Defaults::default();
        let fact = |json| fields(json).fact(&defaults);
        let complete = r#"{"metric":"like","etype":"note","eid":1,"uid":"2","ts":1600000000000}"#;
        assert!(fact(complete).is_ok());
        for (json, expected) in [
            (r#"{"etype":"note","eid":1,"uid":2}"#, "metric is missing"),
            (r#"{"metric":"like","eid":1,"uid":2}"#, "etype is missing"),
            (
                r#"{"metric":"like","etype":"note","uid":2}"#,
                "eid is missing",
            ),
            (
                r#"{"metric":"like","etype":"note","eid":1}"#,
                "uid is missing",
            ),
            (
                r#"{"metric":"like","etype":"note","eid":1,"uid":2,"count":3}"#,
                "count is not expected here",
            ),
            (
                r#"{"metric":"like","etype":"note","eid":1,"uid":2,"ts":1600000000}"#,
                "ts: 1600000000 is not a time in milliseconds since 1970",
            ),
        ] {
            assert_eq!(problem(fact(json)), expected);
        }
    }

    #[test]
    fn authors_require_their_fields() {
        let author = |json| fields(json).author(&Defaults::default());
        assert!(author(r#"{"etype":"note","eid":1,"author":"a-2"}"#).is_ok());
        for (json, expected) in [
            (r#"{"etype":"note","eid":1}"#, "author is missing"),
            (r#"{"eid":1,"author":2}"#, "etype is missing"),
            (
                r#"{"etype":"note","eid":1,"author":2,"uid":3}"#,
                "uid is not expected here",
            ),
        ] {
            assert_eq!(problem(author(json)), expected);
        }
    }

    #[test]
    fn counts_are_in_range() {
        let defaults = Defaults {
            ignored: vec!["like".to_owned()],
            ..Defaults::default()
        };
        let counts = |json| fields(json).counts(&defaults);
        let record = counts(r#"{"etype":"note","eid":1,"counts":{"read":5,"like":-3}}"#);
        let Ok(Record::Counts(record)) = record else {
            panic!("{record:?}");
        };
        assert_eq!(record.counts, [("read".to_owned(), 5)]);
        for (json, expected) in [
            (
                r#"{"etype":"note","eid":1,"counts":{"read":-1}}"#,
                "read: -1 is negative",
            ),
            (
                r#"{"etype":"note","eid":1,"metric":"read","count":1099511627776}"#,
                "read: 1099511627776 is greater than 1099511627775",
            ),
            (
                r#"{"etype":"note","eid":1,"count":1,"counts":{}}"#,
                "count and counts exclude each other",
            ),
            (r#"{"etype":"note","eid":1,"count":1}"#, "metric is missing"),
            (
                r#"{"etype":"note","eid":1,"metric":"read","count":1,"uid":2}"#,
                "uid is not expected here",
            ),
        ] {
            assert_eq!(problem(counts(json)), expected);
        }
    }
}
