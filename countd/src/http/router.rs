//! Routes and their middleware.

use super::app::{App, StartError};
use super::hot_reads::Api;
use super::middleware::{self, RouteRules};
use super::page_routes::PageGroup;
use super::scrape::Scrape;
use super::{
    adjust, changes, counters, entities, errors, events, feed, history, hot, jobs, openapi,
    operations, page_routes, ranks, timelines, user_counters, users, writes,
};
use crate::domain::config::{Config, Right};
use crate::domain::health::Health;
use crate::log::kafka::Topic;
use crate::query::prefilter::Prefilter;
use crate::redis::store::Store;
use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;
use tokio::sync::watch;
use utoipa::IntoResponses;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Routes that require the same right.
struct RouteGroup {
    /// The right of a token; `None` if no token is required.
    right: Option<Right>,
    /// Whether the routes use the data. The others are health checks, `/metrics` and the description of the API.
    use_data: bool,
    routes: OpenApiRouter<App>,
}

impl RouteGroup {
    /// Routes that use the data.
    fn of_data(right: Right, routes: OpenApiRouter<App>) -> RouteGroup {
        RouteGroup {
            right: Some(right),
            use_data: true,
            routes,
        }
    }

    /// Other routes. Their clients are not limited.
    fn operational(right: Option<Right>, routes: OpenApiRouter<App>) -> RouteGroup {
        RouteGroup {
            right,
            use_data: false,
            routes,
        }
    }

    /// The routes, with the error responses of the middleware added to their descriptions.
    fn with_common_responses(mut self) -> OpenApiRouter<App> {
        let mut common = errors::CommonErrorResponses::responses();
        if self.right.is_some() {
            common.extend(errors::AuthErrorResponses::responses());
        }
        if self.use_data {
            common.extend(errors::RateLimitErrorResponses::responses());
        }
        for path in self.routes.get_openapi_mut().paths.paths.values_mut() {
            let operations = [
                &mut path.get,
                &mut path.post,
                &mut path.put,
                &mut path.delete,
            ];
            for operation in operations.into_iter().flatten() {
                let mut added = common.clone();
                if operation.request_body.is_some() {
                    added.extend(errors::BodyErrorResponses::responses());
                }
                let responses = &mut operation.responses.responses;
                for (status, response) in &added {
                    let entry = responses.entry(status.clone());
                    entry.or_insert_with(|| response.clone());
                }
            }
        }
        self.routes
    }
}

/// All routes.
fn all_groups() -> Vec<RouteGroup> {
    let reads = OpenApiRouter::new()
        .routes(routes!(counters::counter))
        .routes(routes!(entities::entity_of))
        .routes(routes!(counters::counter_batch))
        .routes(routes!(history::history))
        .routes(routes!(history::history_batch))
        .routes(routes!(ranks::rank))
        .routes(routes!(feed::feed))
        .routes(routes!(users::status))
        .routes(routes!(users::status_batch))
        .routes(routes!(user_counters::relation))
        .routes(routes!(user_counters::relation_batch))
        .routes(routes!(users::who))
        .routes(routes!(timelines::user_timeline))
        .routes(routes!(timelines::followings))
        .routes(routes!(timelines::followers))
        .routes(routes!(changes::changes));
    let writes = OpenApiRouter::new()
        .routes(routes!(writes::action))
        .routes(routes!(writes::actions))
        .routes(routes!(writes::reset))
        .routes(routes!(user_counters::relation_reset))
        .routes(routes!(entities::put_entity))
        .routes(routes!(events::events));
    let administration = OpenApiRouter::new()
        .routes(routes!(jobs::delete_entity))
        .routes(routes!(jobs::delete_user))
        .routes(routes!(jobs::job))
        .routes(routes!(hot::hot))
        .routes(routes!(adjust::adjust));
    let mut groups = vec![
        RouteGroup::of_data(Right::Read, reads),
        RouteGroup::of_data(Right::Write, writes),
        RouteGroup::of_data(Right::Admin, administration),
    ];
    groups.extend(operational_groups());
    let description = OpenApiRouter::new().routes(routes!(operations::openapi));
    groups.push(RouteGroup::operational(None, description));
    groups
}

/// Health checks and metrics.
fn operational_groups() -> [RouteGroup; 2] {
    let metrics = OpenApiRouter::new().routes(routes!(operations::metrics));
    let health = OpenApiRouter::new()
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz));
    [
        RouteGroup::operational(Some(Right::Admin), metrics),
        RouteGroup::operational(None, health),
    ]
}

/// The OpenAPI document, as JSON.
pub fn document(config: &Config) -> String {
    let all = all_groups()
        .into_iter()
        .fold(openapi::empty(), |all, group| {
            all.merge(group.with_common_responses())
        });
    let (_, document) = all.split_for_parts();
    openapi::to_json(&document, config)
}

/// The API. Repeatable events are appended to the topic, if there is one. Responses without an end are ended when `stopping` turns true. Must be called in a Tokio runtime.
///
/// # Errors
/// The keys of JSON Web Tokens cannot be read, or the process cannot handle signals.
pub fn router(
    config: &Arc<Config>,
    (store, topic): (Store, Option<Topic>),
    health: Health,
    metrics: Scrape,
    stopping: watch::Receiver<bool>,
) -> Result<Api, StartError> {
    let prefilter = Prefilter::start(config, store.clone(), stopping.clone());
    let document = document(config);
    let data = (store, topic);
    let app = App::new(config, data, health, metrics, document, prefilter, stopping)?;
    let pages = page_routes::all(&app);
    let router = with_middleware(app.clone(), all_groups(), pages);
    Ok(Api::new(router, app))
}

/// The router of a process that only consumes: health checks and metrics. Must be called in a Tokio runtime.
///
/// # Errors
/// As [`router`].
pub fn operational_router(
    config: &Arc<Config>,
    store: Store,
    health: Health,
    metrics: Scrape,
    stopping: watch::Receiver<bool>,
) -> Result<Api, StartError> {
    let prefilter = Prefilter::disabled();
    let document = document(config);
    let data = (store, None);
    let app = App::new(config, data, health, metrics, document, prefilter, stopping)?;
    let router = with_middleware(app.clone(), operational_groups(), Vec::new());
    Ok(Api::new(router, app))
}

fn with_middleware(
    app: App,
    groups: impl IntoIterator<Item = RouteGroup>,
    pages: Vec<PageGroup>,
) -> Router {
    let handle = |right, use_data| {
        let rules = RouteRules {
            app: app.clone(),
            right,
            use_data,
        };
        from_fn_with_state(rules, middleware::handle)
    };
    let mut api = Router::new();
    for group in groups {
        let right = group.right.filter(|_| app.config.auth.is_enabled());
        let use_data = group.use_data;
        let (routes, _) = group.routes.split_for_parts();
        let routes = Router::new().nest("/api/v1", routes.clone()).merge(routes);
        api = api.merge(routes.route_layer(handle(right, use_data)));
    }
    for PageGroup { use_data, routes } in pages {
        api = api.merge(routes.route_layer(handle(None, use_data)));
    }
    api.fallback(errors::no_route.layer(handle(None, false)))
        .method_not_allowed_fallback(errors::no_method.layer(handle(None, false)))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use crate::domain::config::Config;
    use serde_json::Value;

    /// Routes are added only by the macro that also describes them.
    #[test]
    fn every_route_is_described() {
        let source = include_str!("router.rs");
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let routes = source.matches("routes!(").count();
        let others = [".route(", ".route_service(", ".nest_service("];
        assert!(others.iter().all(|other| !source.contains(other)));
        let config = Config::parse("").expect("valid");
        let document: Value = serde_json::from_str(&super::document(&config)).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let operations = paths
            .values()
            .filter_map(Value::as_object)
            .map(|path| path.len());
        assert_eq!(operations.sum::<usize>(), routes);
    }
}
