//! What handlers take from requests. Whatever is wrong becomes a [`ErrorBody`] like all others.

use super::App;
use super::budget::{Raw, Unread};
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

impl FromRequest<App> for Raw {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Raw, Response> {
        let read = app.budget.read(request.into_body()).await;
        read.map_err(|why| match why {
            Unread::TooLong => too_large(),
            Unread::Busy => Problem::Busy.into_response(),
            Unread::Broken(why) => Problem::Malformed(format!("body: {why}")).into_response(),
        })
    }
}

/// The connection ends with it: nobody reads the rest.
fn too_large() -> Response {
    let failure = ErrorBody::new("too_large", "the body is longer than http.max_body_bytes");
    let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
    (StatusCode::PAYLOAD_TOO_LARGE, close, Json(failure)).into_response()
}

/// Lets requests pass that do not say that their bodies are too long.
pub async fn check_length(State(app): State<App>, request: Request, next: Next) -> Response {
    let max = app.config.http.max_body_bytes as u64;
    if request.body().size_hint().lower() > max {
        return too_large();
    }
    next.run(request).await
}

/// The body as JSON.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Body<T>, Response> {
        let bytes = Raw::from_request(request, app).await?;
        json(&bytes).map(Body).map_err(IntoResponse::into_response)
    }
}

/// JSON as a value.
pub fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|why| Problem::Malformed(format!("body: {}", brief(&why))))
}

/// The parameters behind the question mark.
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>, Response> {
        let found = Query::<T>::from_request_parts(parts, state).await;
        let found = found.map_err(|why| Problem::Malformed(why.body_text()).into_response());
        found.map(|Query(params)| Params(params))
    }
}

/// The parts of the path.
pub struct PathOf<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathOf<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathOf<T>, Response> {
        let found = Path::<T>::from_request_parts(parts, state).await;
        let found = found.map_err(|why| Problem::Malformed(why.body_text()).into_response());
        found.map(|Path(path)| PathOf(path))
    }
}

/// An entity of the path.
pub fn entity(etype: String, eid: String) -> Result<Entity, Problem> {
    let etype = Name::new(etype).map_err(|why| Problem::Invalid("etype".to_owned(), why))?;
    let eid = Id::new(eid).map_err(|why| Problem::Invalid("eid".to_owned(), why))?;
    Ok(Entity { etype, eid })
}

/// The words of a list with commas: names, at least one.
pub fn list(text: &str) -> Result<Vec<String>, Problem> {
    let name = |word| match Name::new(word) {
        Ok(name) => Ok(name.to_string()),
        Err(why) => Err(Problem::Invalid("metrics".to_owned(), why)),
    };
    text.split(',').map(name).collect()
}
