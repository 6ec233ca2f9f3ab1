//! `countd check` and `countd doctor`.

mod damage;
mod layout;
mod report;
mod schemas;
mod servers;
mod topic;

pub use damage::inspect_all;
pub use report::{Finding, Format, Report};

use crate::cli::acl::{self, Roles};
use crate::cli::error::CommandError;
use crate::cli::output::Output;
use countd::domain::config::{Ack, Config};
use countd::domain::error::{ConnectError, StoreError};
use countd::facts;
use countd::redis::layout::Purpose;
use countd::redis::replicas::Replication;
use countd::redis::script::CounterBackend;
use countd::redis::store::Store;
use countd::storage::schema::Schemas;
use countd::storage::user_schema;
use countd::{relay, sink};
use std::error::Error;
use std::io::{self, Write};

/// Runs `countd check`, or `countd doctor`, which also prints the commands that repair what was found.
///
/// # Errors
/// The data cannot be used with the configuration, Redis failed, stdout cannot be written, or something does not work.
pub async fn run(config: &Config, format: Format) -> Result<(), Box<dyn Error>> {
    let mut report = Report::new(io::stdout().lock(), format);
    report.add(&Finding::ok("configuration: ok"))?;
    let store = match connect(config).await {
        Ok(store) => store,
        Err(error) => {
            if let (Some(finding), true) = (describe(error.as_ref()), format != Format::Lines) {
                report.add(&finding)?;
            }
            return Err(error);
        }
    };
    check(&store.with_columns(config), &store, format, &mut report).await?;
    match report.failure() {
        Some(reason) => Err(CommandError::Unsuccessful(reason).into()),
        None => Ok(()),
    }
}

/// Connects as a process would that serves and consumes, but records nothing of the configuration, which may not be in use yet. On an empty
/// server it initializes the layout.
async fn connect(config: &Config) -> Result<Store, Box<dyn Error>> {
    let store = Store::connect(config, Purpose::Check).await?;
    facts::check(&store, config).await?;
    user_schema::check(&store, config).await?;
    acl::check(&store, &store.with_columns(config), Roles::ALL).await?;
    Ok(store)
}

/// Why countd would not start.
fn describe(error: &(dyn Error + 'static)) -> Option<Finding> {
    let finding = Finding::problem(error.to_string());
    Some(match error.downcast_ref::<ConnectError>() {
        Some(ConnectError::MissingPermissions(_)) => finding.repaired_by(
            "countd acl (as a user with all permissions) prints the ACL SETUSER commands",
        ),
        Some(ConnectError::NoModule(_)) => {
            finding.repaired_by("redis-cli MODULE LOAD /usr/lib/redis/modules/libcountint.so")
        }
        Some(ConnectError::Partitions { found, .. }) => {
            finding.repaired_by(setting("log.partitions", found))
        }
        Some(ConnectError::Facts {
            setting: name,
            found,
            ..
        }) => finding.repaired_by(setting(name, found)),
        _ => finding,
    })
}

/// The command that gives a setting the value of the data.
fn setting(name: &str, value: &str) -> String {
    let variable = name.to_ascii_uppercase().replace('.', "__");
    format!("export COUNTD_{variable}={value}")
}

/// Checks that nothing keeps processes from starting that they check after they have connected.
fn check_start(config: &Config, store: &Store, report: &mut Report<impl Write>) -> io::Result<()> {
    let layout = store.layout();
    let mut refused = Vec::new();
    if layout.is_restoring {
        refused.push((ConnectError::Restoring, "countd restore"));
    }
    if layout.archives && config.log.archive.dir().is_none() {
        refused.push((ConnectError::Archive, "countd archive end"));
    }
    for (error, repair) in refused {
        let error = error.to_string();
        report.add(&Finding::problem(error.as_str()).repaired_by(repair))?;
        report.fail(error);
    }
    Ok(())
}

/// Runs the checks, in the order in which they are printed.
async fn check(
    config: &Config,
    store: &Store,
    format: Format,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    report.add(&Finding::ok(format!(
        "server: ok, {}",
        describe_server(store)
    )))?;
    report.add(&Finding::ok("permissions: ok"))?;
    check_start(config, store, report)?;
    if store.backend() != CounterBackend::Module {
        report.add(&note_on_backend(store).await?)?;
    }
    servers::check(store, report).await?;
    note_replicas(config, store, report).await?;
    layout::note_all(config, store, report).await?;
    check_damage(store, format, report).await?;
    let all = Schemas::new(store.clone());
    schemas::check(config, &all, report).await?;
    schemas::note_missing_counters(config, &all, report)?;
    schemas::note_new_user_counters(config, &all, report)?;
    topic::check(config, store, report).await?;
    check_databases(config, report).await
}

/// Checks the partitions and the dead letters.
async fn check_damage(
    store: &Store,
    format: Format,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    let json = format == Format::Json;
    let progress = Output { json }.progress();
    let damage = inspect_all(store, &progress).await?;
    progress.finish();
    for (failure, repair) in &damage.partitions {
        let (partition, reason) = (failure.partition, &failure.reason);
        let problem = Finding::problem(format!("partition {partition}: {reason}"));
        report.add(&match repair {
            Some(repair) => problem.repaired_by(repair),
            None => problem,
        })?;
    }
    for (problem, repair) in &damage.dead_letters {
        let problem = Finding::problem(format!("dead letters: {problem}"));
        report.add(&problem.repaired_by(repair))?;
    }
    if damage.is_none() {
        report.add(&Finding::ok("partitions: ok"))?;
    } else {
        report.fail(format!(
            "{} partitions have failed, {} dead-letter streams are damaged: see docs/countd/operations.md",
            damage.partitions.len(),
            damage.dead_letters.len()
        ));
    }
    Ok(())
}

/// Checks the tables of the relay and the sink, if there are any.
async fn check_databases(
    config: &Config,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    let mut checked = Vec::new();
    if config.relay.url.kind().is_some() {
        let result = relay::check(&config.relay).await;
        checked.push(("relay", result.map_err(|error| error.to_string())));
    }
    if config.sink.url.kind().is_some() {
        let result = sink::check(&config.sink).await;
        checked.push(("sink", result.map_err(|error| error.to_string())));
    }
    for (name, result) in checked {
        match result {
            Ok(()) => report.add(&Finding::ok(format!("{name}: ok")))?,
            Err(error) => {
                report.add(&Finding::problem(format!("{name}: {error}")))?;
                report.fail(format!("{name}: {error}"));
            }
        }
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
async fn note_on_backend(store: &Store) -> Result<Finding, StoreError> {
    let adopt = "countd storage adopt";
    if store.backend().is_mixed() {
        let note = format!(
            "the data was created without the module and is being converted to its types: `{adopt}` finishes that"
        );
        return Ok(Finding::note(note).repaired_by(adopt));
    }
    if store.has_module() {
        let note = format!(
            "the module is not used, because this data was created without it: counters are Strings, sets of IDs are Sets; `{adopt}` converts them"
        );
        return Ok(Finding::note(note).repaired_by(adopt));
    }
    if store.has_library().await? {
        return Ok(Finding::note(
            "counters are Strings, sets of IDs are Sets; the fallback library is loaded",
        ));
    }
    let load = "redis-cli -x FUNCTION LOAD REPLACE < fallback/countint.lua";
    let note = format!(
        "counters are Strings, sets of IDs are Sets; the fallback library is not loaded, which countd does not need: {load}"
    );
    Ok(Finding::note(note).repaired_by(load))
}

/// Notes servers with fewer replicas than writes wait for, or none to read from.
async fn note_replicas(
    config: &Config,
    store: &Store,
    report: &mut Report<impl Write>,
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
            report.add(&Finding::note(format!(
                "redis.ack is {}, but a server has {connected} replicas: writes to it get 503",
                config.redis.ack
            )))?;
        }
        if connected == 0 && is_read {
            report.add(&Finding::note(
                "redis.read_from is replica, but a server has no replicas: it answers all reads itself",
            ))?;
        }
    }
    Ok(())
}
