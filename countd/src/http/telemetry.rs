//! Trace IDs, and the metrics and spans of requests.

use crate::domain::ids::Id;
use crate::trace::Span;
use axum::extract::Request;
use axum::http::{HeaderName, Method, StatusCode};
use hashbrown::HashMap;
use metrics::{Counter, Histogram};
use std::cell::RefCell;
use std::sync::Arc;

/// The header of the request ID.
pub static REQUEST_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The trace ID of a request. It appears in its log lines, its events and its response.
#[derive(Clone)]
pub struct RequestTraceId(pub Arc<str>);

/// The header of the trace ID.
pub static TRACE_HEADER: HeaderName = HeaderName::from_static("x-trace-id");

/// The header of W3C Trace Context, whose trace ID is used if there is no `x-trace-id`.
static TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

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

/// The IDs of a request.
pub struct RequestIds {
    /// The ID of the trace, which may have several requests.
    pub trace: Arc<str>,
    /// The ID of the request itself.
    pub request: Arc<str>,
}

impl RequestIds {
    /// The IDs of a request. The trace ID is that of the client's `x-trace-id` or `traceparent`, the first of them that is valid, or a random one.
    /// The request ID is a valid `x-request-id` of the client, or a random one, which is then the trace ID, too, if that is random. The span
    /// of the request, if it has one, is a part of the same trace, unless the client names another in `x-trace-id`.
    pub fn of(request: &Request, span: Option<&Span>) -> RequestIds {
        let header = |name: &HeaderName| request.headers().get(name)?.to_str().ok();
        let valid = |name| Some(Id::new(header(name)?).ok()?.as_str().into());
        let trace = valid(&TRACE_HEADER)
            .or_else(|| Some(header(&TRACE_PARENT).and_then(trace_of_parent)?.into()));
        let own = valid(&REQUEST_HEADER);
        let is_random = trace.is_none();
        let trace = trace.unwrap_or_else(|| match span {
            Some(span) => span.trace_id().into(),
            None => random_trace_id(),
        });
        let request = own.unwrap_or_else(|| match is_random {
            true => Arc::clone(&trace),
            false => random_trace_id(),
        });
        RequestIds { trace, request }
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

/// Sets the attributes of the span of a request, in the conventions of OpenTelemetry. To be called before its handlers.
pub fn describe_request(
    span: &Span,
    (request, route): (&Request, Option<&str>),
    ids: &RequestIds,
    is_tls: bool,
) {
    if !span.is_sampled() {
        return;
    }
    let method = known_method(request.method());
    match route {
        Some(route) => {
            span.rename(format!("{method} {route}"));
            span.set("http.route", route.to_owned());
        }
        None => span.rename(method.to_owned()),
    }
    let method = if method == "other" { "_OTHER" } else { method };
    span.set("http.request.method", method);
    span.set("url.path", request.uri().path().to_owned());
    span.set("url.scheme", if is_tls { "https" } else { "http" });
    span.set("countd.request_id", ids.request.to_string());
    if *ids.trace != *span.trace_id() {
        span.set("countd.trace_id", ids.trace.to_string());
    }
}

/// Sets the outcome of a request.
pub fn describe_response(span: &Span, status: StatusCode) {
    span.set("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail(status.as_str().to_owned());
    }
}

/// The name of a method. Clients can send arbitrary ones, and values of labels are never removed.
pub fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// The metrics of the requests with a route, a method and a status.
struct RequestMetrics {
    count: Counter,
    seconds: Histogram,
}

impl RequestMetrics {
    fn new(path: &str, method: &'static str, status: u16) -> RequestMetrics {
        let route = path.strip_prefix("/api/v1").unwrap_or(path).to_owned();
        let labels = [
            ("route", route),
            ("method", method.to_owned()),
            ("status", status.to_string()),
        ];
        RequestMetrics {
            count: metrics::counter!("countd_http_requests_total", &labels),
            seconds: metrics::histogram!("countd_http_request_duration_seconds", &labels),
        }
    }
}

/// The metrics of a path, by method and status.
type PathMetrics = HashMap<(&'static str, u16), RequestMetrics>;

thread_local! {
    /// The metrics of each path. Registering a metric hashes and copies its labels, and a handle does not.
    static PATHS: RefCell<HashMap<String, PathMetrics>> = RefCell::default();
}

/// Records a request.
pub fn record(path: &str, method: &'static str, status: u16, seconds: f64) {
    PATHS.with_borrow_mut(|paths| {
        let metrics = paths.entry_ref(path).or_default();
        let metrics = metrics.entry((method, status));
        let metrics = metrics.or_insert_with(|| RequestMetrics::new(path, method, status));
        metrics.count.increment(1);
        metrics.seconds.record(seconds);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn ids_of(headers: &[(&str, &str)]) -> RequestIds {
        let mut request = Request::new(Body::empty());
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().expect("a name");
            let value = value.parse().expect("a value");
            request.headers_mut().append(name, value);
        }
        RequestIds::of(&request, None)
    }

    fn trace_of(headers: &[(&str, &str)]) -> String {
        ids_of(headers).trace.to_string()
    }

    #[test]
    fn request_ids_are_those_of_the_client_or_random() {
        let ids = ids_of(&[("x-request-id", "r-1"), ("x-trace-id", "t-1")]);
        assert_eq!((&*ids.request, &*ids.trace), ("r-1", "t-1"));
        let ids = ids_of(&[("x-request-id", "r-1")]);
        assert!(&*ids.request == "r-1" && ids.trace.len() == 32);
        // Two requests of a trace differ.
        let [one, two] = [0; 2].map(|_| ids_of(&[("x-trace-id", "t-1"), ("x-request-id", "a b")]));
        assert!(one.request != two.request && one.request.len() == 32);
        let ids = ids_of(&[]);
        assert_eq!(ids.request, ids.trace);
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
