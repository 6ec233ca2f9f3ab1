//! Handlers that start jobs and read their progress.

use super::app::App;
use super::auth::Caller;
use super::entities::NoParams;
use super::errors::ErrorResponses;
use super::extract::{self, PathParams, QueryParams};
use crate::domain::config::USER;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::shorten;
use crate::maintenance::jobs::{JobStatus, Target};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Erase an entity
///
/// Starts a job that removes the facts, counters, author, idempotency keys and log entries of the entity, and takes back what they added to the
/// counters of users. A repeated request returns the job that has not ended. Actions that arrive after the counters are deleted are new.
#[utoipa::path(
    delete,
    path = "/entity/{etype}/{eid}",
    tag = "Erasure",
    params(
        ("etype" = Name, Path, description = "The entity type", example = "note"),
        ("eid" = Id, Path, description = "The ID of the entity", example = "114327608932745216")
    ),
    responses((status = 202, description = "The job has been started, now or before", body = JobStatus, headers(("Location" = String, description = "The path of the job")), example = json!({ "id": "8f14e45fceea167a5a36dedd4bea2543", "kind": "eraseEntity", "state": "queued", "step": "", "pass": 0, "facts": 0, "authors": 0, "keys": 0, "entries": 0, "damaged": 0, "created": 1_764_000_000_000_u64 })), ErrorResponses)
)]
pub async fn delete_entity(
    State(app): State<App>,
    caller: Caller,
    PathParams((etype, eid)): PathParams<(String, String)>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Response, Problem> {
    caller.check_service()?;
    let entity: Entity = extract::entity(etype, eid)?;
    if entity.etype.as_str() == USER {
        let problem = "a user is erased with DELETE /user/{uid}";
        return Err(Problem::Unprocessable(problem.to_owned()));
    }
    app.catalog.schema_id(&entity.etype)?;
    start(&app, &Target::Entity(entity)).await
}

/// Erase a user
///
/// Starts a job that removes everything that the user did and everything that was done to the user, with the user's counters, authorship,
/// idempotency keys, limits and log entries. The contributions of the user to other counters are subtracted. Afterwards no key holds the ID of the user. The
/// user must not act any more: stop their tokens first. A repeated request returns the job that has not ended.
#[utoipa::path(
    delete,
    path = "/user/{uid}",
    tag = "Erasure",
    params(("uid" = Id, Path, description = "The ID of the user", example = "113984275610238976")),
    responses((status = 202, description = "The job has been started, now or before", body = JobStatus, headers(("Location" = String, description = "The path of the job")), example = json!({ "id": "45c48cce2e2d7fbdea1afc51c7c6ad26", "kind": "eraseUser", "state": "queued", "step": "", "pass": 0, "facts": 0, "authors": 0, "keys": 0, "entries": 0, "damaged": 0, "created": 1_764_000_000_000_u64 })), ErrorResponses)
)]
pub async fn delete_user(
    State(app): State<App>,
    caller: Caller,
    PathParams(uid): PathParams<String>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Response, Problem> {
    caller.check_service()?;
    let uid = Id::new(uid).map_err(|error| Problem::Invalid("uid".to_owned(), error))?;
    start(&app, &Target::User(uid)).await
}

async fn start(app: &App, target: &Target) -> Result<Response, Problem> {
    let status = app.jobs.start(target).await?;
    let location = HeaderValue::from_str(&format!("/api/v1/jobs/{}", status.id));
    let mut response = (StatusCode::ACCEPTED, Json(status)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Read the progress of a job
///
/// A job can be read for 7 days after it has ended.
#[utoipa::path(
    get,
    path = "/jobs/{id}",
    tag = "Erasure",
    params(("id" = Id, Path, description = "The ID of the job", example = "8f14e45fceea167a5a36dedd4bea2543")),
    responses((status = 200, description = "The job", body = JobStatus, example = json!({ "id": "8f14e45fceea167a5a36dedd4bea2543", "kind": "eraseEntity", "state": "done", "step": "", "pass": 1, "facts": 1, "authors": 0, "keys": 0, "entries": 4, "damaged": 0, "created": 1_764_000_000_000_u64, "ended": 1_764_000_001_000_u64 })), ErrorResponses)
)]
pub async fn job(
    State(app): State<App>,
    caller: Caller,
    PathParams(text): PathParams<String>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Json<JobStatus>, Problem> {
    caller.check_service()?;
    let id = Id::new(text.as_str()).map_err(|error| Problem::Invalid("id".to_owned(), error))?;
    let status = app.jobs.get(&id).await?;
    let status = status.ok_or_else(|| Problem::UnknownJob(shorten(&text)))?;
    Ok(Json(status))
}
