//! Reads of hot entities whose counters are in memory: they are answered without the router.
//!
//! Finding a route, cloning its handler and extracting parameters takes the router more instructions than such a read takes otherwise.

use super::app::App;
use super::cors;
use super::counters::cached_response;
use super::middleware::{self, RouteRules};
use crate::domain::config::Right;
use crate::domain::ids::{Entity, Id, Name};
use crate::query::counts::CachedCounts;
use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use futures_util::future::{Either, FutureExt};
use std::convert::Infallible;
use std::future::{self, Future};
use tower::{Layer, ServiceExt, service_fn};
use tower_http::cors::CorsLayer;

/// The route of the counters of an entity, in both forms, each with what is before the parameters.
const ROUTES: [(&str, &str); 2] = [
    ("/counter/", "/counter/{etype}/{eid}"),
    ("/api/v1/counter/", "/api/v1/counter/{etype}/{eid}"),
];

/// The API of a process: a router, and what is answered without it.
#[derive(Clone)]
pub struct Api {
    router: Router,
    /// The rules of cached reads; `None` if nothing is cached.
    reads: Option<RouteRules>,
    /// What adds the headers of CORS to cached reads; `None` if other origins are not permitted.
    cors: Option<CorsLayer>,
}

impl Api {
    /// The API with these routes. Cached reads are answered without them.
    pub(super) fn new(router: Router, app: App) -> Api {
        let cors = cors::layer(&app.config.http.cors, &app.config.limits);
        let router = match &cors {
            Some(cors) => router.layer(cors.clone()),
            None => router,
        };
        let reads = app.hot.is_caching().then(|| RouteRules {
            right: Some(Right::Read).filter(|_| app.config.auth.is_enabled()),
            use_data: true,
            app,
        });
        Api {
            router,
            reads,
            cors,
        }
    }

    /// Answers a request.
    pub fn respond(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        let rules = self.reads.as_ref();
        match rules.and_then(|rules| Read::of(rules, &request)) {
            // Boxed, because connections copy the future of a request.
            Some(read) => {
                let (read, request) = (Box::new(read), Box::new(request));
                Either::Left(Box::pin(read.respond_with(self.cors.clone(), request)))
            }
            None => Either::Right(self.router.clone().oneshot(request)),
        }
    }
}

/// A read whose counters are in memory.
#[derive(Clone)]
struct Read {
    rules: RouteRules,
    route: &'static str,
    entity: Entity,
    cached: CachedCounts,
}

impl Read {
    /// The read that a request is. `None` if it has to be read from Redis, or is invalid: the router answers it.
    fn of(rules: &RouteRules, request: &Request) -> Option<Read> {
        if request.method() != Method::GET || request.uri().query().is_some() {
            return None;
        }
        let path = request.uri().path();
        let (params, route) = ROUTES
            .iter()
            .find_map(|(start, route)| Some((path.strip_prefix(start)?, *route)))?;
        // Neither a name nor an ID has characters that are encoded.
        let (etype, eid) = params.split_once('/')?;
        let (etype, eid) = (Name::new(etype).ok()?, Id::new(eid).ok()?);
        let entity = Entity { etype, eid };
        let cached = rules.app.queries.cached_counters(&entity).ok()??;
        Some(Read {
            rules: rules.clone(),
            route,
            entity,
            cached,
        })
    }

    /// Answers the request, with the headers of CORS if there are any.
    async fn respond_with(
        self: Box<Self>,
        cors: Option<CorsLayer>,
        request: Box<Request>,
    ) -> Result<Response, Infallible> {
        let Some(cors) = cors else {
            return Ok(self.respond(request).await);
        };
        let service = service_fn(move |request| {
            let answered = self.clone().respond(Box::new(request));
            answered.map(Ok)
        });
        cors.layer(service).oneshot(*request).await
    }

    async fn respond(self: Box<Self>, request: Box<Request>) -> Response {
        let (rules, route) = (self.rules.clone(), self.route);
        let run = move |_| {
            let Read {
                rules,
                entity,
                cached,
                ..
            } = *self;
            rules.app.queries.record_cached_read(&entity);
            future::ready(cached_response(entity, &cached))
        };
        middleware::process((rules, Some(route)), request, run).await
    }
}
