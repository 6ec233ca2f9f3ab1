//! Problems as answers.

use crate::domain::error::Problem;
use crate::domain::error::StoreError;
use crate::domain::health::FailedPartition;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

/// How many failed partitions are listed at most.
const MAX_FAILED: usize = 100;

/// What went wrong.
#[derive(Serialize, ToSchema)]
pub struct ErrorBody {
    /// The problem.
    pub error: Detail,
}

/// A problem for programs and for people.
#[derive(Serialize, ToSchema)]
pub struct Detail {
    /// One word: `malformed`, `unknown_metric`, `unknown_type`, `unfit`, `too_many`, `too_large`, `limited`, `busy`, `slow`, `schema`, `unavailable`, `not_counting`, `damaged`,
    /// `internal`, `no_route`, `no_method`, `unauthorized`, `forbidden`.
    pub code: &'static str,
    /// A sentence.
    pub message: String,
    /// Of `limited`: when to try again, in seconds.
    #[serde(rename = "retryAfter", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Of a `POST /events`: the envelopes that are refused, the first hundred of them. Nothing of the request was done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub items: Vec<RefusedItem>,
    /// Of `not_counting`: the partitions that have failed, the first hundred of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub partitions: Vec<FailedPartition>,
}

/// A part of a request that is refused.
#[derive(Serialize, ToSchema)]
pub struct RefusedItem {
    /// Which: 0 is the first.
    pub item: usize,
    /// Its `event_id`, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// A word, as in [`Detail`].
    pub code: &'static str,
    /// A sentence.
    pub message: String,
}

impl ErrorBody {
    /// Of a problem.
    pub fn of(problem: &Problem) -> ErrorBody {
        let mut failure = ErrorBody::new(problem.code(), problem.to_string());
        if let Problem::Limited { retry_after, .. } = problem {
            failure.error.retry_after = Some(*retry_after);
        }
        if let Problem::Failed(failed) = problem {
            failure.error.partitions = failed.iter().take(MAX_FAILED).cloned().collect();
        }
        failure
    }

    /// Of its parts.
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

/// The answers of a handler that failed. Those that all routes share, or all that need a token, are added to them in one place:
/// see [`super::document`].
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it describes; the answers are made from problems")]
pub enum ErrorResponses {
    /// Malformed.
    #[response(status = 400)]
    Malformed(#[to_schema] ErrorBody),
    /// No such metric.
    #[response(status = 404)]
    Unknown(#[to_schema] ErrorBody),
    /// It makes no sense for this metric, entity or user.
    #[response(status = 422)]
    Unfit(#[to_schema] ErrorBody),
    /// Something stored is damaged, or the server refuses what it should not.
    #[response(status = 500)]
    Internal(#[to_schema] ErrorBody),
    /// The store is not available, or too many bodies are under way (`busy`). Try again after `Retry-After` seconds.
    #[response(status = 503)]
    Unavailable(#[to_schema] ErrorBody),
}

/// Of these, the answers where nothing is asked for that could be wrong.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it describes")]
pub enum NotReadyResponse {
    /// Something stored is damaged, or the server refuses what it should not.
    #[response(status = 500)]
    Internal(#[to_schema] ErrorBody),
    /// The store is not available, or lacks a schema. Try again after `Retry-After` seconds.
    #[response(status = 503)]
    Unavailable(#[to_schema] ErrorBody),
}

/// The answers of every route.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it describes")]
pub enum CommonErrorResponses {
    /// The path has other methods: `Allow` names them.
    #[response(status = 405, headers(("Allow" = String, description = "The methods of the path")))]
    Method(#[to_schema] ErrorBody),
    /// The request did not come in time, or took too long.
    #[response(status = 408)]
    Slow(#[to_schema] ErrorBody),
    /// The body is too long, or has too many items.
    #[response(status = 413)]
    TooMuch(#[to_schema] ErrorBody),
}

/// Those of routes that need a token, where the configuration has some.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it describes")]
pub enum AuthErrorResponses {
    /// There is no token, or it is none of the configuration's.
    #[response(status = 401)]
    Unauthorized(#[to_schema] ErrorBody),
    /// The token has not the right.
    #[response(status = 403)]
    Forbidden(#[to_schema] ErrorBody),
}

/// Those of routes that are limited.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it describes")]
pub enum BodyErrorResponses {
    /// More than this address, device or user may do. Try again after `Retry-After` seconds.
    #[response(status = 429)]
    Limited(#[to_schema] ErrorBody),
}

fn status(problem: &Problem) -> StatusCode {
    match problem {
        Problem::Malformed(_) | Problem::Invalid(..) => StatusCode::BAD_REQUEST,
        Problem::NoMetric(_) => StatusCode::NOT_FOUND,
        Problem::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Problem::Limited { .. } => StatusCode::TOO_MANY_REQUESTS,
        Problem::NoType(_) | Problem::Unfit(_) | Problem::UnsupportedUserId(_) => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Problem::Busy
        | Problem::Schema(_)
        | Problem::Failed(_)
        | Problem::NoShare(_)
        | Problem::Store(StoreError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
        Problem::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = status(&self);
        if status.is_server_error() {
            tracing::warn!(error = %self, "not done");
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

/// No such path.
pub async fn no_route() -> Response {
    let failure = ErrorBody::new("no_route", "there is nothing here; see /openapi.json");
    (StatusCode::NOT_FOUND, Json(failure)).into_response()
}

/// The path has no such method.
pub async fn no_method() -> Response {
    let failure = ErrorBody::new(
        "no_method",
        "this path has other methods; see /openapi.json",
    );
    (StatusCode::METHOD_NOT_ALLOWED, Json(failure)).into_response()
}
