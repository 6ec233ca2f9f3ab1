//! Extractors. A rejection is a [`Problem`], like all other errors.

use super::app::App;
use super::budget::{BodyError, RequestBody};
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::brief;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The supported media types of request bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`, or a type with the suffix `+json`.
    Json,
    /// `application/x-ndjson`.
    Ndjson,
}

/// The media type of a request body; `None` if it is missing or not supported.
pub fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let text = text.split(';').next()?.trim().to_ascii_lowercase();
    let subtype = text.strip_prefix("application/")?;
    match subtype {
        "json" => Some(MediaType::Json),
        "x-ndjson" => Some(MediaType::Ndjson),
        _ => subtype.ends_with("+json").then_some(MediaType::Json),
    }
}

/// A body whose media type is supported: JSON or NDJSON.
impl FromRequest<App> for RequestBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<RequestBody, Problem> {
        if media_type(request.headers()).is_none() {
            return Err(Problem::UnsupportedMediaType(
                "application/json or application/x-ndjson",
            ));
        }
        let read = app.budget.read(request.into_body()).await;
        read.map_err(|error| match error {
            BodyError::TooLong => Problem::TooLarge,
            BodyError::Busy => Problem::Busy,
            BodyError::Broken(error) => Problem::Malformed(format!("body: {error}")),
        })
    }
}

/// A JSON request body.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<JsonBody<T>, Problem> {
        let body = JsonBytes::from_request(request, app).await?;
        parse_json(&body.0).map(JsonBody)
    }
}

/// The unparsed body of a JSON request.
pub struct JsonBytes(pub RequestBody);

impl FromRequest<App> for JsonBytes {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<JsonBytes, Problem> {
        match media_type(request.headers()) {
            Some(MediaType::Json) => RequestBody::from_request(request, app).await.map(JsonBytes),
            _ => Err(Problem::UnsupportedMediaType("application/json")),
        }
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
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<QueryParams<T>, Problem> {
        let params = Query::<T>::from_request_parts(parts, state).await;
        params
            .map(|Query(params)| QueryParams(params))
            .map_err(|error| Problem::Malformed(error.body_text()))
    }
}

/// The path parameters.
pub struct PathParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathParams<T>, Problem> {
        let params = Path::<T>::from_request_parts(parts, state).await;
        params
            .map(|Path(params)| PathParams(params))
            .map_err(|error| Problem::Malformed(error.body_text()))
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
    name_list("metrics", text)
}

/// Parses a comma-separated list of at least one name, which is in this field.
pub fn name_list(field: &str, text: &str) -> Result<Vec<String>, Problem> {
    let name = |item| match Name::new(item) {
        Ok(name) => Ok(name.to_string()),
        Err(error) => Err(Problem::Invalid(field.to_owned(), error)),
    };
    text.split(',').map(name).collect()
}

/// Names as strings.
pub fn to_strings(names: &[Name]) -> Vec<String> {
    names.iter().map(Name::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_and_ndjson_are_supported() {
        for (text, expected) in [
            ("application/json", Some(MediaType::Json)),
            ("Application/JSON; charset=utf-8", Some(MediaType::Json)),
            ("application/cloudevents+json", Some(MediaType::Json)),
            ("application/x-ndjson", Some(MediaType::Ndjson)),
            ("application/x-www-form-urlencoded", None),
            ("text/plain", None),
            ("text/json", None),
            ("application/jsonx", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().expect("a value"));
            assert_eq!(media_type(&headers), expected, "{text}");
        }
        assert_eq!(media_type(&HeaderMap::new()), None);
    }
}
