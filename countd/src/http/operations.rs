//! What operators ask.

use super::App;
use super::errors::NotReadyResponse;
use crate::domain::error::Problem;
use crate::domain::error::SchemaError;
use crate::domain::ids::Name;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeSet;

/// Whether this process lives. It asks nobody.
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "It does", body = String)))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether requests can be served: the store answers (of a cluster, any of its nodes), the schema of every type of entity is known,
/// and, where this process counts, no partition of its share has failed.
#[utoipa::path(get, path = "/readyz", responses((status = 200, description = "They can", body = String), NotReadyResponse))]
pub async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    app.store.ping().await?;
    let ids: BTreeSet<&Name> = app.config.entities.values().collect();
    for id in ids {
        match app.catalog.schemas.refresh(id).await {
            // The node that has it is gone.
            Err(SchemaError::Store(_)) if app.catalog.schemas.cached(id).is_some() => {}
            schema => drop(schema?),
        }
    }
    if let Some(why) = app.health.consumer_problem() {
        return Err(Problem::NoShare(why));
    }
    match app.health.failed() {
        failed if failed.is_empty() => Ok("ready\n"),
        failed => Err(Problem::Failed(failed)),
    }
}

/// What Prometheus scrapes.
#[utoipa::path(get, path = "/metrics", responses((status = 200, description = "The text format of Prometheus", body = String)))]
pub async fn metrics(State(app): State<App>) -> Response {
    let text = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (text, known(&app.metrics.render())).into_response()
}

/// Without the series whose value is unknown: in Prometheus they are absent, since one that is not a number makes sums unknown.
fn known(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| !line.trim_end().ends_with(" NaN"))
        .collect()
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "It", body = Object)))]
pub async fn openapi(State(app): State<App>) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, app.document.to_string()).into_response()
}
