//! Extractors. A rejection is an error response with an [`ErrorBody`], like all others.

use super::app::App;
use super::budget::{BodyError, RequestBody};
use super::errors::ErrorBody;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::brief;
use axum::Json;
use axum::body::HttpBody;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;

impl FromRequest<App> for RequestBody {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<RequestBody, Response> {
        let read = app.budget.read(request.into_body()).await;
        read.map_err(|error| match error {
            BodyError::TooLong => too_large(),
            BodyError::Busy => Problem::Busy.into_response(),
            BodyError::Broken(error) => {
                Problem::Malformed(format!("body: {error}")).into_response()
            }
        })
    }
}

/// The response to a body that is too long. It closes the connection, because the body is not read.
fn too_large() -> Response {
    let body = ErrorBody::new("too_large", "the body is longer than http.max_body_bytes");
    let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
    (StatusCode::PAYLOAD_TOO_LARGE, close, Json(body)).into_response()
}

/// Middleware that rejects requests whose `Content-Length` exceeds the maximum.
pub async fn reject_long_body(State(app): State<App>, request: Request, next: Next) -> Response {
    let max = app.config.http.max_body_bytes as u64;
    if request.body().size_hint().lower() > max {
        return too_large();
    }
    next.run(request).await
}

/// A JSON request body.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<JsonBody<T>, Response> {
        let body = RequestBody::from_request(request, app).await?;
        parse_json(&body)
            .map(JsonBody)
            .map_err(IntoResponse::into_response)
    }
}

/// Parses JSON.
///
/// # Errors
/// [`Problem::Malformed`].
pub fn parse_json<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(json)
        .map_err(|error| Problem::Malformed(format!("body: {}", brief(&error))))
}

/// The query parameters.
pub struct QueryParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<QueryParams<T>, Response> {
        let params = Query::<T>::from_request_parts(parts, state).await;
        params
            .map(|Query(params)| QueryParams(params))
            .map_err(|error| Problem::Malformed(error.body_text()).into_response())
    }
}

/// The path parameters.
pub struct PathParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathParams<T>, Response> {
        let params = Path::<T>::from_request_parts(parts, state).await;
        params
            .map(|Path(params)| PathParams(params))
            .map_err(|error| Problem::Malformed(error.body_text()).into_response())
    }
}

/// Validates the entity in path parameters.
pub fn entity(etype: String, eid: String) -> Result<Entity, Problem> {
    let etype = Name::new(etype).map_err(|error| Problem::Invalid("etype".to_owned(), error))?;
    let eid = Id::new(eid).map_err(|error| Problem::Invalid("eid".to_owned(), error))?;
    Ok(Entity { etype, eid })
}

/// Parses a comma-separated list of at least one metric.
pub fn metric_list(text: &str) -> Result<Vec<String>, Problem> {
    let name = |item| match Name::new(item) {
        Ok(name) => Ok(name.to_string()),
        Err(error) => Err(Problem::Invalid("metrics".to_owned(), error)),
    };
    text.split(',').map(name).collect()
}

/// Names as strings.
pub fn to_strings(names: &[Name]) -> Vec<String> {
    names.iter().map(Name::to_string).collect()
}
