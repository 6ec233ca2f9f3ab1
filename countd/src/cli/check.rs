//! `countd check`.

use crate::cli::error::CommandError;
use countd::domain::config::{Ack, Config, Count, EntityConfig, Storage, USER};
use countd::domain::error::{SchemaError, StoreError, join_names};
use countd::domain::health::FailedPartition;
use countd::domain::ids::Name;
use countd::domain::keys::{Partition, StoragePhase};
use countd::log::inspect::{Inspection, inspect};
use countd::maintenance::storage::{MAX_LEFTOVERS, Target, leftovers};
use countd::redis::processes::live_processes;
use countd::redis::replicas::Replication;
use countd::redis::script::CounterBackend;
use countd::redis::store::Store;
use countd::relay;
use countd::repair::other_processes;
use countd::sink;
use countd::storage::schema::{Schemas, user_schema_id};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Damaged data.
pub struct Damage {
    /// The failed partitions.
    pub partitions: Vec<FailedPartition>,
    /// The problems of dead-letter streams.
    pub dead_letters: BTreeSet<String>,
}

impl Damage {
    fn is_none(&self) -> bool {
        self.partitions.is_empty() && self.dead_letters.is_empty()
    }
}

/// Inspects all partitions and dead-letter streams.
///
/// # Errors
/// Redis failed.
pub async fn inspect_all(store: &Store) -> Result<Damage, StoreError> {
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let Inspection { states, error } = inspect(store, &all).await;
    if let Some(error) = error {
        return Err(error);
    }
    let dead_letters = states
        .values()
        .filter_map(|state| state.dead.clone())
        .collect();
    let partitions = states.values().filter_map(|state| {
        let problems = state.problems();
        (!problems.is_empty()).then(|| FailedPartition {
            partition: state.partition,
            reason: problems.join("; "),
        })
    });
    Ok(Damage {
        partitions: partitions.collect(),
        dead_letters,
    })
}

/// Runs `countd check`, after the configuration was loaded, the server connected and the permissions checked.
///
/// # Errors
/// Redis failed, stdout cannot be written, or a check failed.
pub async fn check(config: &Config, store: Store) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    writeln!(out, "configuration: ok")?;
    writeln!(out, "server: ok, {}", describe_server(&store))?;
    writeln!(out, "permissions: ok")?;
    if store.backend() == CounterBackend::Strings {
        writeln!(out, "{}", note_on_backend(&store).await?)?;
    }
    note_replicas(config, &store, &mut out).await?;
    note_storage(config, &store, &mut out)?;
    note_reverse(config, &store, &mut out)?;
    note_external(&store, &mut out)?;
    note_counting(config, &store, &mut out).await?;
    note_leftovers(config, &store, &mut out).await?;
    let damage = inspect_all(&store).await?;
    for failure in &damage.partitions {
        writeln!(out, "partition {}: {}", failure.partition, failure.reason)?;
    }
    for problem in &damage.dead_letters {
        writeln!(out, "dead letters: {problem}")?;
    }
    if damage.is_none() {
        writeln!(out, "partitions: ok")?;
    }
    let schemas = Schemas::new(store);
    let unusable = check_schemas(config, &schemas, &mut out).await?;
    note_missing_counters(config, &schemas, &mut out)?;
    note_new_user_counters(config, &schemas, &mut out)?;
    if config.relay.url.kind().is_some() {
        let checked = relay::check(&config.relay).await;
        checked.map_err(|error| CommandError::Unsuccessful(format!("relay: {error}")))?;
        writeln!(out, "relay: ok")?;
    }
    if config.sink.url.kind().is_some() {
        let checked = sink::check(&config.sink).await;
        checked.map_err(|error| CommandError::Unsuccessful(format!("sink: {error}")))?;
        writeln!(out, "sink: ok")?;
    }
    if unusable > 0 {
        return Err(CommandError::Unsuccessful(format!(
            "{unusable} schemas cannot be used: see `countd schema set --help`"
        )));
    }
    if !damage.is_none() {
        return Err(CommandError::Unsuccessful(format!(
            "{} partitions have failed, {} dead-letter streams are damaged: see docs/countd/operations.md",
            damage.partitions.len(),
            damage.dead_letters.len()
        )));
    }
    Ok(())
}

fn describe_server(store: &Store) -> String {
    let keys = store.keys();
    let mode = match keys.tagged() {
        true => "cluster mode",
        false => "standalone",
    };
    let module = match store.has_module() {
        true => "the module is loaded",
        false => "no module",
    };
    format!("{mode}, {module}, {} partitions", keys.partitions())
}

/// A note on the backend, for data without the module's types.
async fn note_on_backend(store: &Store) -> Result<&'static str, StoreError> {
    if store.has_module() {
        return Ok(
            "note: the module is not used, because this data was created without it: counters are Strings, sets of IDs are Sets",
        );
    }
    Ok(match store.has_library().await? {
        true => "note: counters are Strings, sets of IDs are Sets; the fallback library is loaded",
        false => {
            "note: counters are Strings, sets of IDs are Sets; the fallback library is not loaded, which countd does not need: \
             redis-cli -x FUNCTION LOAD REPLACE < fallback/countint.lua"
        }
    })
}

/// Notes servers with fewer replicas than writes wait for, or none to read from.
async fn note_replicas(
    config: &Config,
    store: &Store,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let required = match config.redis.ack {
        Ack::Replicas(required) => required,
        Ack::Memory | Ack::Fsync => 0,
    };
    let is_read = store.reads_from_replicas();
    if required == 0 && !is_read {
        return Ok(());
    }
    for mut server in store.servers()? {
        let replication = Replication::read(&mut server).await;
        let connected = replication.map_err(StoreError::from)?.replicas.len();
        if connected < usize::from(required) {
            writeln!(
                out,
                "note: redis.ack is {}, but a server has {connected} replicas: writes to it get 503",
                config.redis.ack
            )?;
        }
        if connected == 0 && is_read {
            writeln!(
                out,
                "note: redis.read_from is replica, but a server has no replicas: it answers all reads itself"
            )?;
        }
    }
    Ok(())
}

/// Notes the types whose counters are not stored as configured. On data without the module all are Strings.
fn note_storage(config: &Config, store: &Store, out: &mut impl Write) -> io::Result<()> {
    if store.backend() == CounterBackend::Strings {
        return Ok(());
    }
    let layout = store.layout();
    let types = config.entities.iter();
    let types =
        types.map(|(etype, entity)| (etype.as_str(), layout.storage_of(etype), entity.storage));
    let users = (USER, layout.storage_of_users(), config.users.storage);
    for (etype, stored, configured) in types.chain([users]) {
        let form = match (stored, configured) {
            (StoragePhase::Table, Storage::Object) => "rows of tables",
            (StoragePhase::Object, Storage::Table) => "objects",
            (StoragePhase::Moving, _) => {
                writeln!(
                    out,
                    "note: counters of {etype} are moved from objects to rows of tables: `countd storage migrate {etype}` finishes that"
                )?;
                continue;
            }
            _ => continue,
        };
        let advice = match stored {
            StoragePhase::Object => format!("; `countd storage migrate {etype}` moves them"),
            _ => String::new(),
        };
        writeln!(
            out,
            "note: counters of {etype} are {form}, although the configuration says {}: this data was created so{advice}",
            configured.name()
        )?;
    }
    Ok(())
}

/// Notes the objects that migrations have left.
async fn note_leftovers(
    config: &Config,
    store: &Store,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    if store.backend() == CounterBackend::Strings {
        return Ok(());
    }
    let entities = config.entities.keys().cloned().map(Target::named);
    for target in entities.chain([Target::Users]) {
        let found = leftovers(store, &target).await?;
        for key in &found {
            writeln!(out, "note: {key} was left by the migration of its type")?;
        }
        if !found.is_empty() {
            let more = match found.len() {
                MAX_LEFTOVERS => "these and possibly more objects are",
                _ => "these objects are",
            };
            let name = target.name();
            writeln!(
                out,
                "note: {more} not counted with {name}: `countd storage migrate {name}` adds them"
            )?;
        }
    }
    Ok(())
}

/// Notes the metrics whose facts are not kept for users as configured.
fn note_reverse(config: &Config, store: &Store, out: &mut impl Write) -> io::Result<()> {
    let layout = store.layout();
    // The first process that uses the data keeps the configured metrics.
    if layout.is_reverse_undecided {
        return Ok(());
    }
    for (name, metric) in config.metrics.iter() {
        match (metric.reverse, layout.has_reverse(name)) {
            (true, false) => writeln!(
                out,
                "note: facts of {name} are not kept for users, because this data was begun without: run `countd reverse backfill {name}`"
            )?,
            (false, true) => writeln!(
                out,
                "note: facts of {name} are kept for users, although the configuration says no: this data was begun so"
            )?,
            _ => {}
        }
    }
    Ok(())
}

/// Notes the metrics that are not compared with their facts.
fn note_external(store: &Store, out: &mut impl Write) -> io::Result<()> {
    for name in store.layout().external() {
        writeln!(
            out,
            "note: {name} is not compared with its facts, because events of it without facts were counted"
        )?;
    }
    Ok(())
}

/// Notes why counters are not compared now, if they are not.
async fn note_counting(
    config: &Config,
    store: &Store,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let others = other_processes(store, config).await?;
    for process in &others {
        writeln!(
            out,
            "note: process {process} has other settings of metrics (`count`, `facts`, `daily`) than this configuration: counters are not compared while both are used"
        )?;
    }
    let live = live_processes(store).await.map_err(StoreError::from)?;
    let is_used = !live.is_empty();
    if others.is_empty() && is_used && store.layout().counting.is_empty() {
        writeln!(
            out,
            "note: counters are not compared until all events of other settings are counted"
        )?;
    }
    Ok(())
}

/// Prints the configured schemas. Returns how many cannot be used.
async fn check_schemas(
    config: &Config,
    schemas: &Schemas,
    out: &mut impl Write,
) -> Result<usize, CommandError> {
    let mut unusable = 0;
    let of_entities = config.entities.values().map(|entity| &entity.schema);
    let ids: BTreeSet<&Name> = of_entities.chain([user_schema_id()]).collect();
    for id in ids {
        match schemas.refresh(id).await {
            Ok(schema) => writeln!(out, "schema {id}: {}", join_names(schema.names()))?,
            Err(SchemaError::Store(error)) => return Err(error.into()),
            Err(error) => {
                unusable += 1;
                writeln!(out, "schema {id}: {error}")?;
            }
        }
    }
    Ok(unusable)
}

/// Notes the metrics that the schema of an entity type lacks.
fn note_missing_counters(
    config: &Config,
    schemas: &Schemas,
    out: &mut impl Write,
) -> io::Result<()> {
    for (etype, EntityConfig { schema: id, .. }) in &config.entities {
        let Some(schema) = schemas.cached(id) else {
            continue;
        };
        for (name, metric) in config.metrics.iter() {
            let has_counter = metric.count != Count::Never && metric.applies_to(etype);
            if has_counter && schema.index_of(name.as_str()).is_none() {
                writeln!(
                    out,
                    "note: {etype} has no {name}: schema {id} does not contain it"
                )?;
            }
        }
    }
    Ok(())
}

/// Notes the counters of users that the next start appends to the schema.
fn note_new_user_counters(
    config: &Config,
    schemas: &Schemas,
    out: &mut impl Write,
) -> io::Result<()> {
    let stored = schemas.cached(user_schema_id());
    let stored = stored.map_or(0, |schema| schema.len());
    match config.users.names().get(stored..) {
        Some(new) if stored > 0 && !new.is_empty() => writeln!(
            out,
            "note: countd will append to the counters of users when it starts: {}",
            join_names(new)
        ),
        _ => Ok(()),
    }
}
