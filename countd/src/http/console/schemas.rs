//! The page of schemas: the counters of each type, in their order, and what they count.

use super::error::ConsoleError;
use super::layout::{Column, Section, page, table};
use crate::domain::config::{BUILT_IN_COUNTERS, Config, Count, Metric, Nature, Order, Role};
use crate::domain::error::{Problem, SchemaError};
use crate::domain::ids::Name;
use crate::domain::keys::StoragePhase;
use crate::http::app::App;
use crate::http::pages::Page;
use crate::http::sessions::Session;
use crate::redis::script::CounterBackend;
use axum::extract::State;
use maud::{Markup, html};

/// The page.
///
/// # Errors
/// Redis failed.
pub async fn schemas(State(app): State<App>, session: Session) -> Result<Page, ConsoleError> {
    let layout = app.store.layout();
    let mut types = Vec::new();
    for (etype, entity) in &app.config.entities {
        let schema = &entity.schema;
        let columns = layout.columns_of(etype, schema);
        let stored = match app.catalog.schemas.get(columns).await {
            Ok(stored) => Some(stored),
            Err(SchemaError::Missing(_)) => None,
            Err(error) => return Err(Problem::from(error).into()),
        };
        let storage = stored_as(layout.backend, layout.storage_of(etype));
        types.push(html! {
            h2 { "Type " (etype) }
            p {
                "Schema " (schema)
                @if columns != schema { ", with the columns of " (columns) }
                ". Counters are " (storage) "."
            }
            @match &stored {
                Some(stored) => (counters(etype.as_str(), stored.own_names(), |name| {
                    let name = app.catalog.metric_name(&layout, etype, name.as_str());
                    match app.config.metrics.get(name) {
                        Some((_, metric)) => described(metric),
                        None => "no metric of this configuration".to_owned(),
                    }
                })),
                None => p .notice .problem { "The schema does not exist." },
            }
        });
    }
    let users = stored_as(layout.backend, layout.storage_of_users());
    let content = html! {
        @for markup in &types { (markup) }
        h2 { "Users" }
        p { "Counters are " (users) "." }
        (counters("users", &app.config.users.names(), |name| fed_by(&app.config, name)))
    };
    Ok(page(Section::Schemas, &session, &content))
}

/// How counters are stored.
fn stored_as(backend: CounterBackend, storage: StoragePhase) -> &'static str {
    match (backend, storage) {
        (CounterBackend::Strings, _) => "Strings, without the module",
        (CounterBackend::StringsOrModule | CounterBackend::ModuleOrStrings, _) => {
            "being converted to objects of the module"
        }
        (CounterBackend::Module, StoragePhase::Table) => "rows of tables",
        (CounterBackend::Module, StoragePhase::Object) => "objects",
        (CounterBackend::Module, StoragePhase::Moving) => "being moved to rows of tables",
    }
}

fn counters(of: &str, names: &[Name], describe: impl Fn(&Name) -> String) -> Markup {
    let rows = html! {
        @for (index, name) in names.iter().enumerate() {
            tr {
                td .right { (index) }
                th scope="row" { (name) }
                td { (describe(name)) }
            }
        }
    };
    table(
        &format!("Counters of {of}"),
        &[
            Column::Number("Field"),
            Column::Text("Counter"),
            Column::Text("Counts"),
        ],
        &rows,
    )
}

/// What a counter of entities counts.
fn described(metric: &Metric) -> String {
    let mut parts = vec![match (metric.nature, metric.fact_kind()) {
        (Nature::Once, Some(kind)) => format!("once for each user, facts in {}", kind.name()),
        (Nature::Once, None) => "once for each user".to_owned(),
        (Nature::Repeatable, _) => match metric.window_seconds {
            Some(seconds) => format!("once for each user in {seconds} s"),
            None => "each time".to_owned(),
        },
    }];
    parts.push(match metric.count {
        Count::Now => "with the action".to_owned(),
        Count::Batched => "when the event is consumed".to_owned(),
        Count::Never => "never".to_owned(),
    });
    for (is_set, text) in [
        (metric.daily, "by day"),
        (metric.reverse, "kept for users"),
        (metric.order == Order::Time, "latest users first"),
    ] {
        if is_set {
            parts.push(text.to_owned());
        }
    }
    parts.join("; ")
}

/// Which metrics feed a counter of users.
fn fed_by(config: &Config, counter: &Name) -> String {
    let metrics = config.metrics.iter().flat_map(|(name, metric)| {
        let feeds = metric.users.iter().filter(|feed| feed.counter == *counter);
        feeds.map(move |feed| match feed.of {
            Role::Actor => format!("{name} of the user"),
            Role::Author => format!("{name} of the user's entities"),
            Role::Target => format!("{name} on the user"),
        })
    });
    let metrics: Vec<String> = metrics.collect();
    match metrics.is_empty() {
        false => metrics.join("; "),
        true if BUILT_IN_COUNTERS.contains(&counter.as_str()) => "no metric".to_owned(),
        true => "configured; no metric".to_owned(),
    }
}
