//! The HTTP API. Every path is there twice: as it is, and under `/api/v1`.

mod auth;
mod bodies;
mod budget;
mod errors;
mod events;
pub mod exposition;
mod extract;
mod items;
mod limits;
mod operations;
mod reads;
mod serve;
mod unparsed;
mod writes;

pub use serve::serve;

use crate::domain::config::Config;
use crate::domain::config::Right;
use crate::domain::health::Health;
use crate::facts::FactStores;
use crate::ingest::actions::Actions;
use crate::ingest::envelopes::Envelopes;
use crate::ingest::limits::RateLimits;
use crate::query::reads::Queries;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use budget::BodyBudget;
use metrics_exporter_prometheus::PrometheusHandle;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower_http::timeout::TimeoutLayer;
use tracing::Instrument;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What handlers share.
#[derive(Clone)]
pub struct App {
    config: Arc<Config>,
    store: Store,
    catalog: Catalog,
    actions: Actions,
    envelopes: Envelopes,
    queries: Queries,
    health: Health,
    metrics: PrometheusHandle,
    document: Arc<str>,
    limits: Arc<RateLimits>,
    budget: BodyBudget,
}

#[derive(OpenApi)]
#[openapi(
    info(title = "countd", description = "Counts what users do, and knows who did it. A request that is not one of HTTP/1.1 is answered with 400, one \
    with a path or headers that are too long with 414 or 431, whatever its path; their bodies are ErrorResponses too."),
    servers((url = "/"), (url = "/api/v1")),
    security((), ("token" = [])),
    components(schemas(errors::ErrorBody, errors::Detail)),
    modifiers(&Bearer)
)]
struct Document;

/// Tells of the tokens.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", scheme);
    }
}

/// Routes, and what a token needs for them.
type Group = (Option<Right>, OpenApiRouter<App>);

/// Whether routes with this right are limited.
fn is_limited(right: Option<Right>) -> bool {
    matches!(right, Some(Right::Read | Right::Write))
}

/// Routes, described with the answers that they do not make themselves.
fn described((right, mut routes): Group) -> OpenApiRouter<App> {
    let mut answers = errors::CommonErrorResponses::responses();
    if right.is_some() {
        answers.extend(errors::AuthErrorResponses::responses());
    }
    if is_limited(right) {
        answers.extend(errors::BodyErrorResponses::responses());
    }
    for path in routes.get_openapi_mut().paths.paths.values_mut() {
        for operation in [&mut path.get, &mut path.post].into_iter().flatten() {
            let own = &mut operation.responses.responses;
            for (status, answer) in &answers {
                own.entry(status.clone()).or_insert_with(|| answer.clone());
            }
        }
    }
    routes
}

/// All routes.
fn groups() -> Vec<Group> {
    let reads = OpenApiRouter::new()
        .routes(routes!(reads::counter))
        .routes(routes!(reads::counter_batch))
        .routes(routes!(reads::status))
        .routes(routes!(reads::status_batch))
        .routes(routes!(reads::relation))
        .routes(routes!(reads::relation_batch))
        .routes(routes!(reads::who));
    let writes = OpenApiRouter::new()
        .routes(routes!(writes::action))
        .routes(routes!(writes::actions))
        .routes(routes!(writes::reset))
        .routes(routes!(events::events));
    let mut groups = vec![(Some(Right::Read), reads), (Some(Right::Write), writes)];
    groups.extend(for_operators());
    let description = OpenApiRouter::new().routes(routes!(operations::openapi));
    groups.push((None, description));
    groups
}

/// What operators ask.
fn for_operators() -> [Group; 2] {
    let admin = OpenApiRouter::new().routes(routes!(operations::metrics));
    let open = OpenApiRouter::new()
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz));
    [(Some(Right::Admin), admin), (None, open)]
}

/// The API's own description, as JSON.
pub fn document() -> String {
    let all = OpenApiRouter::with_openapi(Document::openapi());
    let all = groups()
        .into_iter()
        .fold(all, |all, some| all.merge(described(some)));
    let (_, document) = all.split_for_parts();
    // Made of texts and numbers: nothing that JSON could not hold.
    serde_json::to_string(&document).unwrap_or_default()
}

/// All routes.
pub fn router(
    config: &Arc<Config>,
    store: Store,
    health: Health,
    metrics: PrometheusHandle,
) -> Router {
    routed(app(config, store, health, metrics), groups())
}

/// The routes for operators alone: of a process that only counts.
pub fn operators(
    config: &Arc<Config>,
    store: Store,
    health: Health,
    metrics: PrometheusHandle,
) -> Router {
    routed(app(config, store, health, metrics), for_operators())
}

fn app(config: &Arc<Config>, store: Store, health: Health, metrics: PrometheusHandle) -> App {
    let catalog = Catalog::new(Arc::clone(config), store.clone());
    let facts = FactStores::new(store.keys(), store.backend(), config.facts.shards);
    App {
        limits: RateLimits::new(&config.limits, store.clone()),
        budget: BodyBudget::new(&config.http),
        config: Arc::clone(config),
        actions: Actions::new(catalog.clone(), store.clone(), facts.clone()),
        envelopes: Envelopes::new(catalog.clone(), store.clone()),
        queries: Queries::new(catalog.clone(), store.clone(), facts),
        store,
        catalog,
        health,
        metrics,
        document: document().into(),
    }
}

fn routed(app: App, groups: impl IntoIterator<Item = Group>) -> Router {
    let timeout = Duration::from_millis(app.config.http.timeout_ms);
    let mut plain = Router::new();
    for (right, routes) in groups {
        let (routes, _) = routes.split_for_parts();
        let routes = match right {
            Some(right) => {
                routes.route_layer(from_fn_with_state((app.clone(), right), auth::check))
            }
            None => routes,
        };
        // Before the token is looked at: who guesses tokens is limited, too.
        plain = plain.merge(match is_limited(right) {
            true => routes.route_layer(from_fn_with_state(app.clone(), limits::check)),
            false => routes,
        });
    }
    Router::new()
        .nest("/api/v1", plain.clone())
        .merge(plain)
        .fallback(errors::no_route)
        .method_not_allowed_fallback(errors::no_method)
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            timeout,
        ))
        .layer(map_response(bodies::explain_lateness))
        .layer(from_fn_with_state(app.clone(), extract::check_length))
        .layer(from_fn(observe))
        .layer(from_fn(bodies::finish))
        .layer(from_fn(trace))
        .with_state(app)
}

/// What ties together the logs, the events and the answer of one request.
#[derive(Clone)]
pub struct TraceId(pub Arc<str>);

const TRACE_HEADER: &str = "x-trace-id";

/// Takes the client's trace id, if it is one, or makes one; it is in the logs, the events and the answer.
async fn trace(mut request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(TRACE_HEADER)
        .and_then(|value| value.to_str().ok());
    let id: Arc<str> = match given.and_then(|text| crate::domain::ids::Id::new(text).ok()) {
        Some(id) => id.as_str().into(),
        None => format!("{:032x}", fastrand::u128(..)).into(),
    };
    request.extensions_mut().insert(TraceId(Arc::clone(&id)));
    let span = tracing::info_span!("request", traceId = %id, method = %request.method(), path = request.uri().path());
    let mut response = next.run(request).instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(TRACE_HEADER, value);
    }
    response
}

async fn observe(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let path = request.extensions().get::<MatchedPath>();
    let route = path.map_or("none", |path| {
        path.as_str()
            .strip_prefix("/api/v1")
            .unwrap_or(path.as_str())
    });
    let route = route.to_owned();
    // Anybody can make up methods, and each label is kept for ever.
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    /// Whatever is routed is routed by this macro, which describes it.
    #[test]
    fn every_route_is_described() {
        let source = include_str!("mod.rs");
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let routes = source.matches("routes!(").count();
        let others = [".route(", ".route_service(", ".nest_service("];
        assert!(others.iter().all(|other| !source.contains(other)));
        let document: Value = serde_json::from_str(&super::document()).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let operations = paths
            .values()
            .filter_map(Value::as_object)
            .map(|path| path.len());
        assert_eq!(operations.sum::<usize>(), routes);
    }

    #[test]
    fn the_description_refers_to_nothing_that_is_missing() {
        let document: Value = serde_json::from_str(&super::document()).expect("JSON");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.contains(&"#/components/schemas/Action"), "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("a reference within");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
