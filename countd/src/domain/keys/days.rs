//! The keys of counts by day.

use super::layout::{KeyTemplate, Keys};
use super::partition::Partition;
use crate::domain::day::{civil, with_dashes};
use crate::domain::ids::{Entity, Id, Name};

/// The parsed key of counts by day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaysKey {
    /// The metric.
    pub metric: Name,
    /// The entity.
    pub entity: Entity,
    /// Whether the key has the archived days.
    pub is_history: bool,
}

impl Keys {
    /// The counts of an entity by day: a Hash (field: `{yyyymmdd}`).
    pub fn days_of(&self, metric: &Name, entity: &Entity) -> String {
        self.days_key(metric, entity, "")
    }

    /// The counts of an entity on archived days: a Hash with the same fields, `total_before_{yyyy-mm-dd}` for what was counted before
    /// days were kept, and `corrected_{yyyy-mm-dd}` for what a correction has added.
    pub fn history_of(&self, metric: &Name, entity: &Entity) -> String {
        self.days_key(metric, entity, ":history")
    }

    /// The field of archived days for what was counted before a day, which is a number of days since 1970.
    pub fn counted_before(day: u64) -> String {
        format!("total_before_{}", with_dashes(civil(day)))
    }

    /// The field of archived days for what corrections have added on a day, which is a number of days since 1970.
    pub fn corrected_on(day: u64) -> String {
        format!("corrected_{}", with_dashes(civil(day)))
    }

    /// The keys of archived days of a partition's entities of a type, by the ID.
    pub fn history_template(
        &self,
        metric: &Name,
        etype: &Name,
        partition: Partition,
    ) -> KeyTemplate {
        KeyTemplate {
            prefix: format!("h:agg:{metric}:{etype}:"),
            suffix: match self.tagged() {
                true => format!(":history:{{{partition}}}"),
                false => ":history".to_owned(),
            },
        }
    }

    /// The schema, the type and the partition of a table of counters of entities.
    pub fn parse_table(&self, key: &str) -> Option<(Name, Name, Partition)> {
        let mut parts = key.strip_prefix("tab:")?.split(':');
        let schema = Name::new(parts.next()?).ok()?;
        let etype = Name::new(parts.next()?).ok()?;
        let partition = parts.next()?;
        let partition = match self.tagged() {
            true => partition.strip_prefix('{')?.strip_suffix('}')?,
            false => partition,
        };
        let partition = partition.parse().ok()?;
        let is_known = partition < self.partitions() && parts.next().is_none();
        is_known.then_some((schema, etype, partition))
    }

    fn days_key(&self, metric: &Name, entity: &Entity, form: &str) -> String {
        let Entity { etype, eid } = entity;
        let mut key = format!("h:agg:{metric}:{etype}:{eid}{form}");
        if self.tagged() {
            key.push_str(&format!(":{{{}}}", self.of_entity(entity)));
        }
        key
    }

    /// The totals of a metric of a partition's entities of one type: a table with one counter for each entity.
    pub fn totals_table(&self, metric: &Name, etype: &Name, partition: Partition) -> String {
        self.numbered(&format!("tot:{metric}:{etype}"), partition, "")
    }

    /// The totals that do not fit into a table, because the ID is not a number, or because the data has no tables: a Hash (field: the ID).
    pub fn totals_hash(&self, metric: &Name, etype: &Name, partition: Partition) -> String {
        self.numbered(&format!("toth:{metric}:{etype}"), partition, "")
    }

    /// The streams of the events of an entity, by the date.
    pub fn read_streams(&self, metric: &Name, entity: &Entity) -> KeyTemplate {
        let Entity { etype, eid } = entity;
        KeyTemplate {
            prefix: format!("x:{metric}:{etype}:{eid}:"),
            suffix: match self.tagged() {
                true => format!(":{{{}}}", self.of_entity(entity)),
                false => String::new(),
            },
        }
    }

    /// The metric and the date (`yyyymmdd`) of the stream of a day.
    pub fn parse_read_stream<'a>(&self, key: &'a str) -> Option<(&'a str, u64)> {
        let name = match self.tagged() {
            true => key.strip_suffix('}')?.rsplit_once(":{")?.0,
            false => key,
        };
        let mut parts = name.strip_prefix("x:")?.split(':');
        let metric = parts.next()?;
        let date = parts.nth(2)?;
        let is_date = date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
        let date = date.parse().ok()?;
        (is_date && parts.next().is_none()).then_some((metric, date))
    }

    /// The progress of filling in what was counted before days were kept: a Hash.
    pub fn days_init(&self) -> &'static str {
        "countd:days-init"
    }

    /// The pattern of the keys of counts by day, for `SCAN`.
    pub fn days_pattern(&self) -> &'static str {
        "h:agg:*"
    }

    /// Parses a key of counts by day.
    pub fn parse_days(&self, key: &str) -> Option<DaysKey> {
        let name = match self.tagged() {
            true => key.strip_suffix('}')?.rsplit_once(":{")?.0,
            false => key,
        };
        let mut parts = name.strip_prefix("h:agg:")?.split(':');
        let metric = Name::new(parts.next()?).ok()?;
        let etype = Name::new(parts.next()?).ok()?;
        let eid = Id::new(parts.next()?).ok()?;
        let is_history = match (parts.next(), parts.next()) {
            (None, _) => false,
            (Some("history"), None) => true,
            _ => return None,
        };
        Some(DaysKey {
            metric,
            entity: Entity { etype, eid },
            is_history,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Murmur2;

    #[test]
    fn keys_of_days_have_the_documented_form() {
        let read = Name::new("read").expect("a name");
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new("a.7").expect("an ID"),
        };
        let keys = Keys::new(8, false, Murmur2);
        assert_eq!(keys.days_of(&read, &entity), "h:agg:read:note:a.7");
        assert_eq!(
            keys.history_of(&read, &entity),
            "h:agg:read:note:a.7:history"
        );
        assert_eq!(
            keys.totals_table(&read, &entity.etype, 7),
            "tot:read:note:7"
        );
        assert_eq!(
            keys.totals_hash(&read, &entity.etype, 7),
            "toth:read:note:7"
        );
        let stream = keys.read_streams(&read, &entity).key(20_261_231);
        assert_eq!(stream, "x:read:note:a.7:20261231");
        for tagged in [false, true] {
            let keys = Keys::new(8, tagged, Murmur2);
            for is_history in [false, true] {
                let key = match is_history {
                    true => keys.history_of(&read, &entity),
                    false => keys.days_of(&read, &entity),
                };
                let parsed = DaysKey {
                    metric: read.clone(),
                    entity: entity.clone(),
                    is_history,
                };
                assert_eq!(keys.parse_days(&key), Some(parsed), "{key}");
            }
            assert_eq!(keys.parse_days("h:agg:read:note"), None);
            let partition = keys.of_entity(&entity);
            let history = keys.history_template(&read, &entity.etype, partition);
            assert_eq!(history.key(&entity.eid), keys.history_of(&read, &entity));
            let table = keys.table(&read, &entity.etype, 7);
            let parsed = (read.clone(), entity.etype.clone(), 7);
            assert_eq!(keys.parse_table(&table), Some(parsed));
            assert_eq!(keys.parse_table("tab:read:note:x"), None);
            let stream = keys.read_streams(&read, &entity).key(20_261_231);
            let parsed = Some(("read", 20_261_231));
            assert_eq!(keys.parse_read_stream(&stream), parsed);
            for other in [keys.log(7), keys.audit(7), keys.outbox(7), keys.changes(7)] {
                assert_eq!(keys.parse_read_stream(&other), None, "{other}");
            }
        }
    }
}
