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

/// The header of W3C Trace Context, whose trace ID is used if there is no `x-trace-id`.
const TRACE_PARENT: &str = "traceparent";

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

/// The trace ID of a request: that of the client's `x-trace-id` or `traceparent`, the first of them that is valid, or a random one.
pub fn trace_id(request: &Request) -> Arc<str> {
    let header = |name| request.headers().get(name)?.to_str().ok();
    let own = header(TRACE_HEADER).and_then(|text| Id::new(text).ok());
    match own {
        Some(id) => id.as_str().into(),
        None => match header(TRACE_PARENT).and_then(trace_of_parent) {
            Some(id) => id.into(),
            None => random_trace_id(),
        },
    }
}

/// The trace ID of a `traceparent` of version 00: `00-{trace ID}-{parent ID}-{flags}`, in lower-case hexadecimal digits. `None` if it is
/// invalid.
fn trace_of_parent(text: &str) -> Option<&str> {
    const LENGTHS: [usize; 4] = [2, 32, 16, 2];
    let fields: Vec<&str> = text.split('-').collect();
    let [version, trace, parent, _] = fields[..] else {
        return None;
    };
    let is_hexadecimal = |field: &str| {
        field
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let has_form = fields
        .iter()
        .zip(LENGTHS)
        .all(|(field, length)| field.len() == length && is_hexadecimal(field));
    let is_zero = |field: &str| field.bytes().all(|byte| byte == b'0');
    let is_valid = has_form && version == "00" && !is_zero(trace) && !is_zero(parent);
    is_valid.then_some(trace)
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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn trace_of(headers: &[(&str, &str)]) -> String {
        let mut request = Request::new(Body::empty());
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().expect("a name");
            let value = value.parse().expect("a value");
            request.headers_mut().append(name, value);
        }
        trace_id(&request).to_string()
    }

    #[test]
    fn the_trace_of_a_valid_traceparent_is_used_without_x_trace_id() {
        let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let parent = parent.as_str();
        assert_eq!(trace_of(&[("traceparent", parent)]), TRACE);
        let both = [("traceparent", parent), ("x-trace-id", "t-1")];
        assert_eq!(trace_of(&both), "t-1");
        let invalid = [("traceparent", parent), ("x-trace-id", "a b")];
        assert_eq!(trace_of(&invalid), TRACE);
    }

    #[test]
    fn invalid_traceparents_are_ignored() {
        let zeros = "0".repeat(32);
        for parent in [
            String::new(),
            TRACE.to_owned(),
            format!("01-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-x"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            format!("00-{}-00f067aa0ba902b7-01", &TRACE[1..]),
            format!("00-{TRACE}0-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-00f067aa0ba902bg-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-1"),
        ] {
            assert_eq!(trace_of_parent(&parent), None, "{parent}");
            let id = trace_of(&[("traceparent", parent.as_str())]);
            assert!(id.len() == 32 && id != TRACE && id != zeros, "{id}");
        }
    }
}
