//! How the data is stored, beside how the configuration says.

use super::report::{Finding, Report};
use crate::cli::error::CommandError;
use countd::domain::config::{Config, Storage, USER};
use countd::domain::error::StoreError;
use countd::domain::keys::StoragePhase;
use countd::maintenance::storage::{MAX_LEFTOVERS, Target, leftovers};
use countd::redis::processes::live_processes;
use countd::redis::script::CounterBackend;
use countd::redis::store::Store;
use countd::repair::other_processes;
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
        let migrate = format!("countd storage migrate {etype}");
        let form = match (stored, configured) {
            (StoragePhase::Table, Storage::Object) => "rows of tables",
            (StoragePhase::Object, Storage::Table) => "objects",
            (StoragePhase::Moving, _) => {
                let note = format!(
                    "counters of {etype} are moved from objects to rows of tables: `{migrate}` finishes that"
                );
                report.add(&Finding::note(note).repaired_by(migrate))?;
                continue;
            }
            _ => continue,
        };
        let note = format!(
            "counters of {etype} are {form}, although the configuration says {}: this data was created so",
            configured.name()
        );
        report.add(&match stored {
            StoragePhase::Object => {
                Finding::note(format!("{note}; `{migrate}` moves them")).repaired_by(migrate)
            }
            _ => Finding::note(note),
        })?;
    }
    Ok(())
}

/// Notes the migrations of schemas that have not ended.
fn note_schemas(store: &Store, report: &mut Report<impl Write>) -> io::Result<()> {
    for views in store.layout().all_schema_views().values() {
        let state = &views.state;
        if let Some(command) = state.next_command() {
            let note = format!(
                "schema {} is being migrated to {}: {}, reads of {} % of the entities return the new one",
                state.from,
                state.to,
                state.stage.name(),
                state.percent_of_reads()
            );
            report.add(&Finding::note(note).repaired_by(command))?;
        }
    }
    Ok(())
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
        for key in &found {
            let note = format!("{key} was left by the migration of its type");
            report.add(&Finding::note(note))?;
        }
        if !found.is_empty() {
            let more = match found.len() {
                MAX_LEFTOVERS => "these and possibly more objects are",
                _ => "these objects are",
            };
            let name = target.name();
            let migrate = format!("countd storage migrate {name}");
            let note = format!("{more} not counted with {name}: `{migrate}` adds them");
            report.add(&Finding::note(note).repaired_by(migrate))?;
        }
    }
    Ok(())
}

/// Notes the metrics whose facts are not kept for users as configured.
fn note_reverse(config: &Config, store: &Store, report: &mut Report<impl Write>) -> io::Result<()> {
    let layout = store.layout();
    // The first process that uses the data keeps the configured metrics.
    if layout.is_reverse_undecided {
        return Ok(());
    }
    for (name, metric) in config.metrics.iter() {
        let note = match (metric.reverse, layout.has_reverse(name)) {
            (true, false) => {
                let backfill = format!("countd reverse backfill {name}");
                let note = format!(
                    "facts of {name} are not kept for users, because this data was begun without: run `{backfill}`"
                );
                Finding::note(note).repaired_by(backfill)
            }
            (false, true) => Finding::note(format!(
                "facts of {name} are kept for users, although the configuration says no: this data was begun so"
            )),
            _ => continue,
        };
        report.add(&note)?;
    }
    Ok(())
}

/// Notes the metrics that are not compared with their facts.
fn note_external(store: &Store, report: &mut Report<impl Write>) -> io::Result<()> {
    for name in store.layout().external() {
        report.add(&Finding::note(format!(
            "{name} is not compared with its facts, because events of it without facts were counted"
        )))?;
    }
    Ok(())
}

/// Notes why counters are not compared now, if they are not.
async fn note_counting(
    config: &Config,
    store: &Store,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    let others = other_processes(store, config).await?;
    for process in &others {
        report.add(&Finding::note(format!(
            "process {process} has other settings of metrics (`count`, `facts`, `daily`) than this configuration: counters are not compared while both are used"
        )))?;
    }
    let live = live_processes(store).await.map_err(StoreError::from)?;
    let is_used = !live.is_empty();
    if others.is_empty() && is_used && store.layout().counting.is_empty() {
        report.add(&Finding::note(
            "counters are not compared until all events of other settings are counted",
        ))?;
    }
    Ok(())
}
