//! Cross-origin requests: which web pages of other origins may call the API from a browser.

use crate::domain::config::{CorsConfig, LimitsConfig};
use axum::http::{HeaderName, HeaderValue, Method, header};
use std::time::Duration;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// The headers of requests, besides that of devices.
const REQUEST_HEADERS: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-trace-id"),
];
/// The headers of responses that pages may read.
const RESPONSE_HEADERS: [HeaderName; 7] = [
    header::LOCATION,
    header::RETRY_AFTER,
    HeaderName::from_static("idempotent-replayed"),
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-trace-id"),
];

/// The layer that answers preflight requests and adds the headers of `[http.cors]`. `None` without origins.
pub fn layer(settings: &CorsConfig, limits: &LimitsConfig) -> Option<CorsLayer> {
    if settings.origins.is_empty() {
        return None;
    }
    let origins = match settings.origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::any(),
        false => {
            let origins = settings.origins.iter();
            AllowOrigin::list(origins.filter_map(|origin| HeaderValue::from_str(origin).ok()))
        }
    };
    let device: Option<HeaderName> = limits.device_header.parse().ok();
    let headers: Vec<HeaderName> = REQUEST_HEADERS.into_iter().chain(device).collect();
    let layer = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers(headers)
        .expose_headers(RESPONSE_HEADERS)
        .max_age(Duration::from_secs(settings.max_age_seconds));
    Some(layer)
}
