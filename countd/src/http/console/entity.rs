//! The page of an entity.

use super::error::ConsoleError;
use super::facts::{fact_table, facts_of};
use super::layout::{Column, Section, entity_link, link, number, page, table};
use super::trail::trail;
use crate::domain::config::USER;
use crate::domain::day::with_dashes;
use crate::domain::error::Problem;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Name};
use crate::http::app::App;
use crate::http::extract::{self, QueryParams};
use crate::http::sessions::Session;
use crate::http::telemetry::RequestTraceId;
use crate::query::audit::{self, AuditFilter};
use crate::query::counts::Counts;
use crate::query::history::{DayRange, History, Unit};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

/// The number of days that are shown.
const DAYS: u64 = 30;
/// The number of corrections that are shown.
pub const CORRECTIONS: usize = 20;

/// The entity; without one, the page asks for it.
#[derive(Deserialize)]
pub struct EntityParams {
    etype: Option<String>,
    eid: Option<String>,
}

/// The page.
///
/// # Errors
/// The entity type is unknown, an ID is invalid, or Redis failed.
pub async fn entity(
    State(app): State<App>,
    session: Session,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    QueryParams(params): QueryParams<EntityParams>,
) -> Result<Response, ConsoleError> {
    let (Some(etype), Some(eid)) = (params.etype, params.eid) else {
        let content = html! { (search(&app, "", "")) };
        return Ok(page(Section::Entity, &session, &content).into_response());
    };
    let entity = extract::entity(etype, eid)?;
    if entity.etype.as_str() == USER {
        return Ok(Redirect::to(&entity_link(USER, entity.eid.as_str())).into_response());
    }
    app.catalog.schema_id(&entity.etype)?;
    let entities = std::slice::from_ref(&entity);
    let mut counts = app.queries.counters(entities, &[], &trace_id).await?;
    let author = app.authors.get(entities).await?.pop().flatten();
    let facts = facts_of(&app, &entity).await?;
    let histories = histories(&app, &entity).await?;
    let corrections = corrections_of(&app, &entity).await?;
    let (etype, eid) = (entity.etype.as_str(), entity.eid.as_str());
    let content = html! {
        (search(&app, etype, eid))
        h2 { (etype) " " (eid) }
        p {
            "Author: "
            @match &author {
                Some(author) => a href=(entity_link(USER, author.as_str())) { (author) },
                None => span .muted { "none registered" },
            }
            ". Partition: " (app.store.keys().of_entity(&entity)) "."
            @if let Some(state) = app.store.layout().split_of(&entity) {
                " Split into " (state.shards) " shards (" (state.phase.name()) ")."
            }
        }
        h2 { "Counters" }
        (counters(counts.pop().unwrap_or_else(|| Ok(Counts::default()))))
        h2 { "Facts" }
        (fact_table(&facts))
        @if !histories.is_empty() {
            h2 { "Last " (DAYS) " days" }
            (days(&histories))
        }
        h2 { "Corrections" }
        (trail(&corrections))
        p { a href=(link("/admin/audit", &[("etype", etype), ("eid", eid)])) { "In the audit" } }
    };
    Ok(page(Section::Entity, &session, &content).into_response())
}

/// The last corrections of the counters of an entity or a user.
///
/// # Errors
/// Redis failed.
pub async fn corrections_of(app: &App, entity: &Entity) -> Result<Vec<audit::AuditEntry>, Problem> {
    let filter = AuditFilter {
        etype: Some(entity.etype.clone()),
        eid: Some(entity.eid.clone()),
        ..AuditFilter::default()
    };
    let mut found = audit::page(&app.store, &filter, None, CORRECTIONS).await?;
    found.entries.truncate(CORRECTIONS);
    Ok(found.entries)
}

/// The form that asks for an entity.
fn search(app: &App, etype: &str, eid: &str) -> Markup {
    html! {
        form method="get" action="/admin/entity" .fields {
            div {
                label for="etype" { "Entity type" }
                select id="etype" name="etype" {
                    @for name in app.config.entities.keys() {
                        option value=(name) selected[name.as_str() == etype] { (name) }
                    }
                }
            }
            div {
                label for="eid" { "ID" }
                input type="text" id="eid" name="eid" value=(eid) required maxlength="64" autocomplete="off";
            }
            button .primary type="submit" { "Show" }
        }
    }
}

/// Counters as a list of figures, or why they cannot be read.
pub fn counters(counts: Result<Counts, Problem>) -> Markup {
    match counts {
        Err(problem) => html! { p .notice .problem { (problem) } },
        Ok(counts) => html! {
            dl .figures {
                @for (name, value) in counts.iter() {
                    div { dt { (name) } dd { span .number { (number(value)) } } }
                }
            }
        },
    }
}

/// The counts by day of each metric that has them.
async fn histories(app: &App, entity: &Entity) -> Result<Vec<(Name, History)>, Problem> {
    let today = app.config.days.calendar().day_of(now_ms());
    let range = DayRange {
        from: (today + 1).saturating_sub(DAYS),
        to: today,
    };
    let mut histories = Vec::new();
    for (name, metric) in app.config.metrics.daily() {
        if metric.applies_to(&entity.etype) {
            let history = app.queries.history(name.as_str(), entity, range, Unit::Day);
            histories.push((name.clone(), history.await?));
        }
    }
    Ok(histories)
}

/// A row for each day with counts, the latest first.
fn days(histories: &[(Name, History)]) -> Markup {
    let length = histories
        .iter()
        .map(|(_, history)| history.items.len())
        .max()
        .unwrap_or(0);
    let count = |history: &History, at: usize| history.items.get(at).map_or(0, |(_, count)| *count);
    let counted = |at: &usize| {
        histories
            .iter()
            .any(|(_, history)| count(history, *at) != 0)
    };
    let names = histories.iter();
    let columns: Vec<Column> = std::iter::once(Column::Text("Day"))
        .chain(names.map(|(name, _)| Column::Number(name.as_str())))
        .collect();
    let rows = html! {
        @for at in (0..length).rev().filter(counted) {
            tr {
                th scope="row" { (histories.iter().find_map(|(_, history)| history.items.get(at)).map_or(String::new(), |(date, _)| with_dashes(*date))) }
                @for (_, history) in histories { td .right { (count(history, at)) } }
            }
        }
        tr {
            th scope="row" { "before, and of no day" }
            @for (_, history) in histories { td .right { (history.before) } }
        }
    };
    table("Counts by day", &columns, &rows)
}
