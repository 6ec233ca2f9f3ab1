//! The middleware of all routes.

use super::app::App;
use super::request_log::LoggedRequest;
use super::telemetry::{
    REQUEST_HEADER, RequestIds, RequestTraceId, TRACE_HEADER, describe_request, describe_response,
    known_method, record,
};
use super::{auth, errors, rate_limit, unread_body};
use crate::domain::config::Right;
use crate::domain::error::Problem;
use crate::trace::{self, Span};
use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What routes require of requests.
#[derive(Clone)]
pub struct RouteRules {
    /// The state.
    pub app: App,
    /// The right of a token; `None` if no token is required.
    pub right: Option<Right>,
    /// Whether the routes use the data: then clients are limited, and the process must know the layout of the data.
    pub use_data: bool,
}

/// Assigns a trace ID and a request ID, records the metrics and the log line, limits the length of the body, the time and the
/// rate of requests, authorizes them, handles an unread body, and writes the body of errors.
///
/// It is one middleware because each axum middleware clones and boxes everything inside it for each request.
pub async fn handle(State(rules): State<RouteRules>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let run = |request: Box<Request>| next.run(*request);
    process((rules, route), Box::new(request), run).await
}

/// [`handle`] of a request that `run` answers. `route` is its path with the names of parameters, if it has one.
///
/// The request is boxed because each of the nested futures below holds it twice, and is copied into the one around it.
pub async fn process<F: Future<Output = Response> + Send>(
    (rules, route): (RouteRules, Option<&str>),
    mut request: Box<Request>,
    run: impl FnOnce(Box<Request>) -> F + Send,
) -> Response {
    let span = Span::server(request.headers());
    let ids = RequestIds::of(&request, span.as_ref());
    if let Some(span) = &span {
        let is_tls = !rules.app.config.http.tls.cert_file.as_os_str().is_empty();
        describe_request(span, (&request, route), &ids, is_tls);
    }
    request
        .extensions_mut()
        .insert(RequestTraceId(Arc::clone(&ids.trace)));
    let logged = LoggedRequest::new(&ids, &request);
    let run = |request| observe((rules, route), request, run);
    let response = logged.scope(unread_body::drain_or_close(request, run));
    let response = trace::scope(span.as_ref(), pin!(response)).await;
    if let Some(span) = span {
        describe_response(&span, response.status());
    }
    let mut response = errors::write_body(response, &ids.trace);
    for (header, id) in [(&TRACE_HEADER, &ids.trace), (&REQUEST_HEADER, &ids.request)] {
        if let Ok(value) = HeaderValue::from_str(id) {
            response.headers_mut().insert(header, value);
        }
    }
    response
}

/// Records the metrics of a request and logs it.
async fn observe<F: Future<Output = Response> + Send>(
    (rules, route): (RouteRules, Option<&str>),
    request: Box<Request>,
    run: impl FnOnce(Box<Request>) -> F + Send,
) -> Response {
    let start = Instant::now();
    let method = known_method(request.method());
    let response = limit(rules, request, run).await;
    let seconds = start.elapsed().as_secs_f64();
    let status = response.status();
    record(route.unwrap_or("none"), method, status.as_u16(), seconds);
    if status.is_server_error() {
        tracing::warn!(status = status.as_u16(), seconds, "request failed");
    } else {
        tracing::debug!(status = status.as_u16(), seconds, "request");
    }
    response
}

/// Rejects a body whose `Content-Length` exceeds the maximum, and ends requests that take longer than `http.timeout_ms`.
async fn limit<F: Future<Output = Response> + Send>(
    rules: RouteRules,
    request: Box<Request>,
    run: impl FnOnce(Box<Request>) -> F + Send,
) -> Response {
    let http = &rules.app.config.http;
    if request.body().size_hint().lower() > http.max_body_bytes as u64 {
        return Problem::TooLarge.into_response();
    }
    let limit = Duration::from_millis(http.timeout_ms);
    match tokio::time::timeout(limit, admit(&rules, request, run)).await {
        Ok(response) => response,
        Err(_) => Problem::Timeout.into_response(),
    }
}

/// Runs a request if its client is within its limits, if there are any, and authorized. Limits come first, so that guessing tokens is limited, too.
async fn admit<F: Future<Output = Response> + Send>(
    rules: &RouteRules,
    request: Box<Request>,
    run: impl FnOnce(Box<Request>) -> F + Send,
) -> Response {
    let RouteRules { app, use_data, .. } = rules;
    let authorized = async |mut request: Box<Request>| {
        let authorized = match rules.right {
            Some(right) => auth::authorize(app, right, &mut request),
            None => Ok(()),
        };
        let admitted = authorized.and_then(|()| match use_data {
            true => Ok(app.store.check_layout()?),
            false => Ok(()),
        });
        match admitted {
            Ok(()) => run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    match *use_data && app.config.limits.is_enabled() {
        true => rate_limit::limit_rate(app, request, authorized).await,
        false => authorized(request).await,
    }
}
