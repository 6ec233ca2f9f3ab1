//! Trace IDs, and the metrics and log lines of requests.

use super::app::App;
use super::errors;
use crate::domain::error::Problem;
use crate::domain::ids::Id;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::Instrument;

/// The trace ID of a request. It appears in its log lines, its events and its response.
#[derive(Clone)]
pub struct RequestTraceId(pub Arc<str>);

const TRACE_HEADER: &str = "x-trace-id";

/// A random trace ID.
pub fn random_trace_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Middleware that assigns a trace ID: the client's if it is a valid ID, a random one otherwise. Writes the body of errors.
pub async fn trace(mut request: Request, next: Next) -> Response {
    let header = request
        .headers()
        .get(TRACE_HEADER)
        .and_then(|value| value.to_str().ok());
    let id: Arc<str> = match header.and_then(|text| Id::new(text).ok()) {
        Some(id) => id.as_str().into(),
        None => random_trace_id().into(),
    };
    request
        .extensions_mut()
        .insert(RequestTraceId(Arc::clone(&id)));
    let span = tracing::info_span!("request", traceId = %id, method = %request.method(), path = request.uri().path(), token = tracing::field::Empty);
    let response = next.run(request).instrument(span).await;
    let mut response = errors::write_body(response, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(TRACE_HEADER, value);
    }
    response
}

/// Middleware that ends requests that take longer than `http.timeout_ms`.
pub async fn time_out(State(app): State<App>, request: Request, next: Next) -> Response {
    let limit = Duration::from_millis(app.config.http.timeout_ms);
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::Timeout.into_response(),
    }
}

/// Middleware that records the metrics of a request and logs it.
pub async fn observe(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let path = request.extensions().get::<MatchedPath>();
    let route = path.map_or("none", |path| {
        path.as_str()
            .strip_prefix("/api/v1")
            .unwrap_or(path.as_str())
    });
    let route = route.to_owned();
    // Clients can send arbitrary methods, and label values are never removed.
    let method = match *request.method() {
        Method::GET => "GET",
        Method::POST => "POST",
        _ => "other",
    };
    let response = next.run(request).await;
    let seconds = start.elapsed().as_secs_f64();
    let status = response.status();
    metrics::counter!("countd_http_requests_total", "route" => route.clone(), "method" => method, "status" => status.as_u16().to_string()).increment(1);
    metrics::histogram!("countd_http_request_seconds", "route" => route).record(seconds);
    if status.is_server_error() {
        tracing::warn!(status = status.as_u16(), seconds, "request failed");
    } else {
        tracing::debug!(status = status.as_u16(), seconds, "request");
    }
    response
}
