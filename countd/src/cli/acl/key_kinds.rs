//! The kinds of keys that declarations of permissions name: an example of each, and the ACL pattern that covers all keys of the kind.

use countd::domain::config::Config;
use countd::domain::ids::{Entity, Id, Name};
use countd::domain::keys::Keys;
use countd::domain::op::Op;
use countd::redis::script::CounterBackend;
use countd::storage::schema::user_schema_id;

/// The number of sample keys from which a pattern is derived.
const SAMPLES: u16 = 20;

/// A kind of key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyKind {
    /// A key of this kind.
    pub example: String,
    /// An ACL pattern that matches all keys of this kind.
    pub pattern: String,
}

impl KeyKind {
    /// Derives the pattern from sample keys that differ in every variable part: their common prefix, followed by `*`.
    fn new(example: String, sample: impl Fn(u16) -> String) -> KeyKind {
        let first = sample(0);
        let common = (0..SAMPLES).fold(first.len(), |common, number| {
            let key = sample(number);
            let equal = first.bytes().zip(key.bytes()).take_while(|(a, b)| a == b);
            common.min(equal.count()).min(key.len())
        });
        let is_constant = (0..SAMPLES).all(|number| sample(number) == first);
        let pattern = match is_constant {
            true => first,
            false => format!("{}*", &first[..common]),
        };
        KeyKind { example, pattern }
    }
}

/// The kinds of keys of a part of the configuration, by name. A name may stand for several kinds.
#[derive(Clone, Default)]
pub struct KeyKinds(pub(super) Vec<(&'static str, KeyKind)>);

/// An entity with another type and id for each number. The partitions differ, too, if there are enough of them.
pub(super) fn entity(number: u16) -> Entity {
    Entity {
        etype: name(number),
        eid: id(number),
    }
}

/// An id for each number.
pub(super) fn id(number: u16) -> Id {
    let text = number.to_string();
    Id::new(text).unwrap_or_else(|_| unreachable!("a number is an id"))
}

/// A name for each number, each with another first letter.
pub(super) fn name(number: u16) -> Name {
    let letter = char::from(b'a' + (number % 26) as u8);
    Name::new(letter.to_string()).unwrap_or_else(|_| unreachable!("a letter is a name"))
}

/// The entity of example keys.
pub fn example_entity(etype: &Name) -> Entity {
    Entity {
        etype: etype.clone(),
        eid: id(0),
    }
}

impl KeyKinds {
    /// The kinds of keys that do not depend on the configuration.
    pub fn common(keys: Keys) -> KeyKinds {
        let mut kinds = KeyKinds::default();
        let partition = |number: u16| number % keys.partitions();
        kinds.constant("layout", keys.layout());
        kinds.add("ack", |n| keys.ack(partition(n)));
        kinds.constant("consumers", keys.consumers());
        kinds.constant("processes", keys.processes());
        kinds.constant("hot", keys.hot_processes());
        kinds.add("hot_report", |n| keys.hot_report(id(n).as_str()));
        kinds.constant("migration", keys.migration_lock());
        kinds.constant("migration", keys.sums_lock());
        kinds.constant("migration_progress", keys.migration_progress());
        kinds.add("phases", |n| keys.storage_phases(partition(n)));
        kinds.add("log", |n| keys.log(partition(n)));
        kinds.add("new", |n| keys.new_log(partition(n)));
        kinds.add("reset", |n| keys.reset_log(partition(n)));
        kinds.add("position", |n| keys.position(partition(n)));
        kinds.constant("restore", keys.restore());
        kinds.add("settled", |n| keys.settled(partition(n)));
        kinds.add("restored", |n| keys.restored_events(partition(n)));
        kinds.add("archived", |n| keys.archived(partition(n)));
        kinds.add("hold", |n| keys.archive_hold(partition(n)));
        kinds.add("sink", |n| keys.sink_hold(partition(n)));
        kinds.add("outcomes", |n| keys.outcomes(partition(n)));
        kinds.add("dead", |n| keys.dead(partition(n)));
        kinds.add("out", |n| keys.outbox(partition(n)));
        kinds.add("counted", |n| keys.counted(partition(n), &id(n)));
        kinds.add("limit", |n| keys.limit(&id(n)));
        for part in 0..keys.reverse(&name(0), &name(0), &id(0)).all().count() {
            kinds.add("reverse", |n| {
                let reverse = keys.reverse(&name(n), &name(n), &id(n));
                reverse.all().nth(part).unwrap_or_default().to_owned()
            });
        }
        for part in 0..keys.latest_users(&name(0), &entity(0)).all().count() {
            kinds.add("latest", |n| {
                let latest = keys.latest_users(&name(n), &entity(n));
                latest.all().nth(part).unwrap_or_default().to_owned()
            });
        }
        kinds.add("split", |n| keys.split_state(&entity(n), n.into()));
        kinds.constant("days_init", keys.days_init());
        kinds.constant("rank_names", keys.rank_names());
        kinds.add("rank", |n| {
            keys.ranks(&name(n), &name(n), partition(n)).key(n)
        });
        kinds.add("rank", |n| {
            keys.rank_state(&name(n), &name(n), partition(n))
        });
        kinds.constant("jobs", keys.jobs());
        kinds.add("job", |n| keys.job(&id(n)));
        kinds.add("audit", |n| keys.audit(partition(n)));
        kinds.add("sums", |n| keys.sums_state(partition(n)));
        kinds.add("sums", |n| keys.sum_hash(partition(n)));
        kinds.constant("reconcile", keys.reconciliation());
        kinds.constant("reconcile", keys.lost_tables());
        kinds.constant("transposition", keys.transposition());
        kinds.constant("migration", keys.transposition_lock());
        kinds.add("user_notes", |n| keys.user_notes(partition(n)));
        kinds.add("drift", |n| keys.drift(partition(n)));
        kinds.constant("differences", keys.differences());
        kinds.add("report", |n| keys.check_report(&id(n), partition(n)));
        kinds.add("migration", |n| keys.reconciliation_lock(partition(n)));
        kinds.add("rebuild", |n| keys.rebuild_lock(&entity(n)));
        kinds.add("rebuild", |n| keys.user_rebuild_lock(&id(n)));
        kinds.add("partition_days", |n| keys.days(partition(n)));
        kinds.add("dedup", |n| {
            keys.dedup(&name(n), &entity(n), Op::Add.name(), &id(n), &n.to_string())
        });
        kinds
    }

    /// Adds the IDs of envelopes that are remembered forever.
    pub fn with_event_ids(&self, keys: Keys) -> KeyKinds {
        let mut kinds = self.clone();
        kinds.add("ids", |n| keys.event_ids(n % keys.partitions()));
        kinds
    }

    /// Adds the streams of changes.
    pub fn with_changes(&self, keys: Keys) -> KeyKinds {
        let mut kinds = self.clone();
        kinds.add("changes", |n| keys.changes(n % keys.partitions()));
        kinds
    }

    /// Adds counts by day, and the streams of days.
    pub fn with_days(&self, keys: Keys, backend: CounterBackend, config: &Config) -> KeyKinds {
        let mut kinds = self.clone();
        let partition = |n: u16| n % keys.partitions();
        for (metric, settings) in config.metrics.daily() {
            let types = settings.entities.iter().flatten();
            for etype in types.chain(config.entities.keys()) {
                let example = example_entity(etype);
                kinds.add_like("day_counts", keys.days_of(metric, &example), |n| {
                    keys.days_of(&name(n), &entity(n))
                });
                kinds.add_like("day_counts", keys.history_of(metric, &example), |n| {
                    keys.history_of(&name(n), &entity(n))
                });
                kinds.add_like("day_counts", keys.totals_hash(metric, etype, 0), |n| {
                    keys.totals_hash(&name(n), &name(n), partition(n))
                });
                if backend.has_tables() {
                    kinds.add_like("totals", keys.totals_table(metric, etype, 0), |n| {
                        keys.totals_table(&name(n), &name(n), partition(n))
                    });
                }
                // Streams stay for some days when `reads` is removed.
                let example = keys.read_streams(metric, &example).key(0);
                kinds.add_like("read_stream", example, |n| {
                    keys.read_streams(metric, &entity(n)).key(n)
                });
            }
        }
        kinds
    }

    /// Adds the state of imports.
    pub fn with_imports(&self, keys: Keys) -> KeyKinds {
        let mut kinds = self.clone();
        let partition = |number: u16| number % keys.partitions();
        kinds.add("import", |n| keys.import_job(&name(n)));
        kinds.add("import_state", |n| {
            keys.import_state(&name(n), partition(n))
        });
        kinds.add("ids", |n| {
            keys.import_ids(&name(n), name(n).as_str(), partition(n))
        });
        kinds.add("import_names", |n| {
            keys.import_names(&name(n), name(n).as_str(), partition(n))
        });
        kinds
    }

    /// Adds the counters of users and their schema.
    pub fn with_user_counters(&self, keys: Keys) -> KeyKinds {
        let mut kinds = self.clone();
        let schema = user_schema_id();
        kinds.add_like("schema", keys.schema(schema), |n| keys.schema(&name(n)));
        kinds.add_like("schema_by_name", keys.schema_by_name(schema), |n| {
            keys.schema_by_name(&name(n))
        });
        kinds.add("counters", |n| keys.user_counters(&id(n)));
        kinds.add("tables", |n| keys.user_table(n % keys.partitions()));
        kinds.add("tables", |n| keys.sum_table(n % keys.partitions()));
        kinds
    }

    /// Adds the keys that an adoption converts: of all metrics and types, including those removed from the configuration.
    pub fn with_adopted(&self, keys: Keys) -> KeyKinds {
        let mut kinds = self.with_user_counters(keys).with_event_ids(keys);
        let partition = |n: u16| n % keys.partitions();
        let object = |n: u16| keys.counters(&name(n), &entity(n));
        kinds.add("counters", object);
        kinds.add("counters", |n| keys.shadow(&object(n)));
        kinds.add("ids", |n| keys.facts(&name(n), &entity(n)));
        kinds.add("ids", |n| {
            keys.import_ids(&name(n), name(n).as_str(), partition(n))
        });
        kinds.add("authors", |n| keys.author_hash(&name(n), partition(n)));
        kinds.add("tables", |n| keys.author_table(&name(n), partition(n)));
        let totals = |n: u16| keys.totals_hash(&name(n), &name(n), partition(n));
        kinds.add("day_counts", totals);
        kinds.add("totals", |n| {
            keys.totals_table(&name(n), &name(n), partition(n))
        });
        let reverse = |n: u16| keys.reverse(&name(n), &name(n), &id(n));
        let latest = |n: u16| keys.latest_users(&name(n), &entity(n));
        kinds.add("newest_set", |n| reverse(n).newest_set);
        kinds.add("newest_set", |n| latest(n).newest_set);
        kinds.add("newest_table", |n| reverse(n).newest_table);
        kinds.add("newest_table", |n| latest(n).newest_table);
        kinds.add("older_set", |n| reverse(n).older_set.unwrap_or_default());
        kinds.add("older_ids", |n| reverse(n).older_ids.unwrap_or_default());
        kinds
    }

    /// Adds a schema, and the counters of an entity type.
    pub fn with_counters(&self, keys: Keys, schema: &Name, etype: &Name) -> KeyKinds {
        let mut kinds = self.clone();
        kinds.add_like("schema", keys.schema(schema), |n| keys.schema(&name(n)));
        kinds.add_like("schema_by_name", keys.schema_by_name(schema), |n| {
            keys.schema_by_name(&name(n))
        });
        let example = keys.counters(schema, &example_entity(etype));
        kinds.add_like("counters", example, |n| keys.counters(&name(n), &entity(n)));
        let partition = |n: u16| n % keys.partitions();
        kinds.add_like("tables", keys.table(schema, etype, 0), |n| {
            keys.table(&name(n), &name(n), partition(n))
        });
        kinds.add_like("tables", keys.author_table(etype, 0), |n| {
            keys.author_table(&name(n), partition(n))
        });
        kinds.add_like("authors", keys.author_hash(etype, 0), |n| {
            keys.author_hash(&name(n), partition(n))
        });
        kinds
    }

    /// Adds the state of a rebuild and the shadows of the counters of an entity type.
    pub fn with_shadows(&self, keys: Keys, schema: &Name, etype: &Name) -> KeyKinds {
        let mut kinds = self.clone();
        let partition = |n: u16| n % keys.partitions();
        kinds.constant("replay", keys.rebuild_state());
        kinds.add("replay_offsets", |n| keys.rebuild_offsets(partition(n)));
        let example = keys.shadow(&keys.counters(schema, &example_entity(etype)));
        kinds.add_like("counters", example, |n| {
            keys.shadow(&keys.counters(&name(n), &entity(n)))
        });
        let example = keys.shadow(&keys.table(schema, etype, 0));
        kinds.add_like("tables", example, |n| {
            keys.shadow(&keys.table(&name(n), &name(n), partition(n)))
        });
        kinds
    }

    fn constant(&mut self, name: &'static str, key: &str) {
        self.add(name, |_| key.to_owned());
    }

    fn add(&mut self, name: &'static str, sample: impl Fn(u16) -> String) {
        self.add_like(name, sample(0), sample);
    }

    /// Adds a kind of keys with an example.
    pub(super) fn add_like(
        &mut self,
        name: &'static str,
        example: String,
        sample: impl Fn(u16) -> String,
    ) {
        self.0.push((name, KeyKind::new(example, sample)));
    }

    /// The kinds with a name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &KeyKind> {
        let kinds = self.0.iter();
        kinds.filter_map(move |(other, kind)| (*other == name).then_some(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countd::domain::config::FactKind;
    use countd::domain::keys::PartitionHash;

    #[test]
    fn patterns_are_what_all_keys_of_a_kind_start_with() {
        let pattern = |keys: Keys, name: &str| {
            let (schema, etype) = (super::name(21), super::name(13));
            let kinds = KeyKinds::common(keys).with_counters(keys, &schema, &etype);
            let facts = (FactKind::Daily, CounterBackend::Module);
            let kinds = kinds.with_facts(keys, facts, (&super::name(11), &etype));
            let kind = kinds.named(name).next().expect("a kind").clone();
            let prefix = kind.pattern.trim_end_matches('*');
            assert!(kind.example.starts_with(prefix), "{kind:?}");
            kind.pattern
        };
        let (server, cluster) = (
            Keys::new(1024, false, PartitionHash::Murmur2),
            Keys::new(1024, true, PartitionHash::Murmur2),
        );
        for (name, on_server, on_cluster) in [
            ("layout", "countd:layout", "countd:layout"),
            ("ack", "countd:ack", "countd:ack:{*"),
            ("consumers", "countd:consumers", "countd:consumers"),
            ("processes", "countd:processes", "countd:processes"),
            ("migration", "countd:migrate", "countd:migrate"),
            ("phases", "countd:storage", "countd:storage:{*"),
            ("log", "x:cnt-update:*", "x:cnt-update:{*"),
            ("new", "x:cnt-update:*", "x:cnt-update:{*"),
            ("position", "x:cnt-update:pos", "x:cnt-update:{*"),
            ("dead", "x:cnt-update:dead", "x:cnt-update:{*"),
            ("partition_days", "countd:days:*", "countd:days:{*"),
            ("dedup", "act:dedup:*", "act:dedup:*"),
            ("counted", "act:dedup:event:*", "act:dedup:event:*"),
            ("limit", "act:limit:*", "act:limit:*"),
            ("schema", "schema:*", "schema:{*"),
            ("counters", "cnt:*", "cnt:*"),
            ("ids", "rbm:*", "rbm:*"),
            ("day", "s:*", "s:*"),
        ] {
            assert_eq!(pattern(server, name), on_server);
            assert_eq!(pattern(cluster, name), on_cluster);
        }
        // The only partition is a constant part of its keys.
        assert_eq!(
            pattern(Keys::new(1, false, PartitionHash::Murmur2), "log"),
            "x:cnt-update:0"
        );
    }
}
