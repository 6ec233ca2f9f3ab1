//! `countd check` and `countd doctor`.

mod damage;
mod databases;
#[cfg(test)]
mod every;
mod layout;
mod replicas;
mod report;
mod schemas;
mod servers;
mod start;
mod topic;

pub use damage::inspect_all;
pub use report::Format;
use report::{Finding, Report};

use crate::cli::acl::{self, Roles};
use crate::cli::error::CommandError;
use crate::cli::output::Output;
use countd::domain::config::Config;
use countd::domain::error::ConnectError;
use countd::facts;
use countd::redis::layout::Purpose;
use countd::redis::script::CounterBackend;
use countd::redis::store::Store;
use countd::storage::schema::Schemas;
use countd::storage::user_schema;
use std::error::Error;
use std::io::{self, Write};

/// Runs `countd check`, or `countd doctor`, which also prints what repairs what was found.
///
/// # Errors
/// The data cannot be used with the configuration, Redis failed, stdout cannot be written, or something does not work.
pub async fn run(config: &Config, format: Format) -> Result<(), Box<dyn Error>> {
    let mut report = Report::new(io::stdout().lock(), format);
    report.add(&Finding::ok("configuration: ok"))?;
    let store = match connect(config).await {
        Ok(store) => store,
        Err(error) => {
            if format != Format::Lines {
                report.add(&start::describe(&error))?;
            }
            return Err(error.into());
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
async fn connect(config: &Config) -> Result<Store, ConnectError> {
    let store = Store::connect(config, Purpose::Check).await?;
    facts::check(&store, config).await?;
    user_schema::check(&store, config).await?;
    acl::check(&store, &store.with_columns(config), Roles::ALL).await?;
    Ok(store)
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
    for finding in start::of_layout(config, &store.layout()) {
        report.add_and_fail(&finding)?;
    }
    if store.backend() != CounterBackend::Module {
        let has_library = !store.has_module() && store.has_library().await?;
        let finding = layout::of_backend(store.backend(), store.has_module(), has_library);
        report.add(&finding)?;
    }
    servers::check(store, report).await?;
    replicas::check(config, store, report).await?;
    layout::note_all(config, store, report).await?;
    check_damage(store, format, report).await?;
    let all = Schemas::new(store.clone());
    schemas::check(config, &all, report).await?;
    schemas::note_missing_counters(config, &all, report)?;
    schemas::note_new_user_counters(config, &all, report)?;
    topic::check(config, store, report).await?;
    databases::check(config, report).await
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
    for finding in damage.findings() {
        report.add(&finding)?;
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
