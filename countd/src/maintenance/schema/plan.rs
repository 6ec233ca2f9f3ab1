//! Which columns a migration of a schema concerns, and how the new schema names them.

use super::error::SchemaMigrationError;
use crate::domain::config::{Config, Count, Metric};
use crate::domain::error::MAX_NAMES;
use crate::domain::ids::Name;
use crate::domain::schema_views::View;
use crate::redis::layout::StoredLayout;
use crate::storage::schema::Schema;
use std::collections::{BTreeMap, BTreeSet};

/// The old and the new schema of a migration.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The old schema.
    pub from: Name,
    /// The new schema.
    pub to: Name,
}

/// The schemas whose columns the migration concerns: the old one, and those of which it is the current view. A migration that is under
/// way or has ended concerns those of which it is the latest one. Another one that is under way excludes this one.
pub(super) fn columns(layout: &StoredLayout, config: &Config, pair: &Pair) -> Vec<Name> {
    let all = layout.all_schema_views().iter();
    let found = all.filter(|(_, views)| {
        let state = &views.state;
        (&state.from, &state.to) == (&pair.from, &pair.to) || state.current() == &pair.from
    });
    let mut found: Vec<Name> = found.map(|(columns, _)| columns.clone()).collect();
    let is_plain = layout.schema_views(&pair.from).is_none();
    if is_plain && (found.is_empty() || !types_of(config, &pair.from).is_empty()) {
        found.push(pair.from.clone());
    }
    found
}

/// The types whose counters are in the columns of a schema.
pub(super) fn types_of(config: &Config, columns: &Name) -> Vec<Name> {
    let types = config.entities.iter();
    let types = types.filter(|(_, entity)| entity.schema == *columns);
    types.map(|(etype, _)| etype.clone()).collect()
}

/// The schemas between which a view of columns is planned.
pub(super) struct Schemas<'a> {
    /// The ID of the schema that has the columns, and the schema with its views.
    pub(super) columns: (&'a Name, &'a Schema),
    /// The counters of the new schema.
    pub(super) to: &'a [Name],
    /// The counters of the old schema and their columns.
    pub(super) from: BTreeMap<Name, Name>,
}

impl<'a> Schemas<'a> {
    /// `of_view` has the counters of the old schema if it is a view of the columns.
    pub(super) fn new(
        columns: (&'a Name, &'a Schema),
        (from, of_view): (&View, Option<&[Name]>),
        to: &'a [Name],
    ) -> Schemas<'a> {
        let names = of_view.unwrap_or(columns.1.own_names()).iter();
        let from = names.map(|name| (name.clone(), from.column(name).clone()));
        Schemas {
            columns,
            to,
            from: from.collect(),
        }
    }
}

/// The view of the columns that the new schema is. `map` has the old name of each renamed counter by its new one; `recorded` is the view
/// that an earlier migration has recorded.
///
/// # Errors
/// A counter is unknown, two have one column, or a name would mean two columns.
pub(super) fn view(
    pair: &Pair,
    schemas: &Schemas<'_>,
    map: &BTreeMap<Name, Name>,
    recorded: Option<&View>,
) -> Result<View, SchemaMigrationError> {
    let Pair { from, to } = pair;
    let (id, columns) = schemas.columns;
    let refused = |problem: String| Err(SchemaMigrationError::Refused(problem));
    if let Some((new, old)) = map.iter().find(|(new, _)| !schemas.to.contains(new)) {
        return refused(format!(
            "--map {old}={new}: schema {to} has no counter {new}"
        ));
    }
    let mut view = recorded.cloned().unwrap_or_default();
    let mut used: BTreeMap<Name, &Name> = BTreeMap::new();
    for counter in schemas.to {
        let known = match recorded {
            _ if to == id => Some(counter.clone()),
            Some(view) => {
                let column = view.column(counter);
                let has_column = columns.index_of(column.as_str()).is_some();
                let is_recorded = view.renamed.contains_key(counter)
                    || view.added.contains(counter)
                    || schemas.from.get(counter) == Some(column);
                (has_column && is_recorded).then(|| column.clone())
            }
            None => None,
        };
        let mapped = match map.get(counter) {
            None => None,
            Some(old) => match schemas.from.get(old) {
                Some(column) => Some(column.clone()),
                None => {
                    return refused(format!(
                        "--map {old}={counter}: schema {from} has no counter {old}"
                    ));
                }
            },
        };
        if let (Some(known), Some(mapped)) = (&known, &mapped)
            && known != mapped
        {
            return refused(format!(
                "{counter} of schema {to} has been the counter {known} in an earlier migration: it stays this one"
            ));
        }
        let column = mapped
            .or(known)
            .or_else(|| schemas.from.get(counter).cloned());
        let named = columns.index_of(counter.as_str());
        let column = match column {
            Some(column) => {
                let own = columns.index_of(column.as_str());
                if named.is_some() && named != own {
                    return refused(format!(
                        "{counter} is the name of another counter of schema {from}, or was: events in the log may have this name"
                    ));
                }
                column
            }
            None if named.is_some() => {
                return refused(format!(
                    "{counter} of schema {to} would be a new counter, but the data has had another one with this name: choose a new name"
                ));
            }
            None => {
                view.added.insert(counter.clone());
                counter.clone()
            }
        };
        if &column != counter {
            view.renamed.insert(counter.clone(), column.clone());
        }
        if let Some(other) = used.insert(column, counter) {
            return refused(format!(
                "{other} and {counter} of schema {to} would be the same counter"
            ));
        }
    }
    let new = view.added.iter();
    let new = new.filter(|counter| columns.index_of(counter.as_str()).is_none());
    if columns.len() + new.count() > MAX_NAMES {
        return refused(format!(
            "the schemas would have more than {MAX_NAMES} columns"
        ));
    }
    Ok(view)
}

/// Refuses a view that gives a configured metric the counter of another one: its facts, days and credits have the name of that one.
///
/// # Errors
/// The view does.
pub(super) fn check_metrics(
    config: &Config,
    types: &[Name],
    view: &View,
) -> Result<(), SchemaMigrationError> {
    for (name, metric) in config.metrics.iter() {
        let applies = types.iter().any(|etype| metric.applies_to(etype));
        if let (true, true, Some(column)) =
            (applies, metric.is_bound_to_name(), view.renamed.get(name))
        {
            return Err(SchemaMigrationError::Refused(format!(
                "the metric {name} has facts, counts by day or counters of users by this name, so it cannot be the counter {column}: remove it from the configuration first"
            )));
        }
    }
    Ok(())
}

/// The metrics of added counters that can be computed from facts or counts by day.
pub(super) fn computed(config: &Config, types: &[Name], added: &BTreeSet<Name>) -> Vec<Name> {
    let has_source = |metric: &Metric| metric.fact_kind().is_some() || metric.daily;
    let metrics = config.metrics.iter().filter(|(name, metric)| {
        added.contains(*name)
            && metric.count != Count::Never
            && has_source(metric)
            && types.iter().any(|etype| metric.applies_to(etype))
    });
    metrics.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn names(text: &str) -> Vec<Name> {
        text.split_whitespace().map(name).collect()
    }

    fn plan(from: &str, to: &str, map: &[(&str, &str)]) -> Result<String, String> {
        let pair = Pair {
            from: name("v1"),
            to: name("v2"),
        };
        let columns = Schema::new(names(from)).expect("a schema");
        let to = names(to);
        let id = name("v1");
        let none = View::default();
        let schemas = Schemas::new((&id, &columns), (&none, None), &to);
        let map = map.iter().map(|(old, new)| (name(new), name(old)));
        let view = view(&pair, &schemas, &map.collect(), None);
        view.map(|view| view.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn counters_are_dropped_renamed_reordered_and_added() {
        let found = plan("read like fav", "share like view", &[("read", "view")]);
        assert_eq!(found.as_deref(), Ok("read>view +share"));
        assert_eq!(plan("a b", "b a", &[]).as_deref(), Ok(""));
        assert_eq!(plan("a b", "b", &[]).as_deref(), Ok(""));
    }

    #[test]
    fn a_name_means_one_column() {
        for (from, to, map, problem) in [
            (
                "a b",
                "b a",
                &[("a", "b"), ("b", "a")][..],
                "another counter",
            ),
            ("a b", "b c", &[("a", "b")], "another counter"),
            ("a b", "b c", &[("b", "c")], "the same counter"),
            ("a b", "c d", &[("a", "c"), ("a", "d")], "the same counter"),
            ("a", "a", &[("x", "a")], "v1 has no counter x"),
            ("a", "a", &[("a", "x")], "v2 has no counter x"),
        ] {
            let refusal = plan(from, to, map).expect_err(problem);
            assert!(refusal.contains(problem), "{refusal}");
        }
    }
}
