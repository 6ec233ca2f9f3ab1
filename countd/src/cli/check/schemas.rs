//! The schemas of entity types and of users.

use super::report::{Finding, Remedy, Report};
use crate::cli::error::CommandError;
use countd::domain::config::{Config, Count, EntityConfig};
use countd::domain::error::{SchemaError, join_names};
use countd::domain::ids::Name;
use countd::storage::schema::{Schema, Schemas, user_schema_id};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Prints the configured schemas.
pub(super) async fn check(
    config: &Config,
    schemas: &Schemas,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    let mut unusable = 0;
    let of_entities = config.entities.values().map(|entity| &entity.schema);
    let ids: BTreeSet<&Name> = of_entities.chain([user_schema_id()]).collect();
    for id in ids {
        let finding = match schemas.refresh(id).await {
            Ok(schema) => {
                let finding = of_stored(config, &schema, id);
                unusable += usize::from(finding.is_problem());
                finding
            }
            Err(SchemaError::Store(error)) => return Err(error.into()),
            Err(error) => {
                let finding = of_error(config, id, &error);
                unusable += usize::from(finding.is_problem());
                finding
            }
        };
        report.add(&finding)?;
    }
    if unusable > 0 {
        report.fail(format!(
            "{unusable} schemas cannot be used: see `countd schema set --help`"
        ));
    }
    Ok(())
}

/// A schema that does not exist, or cannot be used.
pub(super) fn of_error(config: &Config, id: &Name, error: &SchemaError) -> Finding {
    let is_missing = matches!(error, SchemaError::Missing(_));
    if let (true, Some(declared)) = (is_missing, config.schemas.get(id)) {
        let names = join_names(&declared.counters);
        let note = format!("there is no schema {id}: countd creates it when it starts");
        return Finding::note(note, format!("countd schema set {id} {names}"));
    }
    let remedy = match required_names(config, id) {
        Some(names) if is_missing => Remedy::command(format!("countd schema set {id} {names}")),
        None if is_missing => Remedy::command(format!("countd schema set {id} NAME ..."))
            .knowing("no metric of the configuration counts for its types: name the counters that they shall have"),
        _ => Remedy::advice(format!(
            "no command repairs a damaged schema, because the order of the counters is lost with it: restore schema:{id} from a backup"
        )),
    };
    Finding::problem(format!("schema {id}: {error}"), remedy)
}

/// A stored schema, and whether it fits the configuration.
pub(super) fn of_stored(config: &Config, schema: &Schema, id: &Name) -> Finding {
    let names = join_names(schema.names());
    let declared = config.schemas.get(id);
    let Some(declared) = declared.filter(|_| !config.has_default_schemas) else {
        return Finding::ok(format!("schema {id}: {names}"));
    };
    match declared.counters.get(schema.own_names().len()..) {
        _ if !schema.agrees_with(&declared.counters) => Finding::problem(
            format!(
                "schema {id} has {names}, which is not what schemas.{id} begins with: countd does not start"
            ),
            Remedy::advice(format!(
                "no command moves counters within a schema: let schemas.{id} begin with {names}, or give the types another schema with `countd schema migrate`"
            )),
        ),
        Some(new) if !new.is_empty() => {
            let new = join_names(new);
            Finding::note(
                format!("schema {id}: {names}; countd will append when it starts: {new}"),
                Remedy::command(format!("countd schema extend {id} {new}"))
                    .knowing("the next process that starts does it, too"),
            )
        }
        _ => Finding::ok(format!("schema {id}: {names}")),
    }
}

/// The metrics that types with a schema count, between spaces. `None` for the schema of users, which countd creates.
fn required_names(config: &Config, id: &Name) -> Option<String> {
    if id == user_schema_id() {
        return None;
    }
    let types = config.entities.iter();
    let types: Vec<_> = types.filter(|(_, entity)| entity.schema == *id).collect();
    let metrics = config.metrics.iter().filter(|(_, metric)| {
        let applies = |etype: &Name| metric.applies_to(etype);
        metric.count != Count::Never && types.iter().any(|(etype, _)| applies(etype))
    });
    let names: Vec<&str> = metrics.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Notes the metrics that the schema of an entity type lacks.
pub(super) fn note_missing_counters(
    config: &Config,
    schemas: &Schemas,
    report: &mut Report<impl Write>,
) -> io::Result<()> {
    for (etype, EntityConfig { schema: id, .. }) in &config.entities {
        let Some(schema) = schemas.cached(id) else {
            continue;
        };
        for (name, metric) in config.metrics.iter() {
            let has_counter = metric.count != Count::Never && metric.applies_to(etype);
            if has_counter && schema.index_of(name.as_str()).is_none() {
                report.add(&of_missing_counter(etype, id, name))?;
            }
        }
    }
    Ok(())
}

/// A metric that the schema of an entity type lacks.
pub(super) fn of_missing_counter(etype: &Name, id: &Name, metric: &Name) -> Finding {
    let note = format!("{etype} has no {metric}: schema {id} does not contain it");
    Finding::note(note, format!("countd schema extend {id} {metric}"))
}

/// Notes the counters of users that the next start appends to the schema.
pub(super) fn note_new_user_counters(
    config: &Config,
    schemas: &Schemas,
    report: &mut Report<impl Write>,
) -> io::Result<()> {
    let stored = schemas.cached(user_schema_id());
    let stored = stored.map_or(0, |schema| schema.len());
    match config.users.names().get(stored..) {
        Some(new) if stored > 0 && !new.is_empty() => report.add(&of_new_user_counters(new)),
        _ => Ok(()),
    }
}

/// Counters of users that the next start appends.
pub(super) fn of_new_user_counters(new: &[Name]) -> Finding {
    let note = format!(
        "countd will append to the counters of users when it starts: {}",
        join_names(new)
    );
    let advice = "no command is needed: the next process that serves or counts appends them";
    Finding::note(note, Remedy::advice(advice))
}
