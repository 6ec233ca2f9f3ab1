//! Error responses.

use crate::domain::error::{Problem, StoreError};
use crate::domain::health::FailedPartition;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

/// The maximum number of failed partitions in a response.
const MAX_FAILED: usize = 100;

/// The body of an error response.
#[derive(Serialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: Detail,
}

/// An error.
#[derive(Serialize, ToSchema)]
pub struct Detail {
    /// The error code: `malformed`, `unknown_metric`, `unknown_type`, `unprocessable`, `too_many`, `too_large`, `limited`, `busy`,
    /// `timeout`, `schema`, `unavailable`, `not_counting`, `damaged`, `internal`, `no_route`, `no_method`, `unauthorized` or
    /// `forbidden`.
    pub code: &'static str,
    /// A description of the error for people. It may change; do not parse it.
    pub message: String,
    /// With `limited`: the number of seconds to wait before a retry, as in the `Retry-After` header.
    #[serde(rename = "retryAfter", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// With `POST /events`: the rejected envelopes, at most 100. No envelope of the request was appended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub items: Vec<RejectedItem>,
    /// With `not_counting`: the failed partitions, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub partitions: Vec<FailedPartition>,
}

/// A rejected item of a request.
#[derive(Serialize, ToSchema)]
pub struct RejectedItem {
    /// The 0-based position of the item in the request.
    pub item: usize,
    /// The `event_id` of the item, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The error code.
    pub code: &'static str,
    /// A description of the error for people.
    pub message: String,
}

impl ErrorBody {
    /// The body of a problem.
    pub fn of(problem: &Problem) -> ErrorBody {
        let mut body = ErrorBody::new(problem.code(), problem.to_string());
        if let Problem::Limited { retry_after, .. } = problem {
            body.error.retry_after = Some(*retry_after);
        }
        if let Problem::Failed(failed) = problem {
            body.error.partitions = failed.iter().take(MAX_FAILED).cloned().collect();
        }
        body
    }

    /// A body with a code and a message only.
    pub fn new(code: &'static str, message: impl Into<String>) -> ErrorBody {
        let message = message.into();
        ErrorBody {
            error: Detail {
                code,
                message,
                retry_after: None,
                items: Vec::new(),
                partitions: Vec::new(),
            },
        }
    }
}

/// The error responses of handlers. The OpenAPI document adds the responses of the middleware.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only: responses are created from problems")]
pub enum ErrorResponses {
    /// The request is malformed.
    #[response(status = 400)]
    Malformed(#[to_schema] ErrorBody),
    /// The metric is not configured.
    #[response(status = 404)]
    Unknown(#[to_schema] ErrorBody),
    /// The request is well-formed, but not possible for this metric, entity or user.
    #[response(status = 422)]
    Unprocessable(#[to_schema] ErrorBody),
    /// Stored data is damaged, or Redis rejected a command.
    #[response(status = 500)]
    Internal(#[to_schema] ErrorBody),
    /// Redis is unavailable, or too many request bodies are in progress (`busy`). Retry after `Retry-After` seconds.
    #[response(status = 503)]
    Unavailable(#[to_schema] ErrorBody),
}

/// The error responses of the readiness check.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum NotReadyResponses {
    /// Stored data is damaged, or Redis rejected a command.
    #[response(status = 500)]
    Internal(#[to_schema] ErrorBody),
    /// Redis is unavailable, a schema is missing, or partitions have failed. Retry after `Retry-After` seconds.
    #[response(status = 503)]
    Unavailable(#[to_schema] ErrorBody),
}

/// The error responses of all routes.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum CommonErrorResponses {
    /// The path does not support the method. The `Allow` header lists the supported ones.
    #[response(status = 405, headers(("Allow" = String, description = "The supported methods")))]
    Method(#[to_schema] ErrorBody),
    /// The request took longer than the timeout.
    #[response(status = 408)]
    Timeout(#[to_schema] ErrorBody),
    /// The body is too long, or has too many items.
    #[response(status = 413)]
    TooLarge(#[to_schema] ErrorBody),
}

/// The error responses of routes that require a token, if tokens are configured.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum AuthErrorResponses {
    /// The token is missing or invalid.
    #[response(status = 401)]
    Unauthorized(#[to_schema] ErrorBody),
    /// The token does not have the required right.
    #[response(status = 403)]
    Forbidden(#[to_schema] ErrorBody),
}

/// The error responses of rate-limited routes.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "schema only")]
pub enum RateLimitErrorResponses {
    /// The rate limit of the address, device or user is exceeded. Retry after `Retry-After` seconds.
    #[response(status = 429)]
    Limited(#[to_schema] ErrorBody),
}

fn status_code(problem: &Problem) -> StatusCode {
    match problem {
        Problem::Malformed(_) | Problem::Invalid(..) => StatusCode::BAD_REQUEST,
        Problem::UnknownMetric(_) => StatusCode::NOT_FOUND,
        Problem::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Problem::Limited { .. } => StatusCode::TOO_MANY_REQUESTS,
        Problem::UnknownType(_)
        | Problem::Unprocessable(_)
        | Problem::AuthorMismatch(_)
        | Problem::UnsupportedUserId(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Problem::Busy
        | Problem::Schema(_)
        | Problem::Failed(_)
        | Problem::NoAssignment(_)
        | Problem::Store(StoreError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
        Problem::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = status_code(&self);
        if status.is_server_error() {
            tracing::warn!(error = %self, "request not executed");
        }
        let mut response = (status, Json(ErrorBody::of(&self))).into_response();
        let retry_after = match self {
            Problem::Limited { retry_after, .. } => Some(HeaderValue::from(retry_after)),
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then(|| HeaderValue::from_static("1")),
        };
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

/// Handles unknown paths.
pub async fn no_route() -> Response {
    let body = ErrorBody::new("no_route", "unknown path; see /openapi.json");
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

/// Handles methods that a path does not support.
pub async fn no_method() -> Response {
    let body = ErrorBody::new(
        "no_method",
        "this path does not support the method; see /openapi.json",
    );
    (StatusCode::METHOD_NOT_ALLOWED, Json(body)).into_response()
}

/// Adds the JSON error body to a timeout response.
pub async fn add_timeout_body(response: Response) -> Response {
    if response.status() != StatusCode::REQUEST_TIMEOUT {
        return response;
    }
    let body = ErrorBody::new("timeout", "the request took longer than http.timeout_ms");
    (StatusCode::REQUEST_TIMEOUT, Json(body)).into_response()
}
