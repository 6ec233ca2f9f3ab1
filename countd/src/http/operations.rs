//! Health checks, metrics and the OpenAPI document.

use super::app::App;
use super::errors::NotReadyResponses;
use crate::domain::error::{Problem, SchemaError};
use crate::domain::ids::Name;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeSet;

/// Check liveness
///
/// Succeeds as long as the process runs. Does not contact Redis.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "Operations",
    responses((status = 200, description = "The process is alive", body = String))
)]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Check readiness
///
/// Succeeds if Redis replies (in a cluster, any node), the schema of every entity type is known and, in a process that consumes
/// the log, none of its partitions has failed. Fails with `stopping` from SIGTERM on. A stalled event archive and a topic that is not reachable are named in the response: counting goes on without them.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "Operations",
    responses((status = 200, description = "The process is ready", body = String), NotReadyResponses)
)]
pub async fn readyz(State(app): State<App>) -> Result<String, Problem> {
    if app.health.is_stopping() {
        return Err(Problem::Stopping);
    }
    app.store.ping().await?;
    let ids: BTreeSet<&Name> = app
        .config
        .entities
        .values()
        .map(|entity| &entity.schema)
        .collect();
    for id in ids {
        match app.catalog.schemas.refresh(id).await {
            // The node that stores the schema is unavailable, but the schema is cached.
            Err(SchemaError::Store(_)) if app.catalog.schemas.cached(id).is_some() => {}
            schema => drop(schema?),
        }
    }
    if let Some(problem) = app.health.consumer_problem() {
        return Err(Problem::NoAssignment(problem));
    }
    match app.health.failed() {
        failed if failed.is_empty() => {
            let mut text = "ready\n".to_owned();
            if let Some(problem) = app.health.archive_problem() {
                text.push_str(&format!("the archive is stalled: {problem}\n"));
            }
            if let Some(problem) = app.health.topic_problem() {
                text.push_str(&format!("the topic is not reachable: {problem}\n"));
            }
            Ok(text)
        }
        failed => Err(Problem::Failed(failed)),
    }
}

/// Retrieve metrics
///
/// Returns the metrics of this process, and the state of Redis and of the logs, in the Prometheus text format.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "Operations",
    responses((status = 200, description = "The metrics", body = String))
)]
pub async fn metrics(State(app): State<App>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    app.health.sweeps().report();
    (content_type, app.metrics.render()).into_response()
}

/// Retrieve the OpenAPI document
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "Operations",
    responses((status = 200, description = "This document", body = Object))
)]
pub async fn openapi(State(app): State<App>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (content_type, app.document.to_string()).into_response()
}
