//! How the data is stored, beside how the configuration says.

use super::report::{Finding, Remedy, Report};
use crate::cli::error::CommandError;
use countd::domain::config::{Config, Storage, USER};
use countd::domain::error::StoreError;
use countd::domain::ids::Name;
use countd::domain::keys::StoragePhase;
use countd::domain::schema_views::MigrationState;
use countd::maintenance::storage::{MAX_LEFTOVERS, Target, leftovers};
use countd::redis::processes::live_processes;
use countd::redis::script::CounterBackend;
use countd::redis::store::Store;
use countd::repair::other_processes;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Notes everything about the layout.
pub(super) async fn note_all(
    config: &Config,
    store: &Store,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    note_storage(config, store, report)?;
    note_schemas(store, report)?;
    note_reverse(config, store, report)?;
    note_external(store, report)?;
    note_counting(config, store, report).await?;
    note_leftovers(config, store, report).await
}

/// Notes the types whose counters are not stored as configured. On data without the module all are Strings.
fn note_storage(config: &Config, store: &Store, report: &mut Report<impl Write>) -> io::Result<()> {
    if store.backend() != CounterBackend::Module {
        return Ok(());
    }
    let layout = store.layout();
    let types = config.entities.iter();
    let types =
        types.map(|(etype, entity)| (etype.as_str(), layout.storage_of(etype), entity.storage));
    let users = (USER, layout.storage_of_users(), config.users.storage);
    for (etype, stored, configured) in types.chain([users]) {
        if let Some(finding) = of_storage(etype, stored, configured) {
            report.add(&finding)?;
        }
    }
    Ok(())
}

/// A type whose counters are not stored as configured.
pub(super) fn of_storage(
    etype: &str,
    stored: StoragePhase,
    configured: Storage,
) -> Option<Finding> {
    let migrate = format!("countd storage migrate {etype}");
    let note = |form: &str| {
        format!(
            "counters of {etype} are {form}, although the configuration says {}: this data was created so",
            configured.name()
        )
    };
    match (stored, configured) {
        (StoragePhase::Table, Storage::Object) => {
            let section = if etype == USER { "users" } else { etype };
            let advice = format!(
                "no command moves rows back to objects, and nothing is wrong: set storage = \"table\" for {section}"
            );
            Some(Finding::note(
                note("rows of tables"),
                Remedy::advice(advice),
            ))
        }
        (StoragePhase::Object, Storage::Table) => {
            let note = format!("{}; `{migrate}` moves them", note("objects"));
            Some(Finding::note(note, migrate))
        }
        (StoragePhase::Moving, _) => {
            let note = format!(
                "counters of {etype} are moved from objects to rows of tables: `{migrate}` finishes that"
            );
            Some(Finding::note(note, migrate))
        }
        _ => None,
    }
}

/// A note on the backend, for data without the module's types.
pub(super) fn of_backend(backend: CounterBackend, has_module: bool, has_library: bool) -> Finding {
    let adopt = "countd storage adopt";
    if backend.is_mixed() {
        let note = format!(
            "the data was created without the module and is being converted to its types: `{adopt}` finishes that"
        );
        return Finding::note(note, adopt);
    }
    if has_module {
        let note = format!(
            "the module is not used, because this data was created without it: counters are Strings, sets of IDs are Sets; `{adopt}` converts them"
        );
        return Finding::note(note, adopt);
    }
    let strings = "counters are Strings, sets of IDs are Sets";
    if has_library {
        let advice = format!(
            "nothing is wrong. Data of the module takes less memory: load it on all servers, and run `{adopt}`"
        );
        let note = format!("{strings}; the fallback library is loaded");
        return Finding::note(note, Remedy::advice(advice));
    }
    let load = "redis-cli -x FUNCTION LOAD REPLACE < fallback/countint.lua";
    let note = format!(
        "{strings}; the fallback library is not loaded, which countd does not need: {load}"
    );
    Finding::note(note, load)
}

/// Notes the migrations of schemas that have not ended.
fn note_schemas(store: &Store, report: &mut Report<impl Write>) -> io::Result<()> {
    for views in store.layout().all_schema_views().values() {
        if let Some(finding) = of_schema(&views.state) {
            report.add(&finding)?;
        }
    }
    Ok(())
}

/// A migration of a schema that has not ended.
pub(super) fn of_schema(state: &MigrationState) -> Option<Finding> {
    let command = state.next_command()?;
    let note = format!(
        "schema {} is being migrated to {}: {}, reads of {} % of the entities return the new one",
        state.from,
        state.to,
        state.stage.name(),
        state.percent_of_reads()
    );
    Some(Finding::note(note, command))
}

/// Notes the objects that migrations have left.
async fn note_leftovers(
    config: &Config,
    store: &Store,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    if store.backend() != CounterBackend::Module {
        return Ok(());
    }
    let entities = config.entities.keys().cloned().map(Target::named);
    for target in entities.chain([Target::Users]) {
        let found = leftovers(store, &target).await?;
        for finding in of_leftovers(target.name(), &found) {
            report.add(&finding)?;
        }
    }
    Ok(())
}

/// Objects of a type that its migration has left.
pub(super) fn of_leftovers(name: &str, found: &[String]) -> Vec<Finding> {
    let migrate = format!("countd storage migrate {name}");
    let keys = found.iter().map(|key| {
        let note = format!("{key} was left by the migration of its type");
        Finding::note(note, migrate.as_str())
    });
    let mut findings: Vec<Finding> = keys.collect();
    if !found.is_empty() {
        let more = match found.len() {
            MAX_LEFTOVERS => "these and possibly more objects are",
            _ => "these objects are",
        };
        let note = format!("{more} not counted with {name}: `{migrate}` adds them");
        findings.push(Finding::note(note, migrate.as_str()));
    }
    findings
}

/// Notes the metrics whose facts are not kept for users as configured.
fn note_reverse(config: &Config, store: &Store, report: &mut Report<impl Write>) -> io::Result<()> {
    let layout = store.layout();
    // The first process that uses the data keeps the configured metrics.
    if layout.is_reverse_undecided {
        return Ok(());
    }
    for (name, metric) in config.metrics.iter() {
        if let Some(finding) = of_reverse(name, metric.reverse, layout.has_reverse(name)) {
            report.add(&finding)?;
        }
    }
    Ok(())
}

/// A metric whose facts are not kept for users as configured.
pub(super) fn of_reverse(metric: &Name, configured: bool, stored: bool) -> Option<Finding> {
    match (configured, stored) {
        (true, false) => {
            let backfill = format!("countd reverse backfill {metric}");
            let note = format!(
                "facts of {metric} are not kept for users, because this data was begun without: run `{backfill}`"
            );
            Some(Finding::note(note, backfill))
        }
        (false, true) => {
            let note = format!(
                "facts of {metric} are kept for users, although the configuration says no: this data was begun so"
            );
            let advice = format!(
                "no command removes the timelines of users, and nothing is wrong: set reverse = true in [metrics.{metric}]"
            );
            Some(Finding::note(note, Remedy::advice(advice)))
        }
        _ => None,
    }
}

/// Notes the metrics that are not compared with their facts.
fn note_external(store: &Store, report: &mut Report<impl Write>) -> io::Result<()> {
    for name in store.layout().external() {
        report.add(&of_external(name))?;
    }
    Ok(())
}

/// A metric that is not compared with its facts.
pub(super) fn of_external(metric: &Name) -> Finding {
    let note = format!(
        "{metric} is not compared with its facts, because events of it without facts were counted"
    );
    let advice = "no command finds facts that countd does not have: compare the counters with the data of the application, and correct differences with POST /counter/adjust";
    Finding::note(note, Remedy::advice(advice))
}

/// Notes why counters are not compared now, if they are not.
async fn note_counting(
    config: &Config,
    store: &Store,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    let others = other_processes(store, config).await?;
    let live = live_processes(store).await.map_err(StoreError::from)?;
    let is_unsettled = !live.is_empty() && store.layout().counting.is_empty();
    for finding in of_counting(&others, is_unsettled) {
        report.add(&finding)?;
    }
    Ok(())
}

/// Why counters are not compared now: other processes, or events that were appended with other settings.
pub(super) fn of_counting(others: &BTreeSet<String>, is_unsettled: bool) -> Vec<Finding> {
    if others.is_empty() && is_unsettled {
        let note = "counters are not compared until all events of other settings are counted";
        let advice = "no command: it ends by itself when the consumers have counted these events. Start `countd consume` if none runs";
        return vec![Finding::note(note, Remedy::advice(advice))];
    }
    let others = others.iter().map(|process| {
        let note = format!(
            "process {process} has other settings of metrics (`count`, `facts`, `daily`) than this configuration: counters are not compared while both are used"
        );
        let advice = "no command changes the settings of a running process: start it again with this configuration, or run this check with that of the process";
        Finding::note(note, Remedy::advice(advice))
    });
    others.collect()
}
