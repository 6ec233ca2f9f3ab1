//! The fields of the Hash that stores the layout.

use super::form::{Authors, ReverseState, StoredLayout, Truncation};
use super::splits::{Splits, unknown_value};
use super::views::parse_views;
use crate::domain::author_feed::AuthorFeed;
use crate::domain::error::ConnectError;
use crate::domain::ids::Name;
use crate::domain::keys::{PartitionHash, StoragePhase};
use crate::redis::script::CounterBackend;
use std::collections::HashMap;

/// The prefix of the fields with the storage of each entity type.
pub(super) const STORAGE: &str = "storage:";
/// The field that grows with each change of the layout that running processes must see.
pub(super) const EPOCH: &str = "epoch";
/// The storage of entity types without a field.
const DEFAULT: &str = "default";
/// The field that says how the data stores counters and id sets.
pub(super) const COUNTERS: &str = "counters";
/// The field that says whether counted entries are archived.
pub(super) const ARCHIVE: &str = "archive";
/// The field with the ID that the data and its archive have.
pub(super) const ARCHIVE_ID: &str = "archive_id";
/// The field that says whether a sink follows the log.
pub(super) const SINK: &str = "sink";
/// The field with the topic of the data.
const TOPIC: &str = "topic";
/// The prefix of the fields of partitions of the topic that ended before a position.
pub(super) const TRUNCATED: &str = "topic_truncated:";
/// The field that says whether a restore is under way.
pub(super) const RESTORING: &str = "restoring";
pub(super) const ON: &str = "on";
pub(super) const OFF: &str = "off";
/// The reverse metrics of an empty server that was only checked.
pub(super) const UNDECIDED: &str = "?";
/// The prefix of the fields of the metrics whose facts were kept for users later.
pub(super) const REVERSE: &str = "reverse:";

/// The field that tells by which settings all uncounted events were appended.
pub(super) const COUNTING: &str = "counting";

/// The prefix of the fields of the *once* metrics of which events without facts were counted.
pub(super) const EXTERNAL: &str = "external:";

/// The field that says whether an entity was ever split.
pub(super) const SPLITS: &str = "splits";

impl Authors {
    fn parse(mode: &str, feeds: &str) -> Option<Authors> {
        let feeds = feeds.split_whitespace().map(str::to_owned);
        let feeds = feeds.map(|feed| AuthorFeed::try_from(feed).ok());
        match mode {
            "registry" => Some(Authors::Registry {
                feeds: feeds.collect::<Option<_>>()?,
            }),
            "event" => Some(Authors::Event),
            _ => None,
        }
    }
}

impl StoredLayout {
    /// The layout that has these fields.
    ///
    /// # Errors
    /// It has another number of partitions, or a newer version wrote it.
    pub(super) fn parse(
        fields: &HashMap<String, String>,
        partitions: u16,
    ) -> Result<StoredLayout, ConnectError> {
        let unknown = unknown_value;
        let text = |field: &str| fields.get(field).map_or("", String::as_str);
        let hash = PartitionHash::from_name(text("hash"));
        let hash = hash.ok_or_else(|| unknown("hash", text("hash")))?;
        let stored = text("partitions");
        let suffix = format!("/{}", hash.name());
        let found = stored.strip_suffix(&suffix).unwrap_or(stored);
        if found != partitions.to_string() {
            return Err(ConnectError::Partitions {
                found: found.to_owned(),
                configured: partitions,
            });
        }
        let backend = CounterBackend::from_name(text(COUNTERS));
        let backend = backend.ok_or_else(|| unknown(COUNTERS, text(COUNTERS)))?;
        let authors = Authors::parse(text("authors"), text("author_metrics"));
        let authors = authors.ok_or_else(|| unknown("authors", text("authors")))?;
        let reverse = text("reverse_metrics").split_whitespace();
        let reverse = reverse.filter(|name| *name != UNDECIDED);
        let reverse: Option<Vec<Name>> = reverse.map(|name| Name::new(name).ok()).collect();
        let mut reverse =
            reverse.ok_or_else(|| unknown("reverse_metrics", text("reverse_metrics")))?;
        let mut unfinished_reverse = Vec::new();
        for (field, value) in fields {
            let Some(metric) = field.strip_prefix(REVERSE) else {
                continue;
            };
            let state = ReverseState::from_name(value).ok_or_else(|| unknown(field, value))?;
            let metric = Name::new(metric).map_err(|_| unknown(field, value))?;
            if reverse.contains(&metric) {
                continue;
            }
            if state == ReverseState::Backfill {
                unfinished_reverse.push(metric.clone());
            }
            reverse.push(metric);
        }
        let external = fields
            .keys()
            .filter_map(|field| Name::new(field.strip_prefix(EXTERNAL)?).ok());
        let external = external.collect();
        let (mut storages, mut columns) = (HashMap::new(), HashMap::new());
        for (field, value) in fields {
            if let Some(etype) = field.strip_prefix(STORAGE) {
                let (phase, schema) = match value.split_once('/') {
                    Some((phase, schema)) => (phase, Some(schema)),
                    None => (value.as_str(), None),
                };
                let phase = StoragePhase::from_name(phase).ok_or_else(|| unknown(field, value))?;
                if let Some(schema) = schema {
                    let schema = Name::new(schema).map_err(|_| unknown(field, value))?;
                    columns.insert(etype.to_owned(), schema);
                }
                storages.insert(etype.to_owned(), phase);
            }
        }
        let mut truncations = Vec::new();
        for (field, value) in fields {
            if let Some(partition) = field.strip_prefix(TRUNCATED) {
                let truncation = Truncation::parse(partition, value);
                truncations.push(truncation.ok_or_else(|| unknown(field, value))?);
            }
        }
        truncations.sort_unstable_by_key(|truncation| truncation.partition);
        let views = parse_views(fields)?;
        let switch = |field: &str| match text(field) {
            ON => Ok(true),
            "" | OFF => Ok(false),
            other => Err(unknown(field, other)),
        };
        let default_storage = storages.remove(DEFAULT);
        let epoch = match text(EPOCH) {
            "" => 0,
            epoch => epoch.parse().map_err(|_| unknown(EPOCH, epoch))?,
        };
        Ok(StoredLayout {
            hash,
            backend,
            authors,
            reverse,
            is_reverse_undecided: text("reverse_metrics") == UNDECIDED,
            unfinished_reverse,
            external,
            counting: text(COUNTING).to_owned(),
            archives: switch(ARCHIVE)?,
            sinks: switch(SINK)?,
            has_topic: !text(TOPIC).is_empty(),
            truncations,
            is_restoring: switch(RESTORING)?,
            epoch,
            can_split: switch(SPLITS)?,
            splits: Splits::parse(fields)?,
            storages,
            default_storage: default_storage.unwrap_or(StoragePhase::Object),
            columns,
            views,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::redis::layout) fn parse(
        fields: &[(&str, &str)],
    ) -> Result<StoredLayout, ConnectError> {
        let fields = fields.iter();
        let fields = fields.map(|(field, value)| ((*field).to_owned(), (*value).to_owned()));
        StoredLayout::parse(&fields.collect(), 1024)
    }

    #[test]
    fn a_layout_is_parsed() {
        let layout = parse(&[
            ("partitions", "1024/murmur2"),
            ("hash", "murmur2"),
            ("counters", "module"),
            ("authors", "registry"),
            ("author_metrics", "like>likesReceived fav"),
            ("reverse_metrics", "like follow"),
            ("reverse:fav", "on"),
            ("reverse:publish", "backfill"),
            ("storage:default", "table"),
            ("storage:note", "object"),
            ("storage:post", "moving"),
            ("epoch", "3"),
            ("facts:like", "rbm"),
        ])
        .expect("a layout");
        assert_eq!(layout.hash, PartitionHash::Murmur2);
        let name = |text: &str| Name::new(text).expect("a name");
        let feed = |metric, counter: Option<&str>| AuthorFeed {
            metric: name(metric),
            counter: counter.map(name),
        };
        let feeds = vec![feed("like", Some("likesReceived")), feed("fav", None)];
        assert_eq!(layout.authors, Authors::Registry { feeds });
        assert_eq!(layout.reverse[..2], [name("like"), name("follow")]);
        assert!(layout.has_reverse(&name("like")) && layout.has_reverse(&name("fav")));
        assert!(layout.is_reverse(&name("publish")) && !layout.has_reverse(&name("publish")));
        assert!(!layout.is_reverse(&name("read")));
        assert_eq!(layout.epoch, 3);
        assert_eq!(layout.storage_of(&name("note")), StoragePhase::Object);
        assert_eq!(layout.storage_of(&name("post")), StoragePhase::Moving);
        assert_eq!(layout.storage_of(&name("video")), StoragePhase::Table);
        assert_eq!(layout.storage_of_users(), StoragePhase::Table);
        assert!(layout.can_change(&[]));
    }

    #[test]
    fn states_of_split_entities_are_parsed() {
        let fields = [
            ("partitions", "1024/murmur2"),
            ("hash", "murmur2"),
            ("counters", "module"),
            ("authors", "registry"),
            ("splits", "on"),
        ];
        let with = |field, value| parse(&[&fields[..], &[(field, value)]].concat());
        let layout = with("split:note:7", "split 12 8 like,fav").expect("a layout");
        let state = layout
            .split_of(&crate::domain::keys::testing::entity("note", "7"))
            .expect("a state");
        assert_eq!((state.generation, state.shards), (12, 8));
        assert_eq!(
            layout.split_of(&crate::domain::keys::testing::entity("note", "8")),
            None
        );
        assert!(layout.can_change(&[]));
        for (eid, is_former) in [
            ("7", false),
            ("7~12.3", false),
            ("7~11.3", true),
            ("8~12.3", true),
        ] {
            let eid = crate::domain::ids::Id::stored(eid).expect("an ID");
            assert_eq!(
                layout.is_former_shard(&crate::domain::keys::testing::name("note"), &eid),
                is_former
            );
        }
        for (field, value) in [
            ("split:note:7", "other 12 8 like"),
            ("split:note:7~1.2", "split 12 8 like"),
            ("split:note", "split 12 8 like"),
        ] {
            assert!(with(field, value).is_err(), "{field} {value}");
        }
    }

    #[test]
    fn reverse_metrics_of_a_checked_server_are_undecided() {
        let mut fields = vec![
            ("partitions", "1024/murmur2"),
            ("hash", "murmur2"),
            ("counters", "module"),
            ("authors", "registry"),
        ];
        assert!(!parse(&fields).expect("a layout").is_reverse_undecided);
        fields.push(("reverse_metrics", UNDECIDED));
        let layout = parse(&fields).expect("a layout");
        assert!(layout.is_reverse_undecided && layout.reverse.is_empty());
    }

    #[test]
    fn layouts_of_other_versions_are_refused() {
        let valid = [
            ("partitions", "1024"),
            ("hash", "crc16"),
            ("counters", "module"),
            ("authors", "event"),
        ];
        assert!(parse(&valid).is_ok());
        for (field, value) in [
            ("hash", "xxh3"),
            ("counters", "sqlite"),
            ("authors", "blockchain"),
            ("reverse_metrics", "like 7"),
            ("reverse:fav", "off"),
            ("storage:note", "column"),
            ("storage:note", "table/a:b"),
            ("schema:v1", "v1 v2 later 0 1"),
            ("epoch", "-1"),
            ("partitions", "512"),
            ("partitions", "1024/murmur2"),
        ] {
            let mut fields = valid.to_vec();
            fields.push((field, value));
            assert!(parse(&fields).is_err(), "{field} {value}");
        }
    }
}
