//! Error responses: problem details of RFC 9457, `application/problem+json`.
//!
//! A handler or a middleware returns a [`Problem`]. Its response has the status and the headers, and carries its details as an
//! extension. The outermost middleware writes them as the body, because it knows the trace ID.

use crate::domain::error::{ErrorCode, Problem};
use crate::domain::health::FailedPartition;
use crate::domain::ids::{Entity, Id, Name};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::borrow::Cow;
use utoipa::{IntoResponses, ToSchema};

/// The maximum number of failed partitions in a response.
const MAX_FAILED: usize = 100;

/// The media type of error bodies.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The body of an error response, as defined by RFC 9457.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemDetails {
    /// Identifies the kind of error: `urn:countd:problem:` and the code.
    #[serde(rename = "type")]
    #[schema(example = "urn:countd:problem:unknown_metric")]
    pub type_uri: String,
    /// A short description of the kind of error.
    #[schema(value_type = String, example = "Unknown metric")]
    pub title: Cow<'static, str>,
    /// The HTTP status.
    #[schema(example = 404, minimum = 400, maximum = 599)]
    pub status: u16,
    /// A description of this error for people. It may change; do not parse it.
    #[schema(example = "there is no metric clap")]
    pub detail: String,
    /// The error code, for programs. Each code has one status.
    pub code: ErrorCode,
    /// The trace ID of the request, as in the `x-trace-id` header.
    #[schema(example = "6f1c3f0e5a8d4c0f9b7a2d1e0c3b5a49")]
    pub trace_id: String,
    /// The invalid fields of the request or, with `POST /events`, the rejected envelopes, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<ItemError>,
    /// With status 429 and 503: the number of seconds to wait before a retry, as in the `Retry-After` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// With `not_counting`: the failed partitions, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub partitions: Vec<FailedPartition>,
}

/// The error of one field or one item of a request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ItemError {
    /// The 0-based position of the item in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<usize>,
    /// The name of the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The `event_id` of an envelope, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The error code.
    pub code: ErrorCode,
    /// The HTTP status of the code.
    #[schema(example = 404, minimum = 400, maximum = 599)]
    pub status: u16,
    /// A description of the error for people.
    #[schema(example = "there is no metric clap")]
    pub detail: String,
    /// With `limited`: the number of seconds to wait before a retry.
    #[serde(rename = "retryAfter", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// A failed item in a response whose other items succeeded.
#[derive(Serialize, ToSchema)]
pub struct FailedItem {
    /// Why the item failed.
    pub error: ItemError,
}

/// A failed entity in a batch.
#[derive(Serialize, ToSchema)]
pub struct FailedEntity {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// Why the entity failed.
    error: ItemError,
}

impl FailedEntity {
    /// An entity and its problem.
    pub fn new(Entity { etype, eid }: Entity, problem: &Problem) -> FailedEntity {
        let error = ItemError::of(problem);
        FailedEntity { etype, eid, error }
    }
}

impl ItemError {
    /// The error of an item or a field.
    pub fn of(problem: &Problem) -> ItemError {
        ItemError {
            item: None,
            field: problem.field().map(str::to_owned),
            event_id: None,
            code: problem.code(),
            status: problem.code().status(),
            detail: problem.to_string(),
            retry_after: match problem {
                Problem::Limited { retry_after, .. } => Some(*retry_after),
                _ => None,
            },
        }
    }
}

impl ProblemDetails {
    /// The details of a code with this description.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> ProblemDetails {
        let is_unavailable = code.status() == StatusCode::SERVICE_UNAVAILABLE.as_u16();
        ProblemDetails {
            type_uri: format!("urn:countd:problem:{}", code.name()),
            title: code.title().into(),
            status: code.status(),
            detail: detail.into(),
            code,
            trace_id: String::new(),
            errors: Vec::new(),
            retry_after: is_unavailable.then_some(1),
            partitions: Vec::new(),
        }
    }

    /// The details of a problem.
    pub fn of(problem: &Problem) -> ProblemDetails {
        let mut details = ProblemDetails::new(problem.code(), problem.to_string());
        if problem.field().is_some() {
            details.errors.push(ItemError::of(problem));
        }
        match problem {
            Problem::Limited { retry_after, .. } => details.retry_after = Some(*retry_after),
            Problem::Failed(failed) => {
                details.partitions = failed.iter().take(MAX_FAILED).cloned().collect();
            }
            _ => {}
        }
        details
    }

    /// The same details with the trace ID of the request.
    pub fn traced(mut self, trace_id: &str) -> ProblemDetails {
        trace_id.clone_into(&mut self.trace_id);
        self
    }

    /// The body.
    pub fn to_json(&self) -> String {
        // Strings and numbers can always be serialized.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl IntoResponse for ProblemDetails {
    /// A response without a body. [`write_body`] writes it.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or_default();
        if let Some(seconds) = self.retry_after {
            let seconds = HeaderValue::from(seconds);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let details = ProblemDetails::of(&self);
        if details.status >= 500 {
            tracing::warn!(error = %self, "request failed");
        }
        let mut response = details.into_response();
        let headers = response.headers_mut();
        match self {
            // The body is not read.
            Problem::TooLarge => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Problem::Unauthorized => {
                let challenge = HeaderValue::from_static("Bearer");
                headers.insert(header::WWW_AUTHENTICATE, challenge);
            }
            _ => {}
        }
        response
    }
}

/// Writes the body of a response that carries the details of a problem.
pub fn write_body(mut response: Response, trace_id: &str) -> Response {
    let Some(details) = response.extensions_mut().remove::<ProblemDetails>() else {
        return response;
    };
    let (mut parts, _) = response.into_parts();
    let json = details.traced(trace_id).to_json();
    let content_type = HeaderValue::from_static(PROBLEM_JSON);
    parts.headers.insert(header::CONTENT_TYPE, content_type);
    parts
        .headers
        .insert(header::CONTENT_LENGTH, json.len().into());
    Response::from_parts(parts, Body::from(json))
}

/// Whether a response says that the request timed out.
pub fn is_timeout(response: &Response) -> bool {
    let details = response.extensions().get::<ProblemDetails>();
    details.is_some_and(|details| details.code == ErrorCode::Timeout)
}

/// Handles unknown paths.
pub async fn no_route() -> Problem {
    Problem::NoRoute
}

/// Handles methods that a path does not support.
pub async fn no_method() -> Problem {
    Problem::NoMethod
}

/// The error responses of handlers. The OpenAPI document adds the responses of the middleware.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only: responses are created from problems")]
pub enum ErrorResponses {
    /// The request is malformed.
    #[response(status = 400, content_type = "application/problem+json")]
    Malformed(ProblemDetails),
    /// The metric or the entity type does not exist.
    #[response(status = 404, content_type = "application/problem+json")]
    Unknown(ProblemDetails),
    /// The request is well-formed, but not possible for this metric, entity or user.
    #[response(status = 422, content_type = "application/problem+json")]
    Unprocessable(ProblemDetails),
    /// Stored data is damaged, or Redis rejected a command.
    #[response(status = 500, content_type = "application/problem+json")]
    Internal(ProblemDetails),
}

/// The error responses of the readiness check.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum NotReadyResponses {
    /// Stored data is damaged, or Redis rejected a command.
    #[response(status = 500, content_type = "application/problem+json")]
    Internal(ProblemDetails),
}

/// The error responses of all routes.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum CommonErrorResponses {
    /// The path does not support the method. The `Allow` header lists the supported ones.
    #[response(status = 405, content_type = "application/problem+json", headers(("Allow" = String, description = "The supported methods")))]
    Method(ProblemDetails),
    /// The body is too long, or has too many items.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(ProblemDetails),
    /// The request took too long (`timeout`), Redis is unavailable, a write is not as safe as `redis.ack` requires
    /// (`not_acknowledged`), a schema is missing, partitions have failed, or too many request
    /// bodies are in progress (`busy`). Retry after `Retry-After` seconds.
    #[response(status = 503, content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds")))]
    Unavailable(ProblemDetails),
}

/// The error responses of routes with a body.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum BodyErrorResponses {
    /// The content type of the body is missing or not supported.
    #[response(status = 415, content_type = "application/problem+json")]
    MediaType(ProblemDetails),
}

/// The error responses of routes that require a token, if tokens are configured.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum AuthErrorResponses {
    /// The token is missing or invalid.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(ProblemDetails),
    /// The token does not have the required right.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(ProblemDetails),
}

/// The error responses of rate-limited routes.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum RateLimitErrorResponses {
    /// The rate limit of the address, device or user is exceeded. Retry after `Retry-After` seconds.
    #[response(status = 429, content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds"), ("RateLimit-Policy" = String, description = "The limits that the request has met: burst and seconds until it is back"), ("RateLimit" = String, description = "The limit with the least remaining: items, and seconds until the full burst is back")))]
    Limited(ProblemDetails),
}
