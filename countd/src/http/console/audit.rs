//! The audit, with filters.

use super::error::ConsoleError;
use super::layout::{Section, link, page};
use super::trail::trail;
use crate::domain::error::Problem;
use crate::domain::ids::{Id, Name};
use crate::http::app::App;
use crate::http::extract::QueryParams;
use crate::http::pages::Page;
use crate::http::sessions::Session;
use crate::query::audit::{self, AuditCursor, AuditFilter};
use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;

/// The number of entries of a page.
const PAGE: usize = 50;

/// The filters and the position. An empty field of the form filters nothing.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct AuditParams {
    etype: String,
    eid: String,
    metric: String,
    source: String,
    before: String,
}

impl AuditParams {
    fn filter(&self) -> Result<AuditFilter, Problem> {
        let name = |field: &str, text: &str| {
            let name = (!text.is_empty()).then(|| Name::new(text)).transpose();
            name.map_err(|error| Problem::Invalid(field.to_owned(), error))
        };
        let eid = (!self.eid.is_empty()).then(|| Id::new(self.eid.as_str()));
        let eid = eid.transpose();
        Ok(AuditFilter {
            etype: name("etype", &self.etype)?,
            eid: eid.map_err(|error| Problem::Invalid("eid".to_owned(), error))?,
            metric: name("metric", &self.metric)?,
            source: name("source", &self.source)?,
        })
    }
}

/// The page.
///
/// # Errors
/// A filter is invalid, or Redis failed.
pub async fn audit(
    State(app): State<App>,
    session: Session,
    QueryParams(params): QueryParams<AuditParams>,
) -> Result<Page, ConsoleError> {
    let filter = params.filter()?;
    let cursor = match params.before.as_str() {
        "" => None,
        text => Some(AuditCursor::parse(text).ok_or_else(|| {
            Problem::Malformed("before: not the ID of an entry of the audit".to_owned())
        })?),
    };
    let found = audit::page(&app.store, &filter, cursor, PAGE).await?;
    let content = html! {
        p .muted { "Each correction of a counter, the newest first." }
        (filters(&params))
        (trail(&found.entries))
        @if let Some(next) = found.next {
            @let next = next.to_string();
            @let path = link("/admin/audit", &[
                ("etype", &params.etype), ("eid", &params.eid), ("metric", &params.metric), ("source", &params.source), ("before", &next),
            ]);
            p { a href=(path) { "Older entries" } }
        }
    };
    Ok(page(Section::Audit, &session, &content))
}

fn filters(params: &AuditParams) -> Markup {
    let fields = [
        ("etype", "Entity type, or user", &params.etype),
        ("eid", "ID", &params.eid),
        ("metric", "Counter", &params.metric),
        ("source", "Source", &params.source),
    ];
    html! {
        form method="get" action="/admin/audit" .fields {
            @for (name, label, value) in fields {
                div {
                    label for=(name) { (label) }
                    input type="text" id=(name) name=(name) value=(value) maxlength="64" autocomplete="off";
                }
            }
            button .primary type="submit" { "Filter" }
        }
    }
}
