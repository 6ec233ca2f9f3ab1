//! Trace IDs, and the metrics of requests.

use crate::domain::ids::Id;
use axum::extract::Request;
use metrics::{Counter, Histogram};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The trace ID of a request. It appears in its log lines, its events and its response.
#[derive(Clone)]
pub struct RequestTraceId(pub Arc<str>);

/// The header of the trace ID.
pub const TRACE_HEADER: &str = "x-trace-id";

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
pub fn trace_id(request: &Request) -> Arc<str> {
    let header = request.headers().get(TRACE_HEADER);
    let id = header
        .and_then(|value| value.to_str().ok())
        .and_then(|text| Id::new(text).ok());
    match id {
        Some(id) => id.as_str().into(),
        None => random_trace_id(),
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

/// Records a request.
pub fn record(path: &str, method: &'static str, status: u16, seconds: f64) {
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
