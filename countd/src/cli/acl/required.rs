//! The permissions that a process requires, which depend on its roles, its configuration and the server.

use super::examples::{RequiredPermission, resolve};
use super::key_kinds::KeyKinds;
use super::roles::{DataLayout, Roles};
use crate::cli::top;
use countd::consumer;
use countd::domain::config::{Config, Count, EntityConfig, FactKind, Metric, Order};
use countd::domain::ids::Name;
use countd::facts::{self, FactStores, SplitFacts};
use countd::http;
use countd::ingest::actions::Actions;
use countd::ingest::adjustments;
use countd::ingest::limits::SharedLimiter;
use countd::ingest::user_counters::UserCounters;
use countd::log;
use countd::maintenance::schema as schema_migrations;
use countd::maintenance::{
    erasure, import, jobs, rebuild, reconcile, restore, reverse, split, storage, sums, topic,
    transposition,
};
use countd::monitor::{self, differences};
use countd::query::prefilter::Prefilter;
use countd::query::reads::Queries;
use countd::query::{changes, history, ranks};
use countd::redis::permissions::Permissions;
use countd::redis::processes;
use countd::redis::replica_links;
use countd::redis::script::CounterBackend;
use countd::redis::store::{LIBRARY_PERMISSIONS, Store};
use countd::repair::{self, Rebuilder};
use countd::sink;
use countd::storage::hot::{HotList, HotTracker};
use countd::storage::schema;

/// The permissions that a process with these roles requires on data with any of these backends.
pub fn required_permissions(
    store: &Store,
    config: &Config,
    roles: Roles,
    backends: &[CounterBackend],
) -> Vec<RequiredPermission> {
    let reverse = &store.layout().reverse;
    let declared_on = |backend: &CounterBackend| {
        let layout = DataLayout {
            keys: store.keys(),
            backend: *backend,
            reverse,
        };
        declared(config, &layout, roles)
    };
    let mut declared: Vec<_> = backends.iter().flat_map(declared_on).collect();
    let connection = store
        .required_permissions()
        .and(processes::required_permissions());
    declared.push((KeyKinds::common(store.keys()), connection));
    resolve(&declared)
}

/// The declared permissions of each part of countd, with the kinds of keys that it uses.
fn declared(
    config: &Config,
    layout: &DataLayout<'_>,
    roles: Roles,
) -> Vec<(KeyKinds, Permissions)> {
    let (keys, backend) = (layout.keys, layout.backend);
    let mut common = KeyKinds::common(keys);
    if config.changes.enabled {
        common = common.with_changes(keys);
    }
    if config.metrics.daily().next().is_some() {
        common = common.with_days(keys, backend, config);
    }
    let mut declared = vec![(common.clone(), log::producer_permissions())];
    if config.monitor.interval().is_some() {
        declared.push((common.clone(), monitor::required_permissions()));
    }
    if roles.serves && config.changes.enabled {
        declared.push((common.clone(), changes::required_permissions()));
    }
    if roles.serves && Prefilter::is_possible(config, backend) {
        let permissions = Prefilter::required_permissions(keys.tagged());
        declared.push((common.clone(), permissions));
    }
    if roles.serves && config.limits.uses_redis() {
        declared.push((common.clone(), SharedLimiter::required_permissions()));
    }
    if roles.serves {
        declared.push((common.clone(), jobs::client_permissions()));
        declared.push((common.clone(), history::required_permissions()));
        declared.push((common.clone(), ranks::required_permissions()));
        declared.push((common.clone(), HotTracker::required_permissions()));
    }
    if roles.consumes {
        declared.push((common.clone(), HotList::required_permissions()));
        declared.push((common.clone(), jobs::client_permissions()));
        declared.push((common.clone(), jobs::runner_permissions()));
        declared.push((common.clone(), log::consumer_permissions(keys.tagged())));
        if config.log.archive.dir().is_some() {
            declared.push((common.clone(), log::archive_permissions()));
            declared.push((common.clone(), countd::redis::layout::record_permissions()));
        }
        // Announcements may have been enabled before.
        let changes = common.with_changes(keys);
        declared.push((changes, erasure::changes_permissions()));
    }
    if roles.serves || roles.consumes {
        declared.push((common.clone(), differences::recorder_permissions()));
    }
    if roles.relays {
        declared.push((common.clone(), log::lag_permissions()));
    }
    if roles.sinks {
        declared.push((common.clone(), sink::required_permissions()));
    }
    let has_console = roles.serves && config.http.console;
    if has_console {
        declared.push((common.clone(), http::console_permissions()));
    }
    if roles.serves && (config.http.console || config.http.demo) {
        declared.push((common.clone(), log::lag_permissions()));
    }
    if roles.consumes || roles.operates || has_console {
        declared.push((common.clone(), repair::retry_permissions(backend)));
    }
    if roles.operates {
        declared.push((common.clone(), top::required_permissions()));
        declared.push((common.clone(), reverse::permissions::required_permissions()));
        declared.push((common.clone(), log::operator_permissions()));
        declared.push((common.clone(), topic::required_permissions()));
        if backend.has_strings() {
            let library = Permissions::of_commands(LIBRARY_PERMISSIONS);
            declared.push((common.clone(), library));
        }
    }
    if roles.operates && backend.is_mixed() {
        let adoption = storage::required_permissions(backend, keys.tagged());
        declared.push((common.with_adopted(keys), adoption));
    }
    let mut counters = vec![common.with_user_counters(keys)];
    declared.push((counters[0].clone(), schema::reader_permissions()));
    if !config.users.counters.is_empty() {
        declared.push((counters[0].clone(), schema::writer_permissions()));
    }
    if roles.operates {
        let inspection = replica_links::required_permissions(keys.tagged());
        declared.push((common.clone(), inspection));
        let migrations = storage::required_permissions(backend, keys.tagged());
        declared.push((counters[0].clone(), migrations));
        let restores = restore::required_permissions(backend);
        declared.push((counters[0].clone(), restores));
    }
    if roles.serves {
        declared.push((counters[0].clone(), Queries::required_permissions(backend)));
        let users = &counters[0];
        declared.push((users.clone(), Rebuilder::required_permissions(backend)));
        declared.push((users.clone(), Queries::verification_permissions(backend)));
        let resets = UserCounters::required_permissions(backend);
        declared.push((counters[0].clone(), resets));
    }
    if roles.consumes {
        let users = &counters[0];
        declared.push((users.clone(), Rebuilder::required_permissions(backend)));
        declared.push((users.clone(), sums::required_permissions(backend)));
        declared.push((users.clone(), transposition::required_permissions()));
        declared.push((users.clone(), transposition::user_permissions(backend)));
        declared.push((users.clone(), Queries::required_permissions(backend)));
    }
    for (etype, EntityConfig { schema: id, .. }) in &config.entities {
        let kinds = common.with_counters(keys, id, etype);
        declared.push((kinds.clone(), schema::reader_permissions()));
        if (roles.serves || roles.consumes) && config.schemas.contains_key(id) {
            declared.push((kinds.clone(), schema::writer_permissions()));
        }
        if roles.operates {
            declared.push((kinds.clone(), schema::operator_permissions()));
            let imports = import::required_permissions(backend);
            declared.push((kinds.with_imports(keys), imports));
            let migrations = storage::required_permissions(backend, keys.tagged());
            declared.push((kinds.clone(), migrations));
            declared.push((kinds.clone(), schema_migrations::required_permissions()));
        }
        if roles.operates || roles.consumes {
            let shadows = kinds.with_shadows(keys, id, etype);
            declared.push((shadows, split::refusal_permissions()));
        }
        if roles.operates || roles.consumes && config.counter.rebuild.enabled {
            let shadows = kinds.with_shadows(keys, id, etype);
            declared.push((shadows, rebuild::required_permissions(backend)));
        }
        if roles.consumes {
            let sweeps = sums::required_permissions(backend);
            declared.push((kinds.clone(), sweeps));
        }
        if roles.consumes || roles.operates {
            declared.push((kinds.clone(), reconcile::required_permissions(backend)));
        }
        if roles.serves || roles.consumes {
            let rebuilds = Rebuilder::required_permissions(backend);
            declared.push((kinds.clone(), rebuilds));
        }
        if roles.consumes {
            declared.push((kinds.clone(), repair::check_now_permissions(backend)));
        }
        // Erasing acts, too.
        if roles.serves || roles.consumes {
            declared.push((kinds.clone(), Actions::required_permissions(backend)));
        }
        if roles.sinks {
            declared.push((kinds.clone(), sink::counter_permissions(backend)));
        }
        if roles.serves {
            declared.push((kinds.clone(), adjustments::required_permissions(backend)));
            declared.push((kinds.clone(), Queries::required_permissions(backend)));
            declared.push((kinds.clone(), Queries::split_permissions()));
        }
        counters.push(kinds);
    }
    if roles.consumes {
        let commit =
            consumer::required_permissions(backend).and(erasure::required_permissions(backend));
        let counters = counters.into_iter().map(|kinds| kinds.with_event_ids(keys));
        declared.extend(counters.map(|kinds| (kinds, commit.clone())));
    }
    for (_, metric) in config.metrics.daily() {
        for etype in etypes(config, metric) {
            let Some(schema) = config.schema_of(etype).flatten() else {
                continue;
            };
            let kinds = common.with_counters(keys, schema, etype);
            if roles.serves || roles.consumes {
                let rebuilds = Rebuilder::required_permissions(backend);
                declared.push((kinds.clone(), rebuilds));
            }
            if roles.consumes || roles.operates {
                declared.push((kinds, reconcile::fact_permissions(backend)));
            }
        }
    }
    let stores = FactStores::new(keys, backend, config.facts.shards);
    for (name, metric) in config.metrics.iter() {
        let (Some(kind), Some(facts)) = (metric.fact_kind(), stores.of(metric)) else {
            continue;
        };
        for etype in etypes(config, metric) {
            let schema = config.schema_of(etype).flatten();
            let kinds = match schema.filter(|_| metric.count == Count::Now) {
                Some(schema) => common.with_counters(keys, schema, etype),
                None => common.clone(),
            };
            let is_reverse = metric.reverse || layout.reverse.contains(name);
            let timelines = (name, metric);
            let timelines = common.with_timelines(keys, backend, timelines, etype, is_reverse);
            if is_reverse || metric.order == Order::Time {
                if roles.serves {
                    declared.push((timelines.clone(), Queries::timeline_permissions(backend)));
                }
                if roles.consumes {
                    let timelines = timelines.with_event_ids(keys);
                    declared.push((timelines, consumer::required_permissions(backend)));
                }
            }
            let kinds = kinds.with_facts(keys, (kind, backend), (name, etype));
            let timelines = timelines.with_facts(keys, (kind, backend), (name, etype));
            let users = timelines.with_user_counters(keys);
            if roles.serves || roles.consumes {
                declared.push((users.clone(), Rebuilder::required_permissions(backend)));
            }
            if roles.serves {
                declared.push((users.clone(), Queries::verification_permissions(backend)));
            }
            if is_reverse && (roles.consumes || roles.operates) {
                declared.push((timelines, transposition::fact_permissions(backend)));
                declared.push((users, transposition::user_permissions(backend)));
            }
            if roles.operates && is_reverse {
                declared.push((
                    kinds.clone(),
                    reverse::permissions::fact_permissions(kind, backend),
                ));
            }
            // Facts of retried events are read again if a timeline lists them.
            if roles.consumes && (is_reverse || metric.order == Order::Time) {
                declared.push((kinds.clone(), facts.contains_permissions()));
            }
            if roles.serves || roles.consumes || roles.sinks {
                declared.push((kinds.clone(), facts.required_permissions()));
            }
            if kind == FactKind::Rbm && metric.count == Count::Now {
                if roles.serves || roles.consumes {
                    declared.push((kinds.clone(), SplitFacts::required_permissions(backend)));
                }
                if roles.consumes {
                    declared.push((kinds.clone(), erasure::split_permissions(backend)));
                }
                if roles.consumes || roles.operates {
                    declared.push((kinds.clone(), facts.required_permissions()));
                    declared.push((kinds.clone(), split::required_permissions(backend)));
                }
            }
            if roles.serves || roles.consumes {
                declared.push((kinds.clone(), facts::cards_permissions(backend)));
            }
            if roles.serves || roles.consumes || roles.operates {
                let rebuilds = Rebuilder::required_permissions(backend);
                declared.push((kinds.clone(), rebuilds));
            }
            if roles.consumes {
                let erases = erasure::required_permissions(backend);
                declared.push((kinds.clone(), erases));
            }
            if roles.consumes || roles.operates || has_console {
                declared.push((kinds.clone(), repair::retry_permissions(backend)));
            }
            if roles.consumes || roles.operates {
                let mut kinds = kinds.clone();
                if config.changes.enabled {
                    kinds = kinds.with_changes(keys);
                }
                declared.push((kinds, reconcile::fact_permissions(backend)));
            }
            if roles.consumes && kind == FactKind::Daily {
                declared.push((kinds, facts::compaction_permissions(backend)));
            }
        }
    }
    declared
}

/// The types of entities that a metric applies to.
fn etypes<'a>(config: &'a Config, metric: &'a Metric) -> Vec<&'a Name> {
    match &metric.entities {
        Some(etypes) => etypes.iter().collect(),
        None => config.entities.keys().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countd::domain::keys::{Keys, PartitionHash};
    use countd::redis::layout;
    use countd::redis::permissions::kind_of_key;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// All declarations, for every configuration.
    fn all_declared() -> Vec<(KeyKinds, Permissions)> {
        let mut all = Vec::new();
        for kind in ["rbm", "bitmap", "daily", "sharded"] {
            let text = format!(
                "[changes]\nenabled = true\n[log.archive]\ndir = \"archive\"\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\nfacts = \"{kind}\"\nreverse = true\ndaily = true\nreads = \"stream\"\n"
            );
            let config = Config::parse(&text).expect("a configuration");
            for backend in CounterBackend::ALL {
                for is_cluster in [false, true] {
                    let keys = Keys::new(8, is_cluster, PartitionHash::Murmur2);
                    all.push((KeyKinds::common(keys), layout::required_permissions()));
                    let reverse = &[];
                    let layout = DataLayout {
                        keys,
                        backend,
                        reverse,
                    };
                    all.extend(declared(&config, &layout, Roles::ALL));
                }
            }
        }
        all
    }

    #[test]
    fn every_declared_kind_of_key_exists() {
        for (kinds, permissions) in all_declared() {
            for line in permissions.lines() {
                for name in line.split(' ').filter_map(kind_of_key) {
                    // Users have no counters of metrics and no author. Only metrics have facts.
                    // Not all data has timelines, and tables.
                    let is_optional = [
                        "counters",
                        "tables",
                        "authors",
                        "facts",
                        // A script that counts facts knows all stores.
                        "ids",
                        "set",
                        "bits",
                        "chunks",
                        "recount",
                        "day",
                        "days",
                        "compacted",
                        "newest_table",
                        "newest_set",
                        "older_ids",
                        "older_set",
                        "totals",
                    ];
                    let is_optional = is_optional.contains(&name);
                    let exists = kinds.named(name).next().is_some();
                    assert!(exists || is_optional, "{line}");
                }
            }
        }
    }

    #[test]
    fn every_declaration_in_a_lua_file_is_required_by_a_role() {
        let all = all_declared();
        let all: BTreeSet<&str> = all.iter().flat_map(|(_, p)| p.lines()).collect();
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lua");
        for file in fs::read_dir(directory).expect("the Lua files") {
            let path = file.expect("a file").path();
            let source = fs::read_to_string(&path).expect("a text");
            for line in source
                .lines()
                .filter_map(|l| l.strip_prefix("-- requires: "))
            {
                assert!(all.contains(line), "{}: {line}", path.display());
            }
        }
    }
}
