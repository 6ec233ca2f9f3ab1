//! What handlers take from requests. Whatever is wrong becomes a [`Failure`] like all others.

use super::errors::Failure;
use crate::ids::{Entity, Id, Name};
use crate::service::Problem;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

/// The body as it came.
pub struct Raw(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Raw, Response> {
        Bytes::from_request(request, state)
            .await
            .map(Raw)
            .map_err(|rejection| {
                if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                    let failure =
                        Failure::new("too_large", "the body is longer than http.max_body_bytes");
                    return (StatusCode::PAYLOAD_TOO_LARGE, Json(failure)).into_response();
                }
                Problem::Malformed(rejection.body_text()).into_response()
            })
    }
}

/// The body as JSON.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Response> {
        let Raw(bytes) = Raw::from_request(request, state).await?;
        json(&bytes).map(Body).map_err(IntoResponse::into_response)
    }
}

/// JSON as a value.
pub fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|why| Problem::Malformed(format!("body: {why}")))
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

/// The words of a list with commas.
pub fn list(text: Option<&str>) -> Vec<String> {
    let words = text
        .unwrap_or("")
        .split(',')
        .filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}
