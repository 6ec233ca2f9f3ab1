//! Trace IDs, and the metrics and log lines of requests.

use super::app::App;
use super::request_log::LoggedRequest;
use super::{auth, errors, rate_limit, unread_body};
use crate::domain::config::Right;
use crate::domain::error::Problem;
use crate::domain::ids::Id;
use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics::{Counter, Histogram};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The trace ID of a request. It appears in its log lines, its events and its response.
#[derive(Clone)]
pub struct RequestTraceId(pub Arc<str>);

const TRACE_HEADER: &str = "x-trace-id";

/// A random trace ID: 32 hexadecimal digits.
pub fn random_trace_id() -> Arc<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Faster than formatting.
    let mut text = [0; 32];
    for (pair, byte) in text
        .chunks_exact_mut(2)
        .zip(fastrand::u128(..).to_be_bytes())
    {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    str::from_utf8(&text).unwrap_or_default().into()
}

/// The trace ID of a request: the client's if it is a valid ID, a random one otherwise.
fn trace_id(request: &Request) -> Arc<str> {
    let header = request.headers().get(TRACE_HEADER);
    let id = header
        .and_then(|value| value.to_str().ok())
        .and_then(|text| Id::new(text).ok());
    match id {
        Some(id) => id.as_str().into(),
        None => random_trace_id(),
    }
}

/// What routes require of requests.
#[derive(Clone)]
pub struct RouteRules {
    /// The state.
    pub app: App,
    /// The right of a token; `None` if no token is required.
    pub right: Option<Right>,
    /// Whether clients are limited.
    pub is_rate_limited: bool,
}

/// The middleware of all routes. Assigns a trace ID, records the metrics and the log line, limits the length of the body, the time and the
/// rate of requests, authorizes them, handles an unread body, and writes the body of errors.
///
/// It is one middleware because each axum middleware clones and boxes everything inside it for each request.
pub async fn handle(State(rules): State<RouteRules>, mut request: Request, next: Next) -> Response {
    let id = trace_id(&request);
    request
        .extensions_mut()
        .insert(RequestTraceId(Arc::clone(&id)));
    let logged = LoggedRequest::new(Arc::clone(&id), &request);
    let run = |request| observe(rules, request, next);
    let response = logged.scope(unread_body::drain_or_close(request, run));
    let mut response = errors::write_body(response.await, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(TRACE_HEADER, value);
    }
    response
}

/// Records the metrics of a request and logs it.
async fn observe(rules: RouteRules, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    // Clients can send arbitrary methods, and label values are never removed.
    let method = match *request.method() {
        Method::GET => "GET",
        Method::POST => "POST",
        _ => "other",
    };
    let response = run(rules, request, next).await;
    let seconds = start.elapsed().as_secs_f64();
    let status = response.status();
    let path = path.as_ref().map_or("none", MatchedPath::as_str);
    record(path, method, status.as_u16(), seconds);
    if status.is_server_error() {
        tracing::warn!(status = status.as_u16(), seconds, "request failed");
    } else {
        tracing::debug!(status = status.as_u16(), seconds, "request");
    }
    response
}

/// Rejects a body whose `Content-Length` exceeds the maximum, and ends requests that take longer than `http.timeout_ms`.
async fn run(rules: RouteRules, request: Request, next: Next) -> Response {
    let http = &rules.app.config.http;
    if request.body().size_hint().lower() > http.max_body_bytes as u64 {
        return Problem::TooLarge.into_response();
    }
    let limit = Duration::from_millis(http.timeout_ms);
    match tokio::time::timeout(limit, admit(&rules, request, next)).await {
        Ok(response) => response,
        Err(_) => Problem::Timeout.into_response(),
    }
}

/// Runs a request if its client is within its limits and authorized. Limits come first, so that guessing tokens is limited, too.
async fn admit(rules: &RouteRules, request: Request, next: Next) -> Response {
    let authorized = async |mut request| match rules.right {
        Some(right) => match auth::authorize(&rules.app, right, &mut request) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        },
        None => next.run(request).await,
    };
    match rules.is_rate_limited {
        true => rate_limit::limit_rate(&rules.app, request, authorized).await,
        false => authorized(request).await,
    }
}

/// The metrics of a route.
struct RouteMetrics {
    /// By method and status.
    requests: HashMap<(&'static str, u16), Counter>,
    seconds: Histogram,
}

thread_local! {
    /// The metrics of each path. Registering a metric hashes and copies its labels, and a handle does not.
    static ROUTES: RefCell<HashMap<String, RouteMetrics>> = RefCell::default();
}

fn record(path: &str, method: &'static str, status: u16, seconds: f64) {
    let route = || path.strip_prefix("/api/v1").unwrap_or(path).to_owned();
    ROUTES.with_borrow_mut(|routes| {
        if !routes.contains_key(path) {
            let metrics = RouteMetrics {
                requests: HashMap::new(),
                seconds: metrics::histogram!("countd_http_request_seconds", "route" => route()),
            };
            routes.insert(path.to_owned(), metrics);
        }
        let Some(metrics) = routes.get_mut(path) else {
            return;
        };
        let requests = metrics.requests.entry((method, status)).or_insert_with(|| {
            metrics::counter!("countd_http_requests_total", "route" => route(), "method" => method, "status" => status.to_string())
        });
        requests.increment(1);
        metrics.seconds.record(seconds);
    });
}
