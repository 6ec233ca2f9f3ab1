//! The page of a user.

use super::entity::{corrections_of, counters};
use super::error::ConsoleError;
use super::facts::{fact_table, facts_of};
use super::layout::{Column, Section, entity_link, link, optional_time, page, table};
use super::trail::trail;
use crate::domain::config::USER;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::http::app::App;
use crate::http::extract::{self, QueryParams};
use crate::http::pages::Page;
use crate::http::sessions::Session;
use crate::http::telemetry::RequestTraceId;
use crate::query::counts::Counts;
use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;

/// The number of entities of each metric and type that are listed.
const LATEST: usize = 10;

/// The user; without one, the page asks for it.
#[derive(Deserialize)]
pub struct UserParams {
    uid: Option<String>,
}

/// What a user did last: the metric, the entity type, and the entities with their times.
type Timeline = (Name, Name, Vec<(Id, Option<u64>)>);

/// The page.
///
/// # Errors
/// The ID is invalid, or Redis failed.
pub async fn user(
    State(app): State<App>,
    session: Session,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    QueryParams(params): QueryParams<UserParams>,
) -> Result<Page, ConsoleError> {
    let Some(uid) = params.uid else {
        return Ok(page(Section::User, &session, &search("")));
    };
    let user = extract::entity(USER.to_owned(), uid)?;
    let uids = std::slice::from_ref(&user.eid);
    let mut counts = app.queries.user_counters(uids, &[], &trace_id).await?;
    let facts = facts_of(&app, &user).await?;
    let timelines = timelines(&app, &user).await?;
    let corrections = corrections_of(&app, &user).await?;
    let uid = user.eid.as_str();
    let content = html! {
        (search(uid))
        h2 { "User " (uid) }
        p { "Partition: " (app.store.keys().of_user(&user.eid)) "." }
        h2 { "Counters" }
        (counters(counts.pop().unwrap_or_else(|| Ok(Counts::default()))))
        h2 { "What the user did" }
        (timeline_table(&timelines))
        h2 { "Facts on the user" }
        (fact_table(&facts))
        h2 { "Corrections" }
        (trail(&corrections))
        p { a href=(link("/admin/audit", &[("etype", USER), ("eid", uid)])) { "In the audit" } }
    };
    Ok(page(Section::User, &session, &content))
}

/// The form that asks for a user.
fn search(uid: &str) -> Markup {
    html! {
        form method="get" action="/admin/user" .fields {
            div {
                label for="uid" { "ID of the user" }
                input type="text" id="uid" name="uid" value=(uid) required maxlength="64" autocomplete="off";
            }
            button .primary type="submit" { "Show" }
        }
    }
}

/// What the user did last, as far as facts are kept for users.
async fn timelines(app: &App, user: &Entity) -> Result<Vec<Timeline>, Problem> {
    let user_type = user.etype.clone();
    let limit = LATEST.min(app.config.http.max_batch);
    let mut timelines = Vec::new();
    for (name, metric) in app.config.metrics.iter() {
        if metric.fact_kind().is_none() || !app.store.layout().has_reverse(name) {
            continue;
        }
        let etypes = app.config.entities.keys().chain([&user_type]);
        for etype in etypes.filter(|etype| metric.applies_to(etype)) {
            let of = (name.as_str(), etype);
            let found = app.queries.timeline(&user.eid, of, None, limit).await?;
            if !found.items.is_empty() {
                timelines.push((name.clone(), etype.clone(), found.items));
            }
        }
    }
    Ok(timelines)
}

fn timeline_table(timelines: &[Timeline]) -> Markup {
    if timelines.is_empty() {
        return html! { p .muted { "Nothing, as far as metrics keep facts for users (reverse = true)." } };
    }
    let rows = html! {
        @for (metric, etype, items) in timelines {
            @for (eid, ts) in items {
                tr {
                    td { (metric) }
                    td { a href=(entity_link(etype.as_str(), eid.as_str())) { (etype) " " (eid) } }
                    td { (optional_time(*ts)) }
                }
            }
        }
    };
    table(
        "Latest facts of the user",
        &[
            Column::Text("Metric"),
            Column::Text("Entity"),
            Column::Text("Time (UTC)"),
        ],
        &rows,
    )
}
