//! Handlers of entity counters.

use super::app::App;
use super::errors::{ErrorResponses, FailedEntity};
use super::extract::{
    JsonBytes, PathParams, QueryParams, entity, metric_list, parse_json, to_strings,
};
use super::items::parse_list;
use super::json::{self, FormattedJson, Json};
use super::rate_limit::Client;
use super::telemetry::RequestTraceId;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::query::counts::{CachedCounts, Counts};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

/// The counters of an entity.
#[derive(Serialize, ToSchema)]
pub struct EntityCounts {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// The counters by metric.
    #[schema(value_type = std::collections::BTreeMap<String, u64>, example = json!({ "like": 1, "read": 12 }))]
    counts: Counts,
}

/// The counters of an entity of a batch, or why they could not be read.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EntityCountsResult {
    /// The counters.
    Counts(EntityCounts),
    /// The entity's key is damaged.
    Failed(FailedEntity),
}

impl EntityCountsResult {
    fn new(entity: Entity, counts: Result<Counts, Problem>) -> EntityCountsResult {
        match counts {
            Ok(counts) => EntityCountsResult::Counts(EntityCounts::new(entity, counts)),
            Err(problem) => EntityCountsResult::Failed(FailedEntity::new(entity, &problem)),
        }
    }
}

impl EntityCounts {
    fn new(Entity { etype, eid }: Entity, counts: Counts) -> EntityCounts {
        EntityCounts { etype, eid, counts }
    }
}

/// The query parameters of counters.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CounterParams {
    /// A comma-separated list of metrics. By default, all metrics of the schema.
    #[param(
        pattern = "^[A-Za-z][A-Za-z0-9_-]{0,31}(,[A-Za-z][A-Za-z0-9_-]{0,31})*$",
        example = "read,like"
    )]
    metrics: Option<String>,
}

/// Retrieve the counters of an entity
///
/// An entity without counts has zeros.
#[utoipa::path(
    get,
    path = "/counter/{etype}/{eid}",
    tag = "Counters",
    params(("etype" = Name, Path, description = "The entity type", example = "note"), ("eid" = Id, Path, description = "The ID of the entity", example = "114327608932745216"), CounterParams),
    responses((status = 200, description = "The counters", body = EntityCounts, example = json!({ "etype": "note", "eid": "114327608932745216", "counts": { "like": 1, "read": 0 } })), ErrorResponses)
)]
pub async fn counter(
    State(app): State<App>,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    PathParams((etype, eid)): PathParams<(String, String)>,
    QueryParams(params): QueryParams<CounterParams>,
) -> Result<Json<EntityCounts>, Problem> {
    let entity = entity(etype, eid)?;
    let metrics = match &params.metrics {
        Some(metrics) => metric_list(metrics)?,
        None => Vec::new(),
    };
    let entities = std::slice::from_ref(&entity);
    // Boxed to keep the handler's future small: it is copied for each request.
    let mut counts = Box::pin(app.queries.counters(entities, &metrics, &trace_id)).await?;
    let counts = counts.pop().transpose()?.unwrap_or_default();
    Ok(Json(EntityCounts::new(entity, counts)))
}

/// The response with all counters of a hot entity.
pub fn cached_response(entity: Entity, cached: &CachedCounts) -> Response {
    let format = |counts| json::format(&EntityCounts::new(entity, counts));
    FormattedJson(cached.response(format)).into_response()
}

/// The entities and metrics of a batch.
// Lists are parsed item by item, so that no more than `http.max_batch` items are kept.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CounterBatchRequest<'a> {
    /// The entities.
    #[serde(borrow)]
    #[schema(value_type = Vec<Entity>)]
    items: &'a RawValue,
    /// The metrics. By default, all metrics of the schemas.
    #[serde(default, borrow, deserialize_with = "non_null")]
    #[schema(value_type = Vec<Name>)]
    metrics: Option<&'a RawValue>,
}

/// Deserializes an optional field that must not be null.
pub fn non_null<'de: 'a, 'a, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// The counters of a batch.
#[derive(Serialize, ToSchema)]
pub struct CounterBatchResponse {
    /// One item per entity, in the order of the request.
    items: Vec<EntityCountsResult>,
}

/// Retrieve the counters of many entities
///
/// Returns the counters of, for example, a page of a feed, in one round trip to each Redis node. Entities whose counters are all 0 are
/// checked for lost counters in a second one, at most once in `rebuild.zero_seconds`. The items are in the order of the request. An entity whose key is damaged has an `error`; the others are not affected.
#[utoipa::path(
    post,
    path = "/counter/batch",
    tag = "Counters",
    request_body(content = CounterBatchRequest, example = json!({ "items": [{ "etype": "note", "eid": "114327608932745216" }], "metrics": ["read", "like"] })),
    responses((status = 200, description = "The counters", body = CounterBatchResponse, example = json!({ "items": [{ "etype": "note", "eid": "114327608932745216", "counts": { "like": 1, "read": 0 } }] })), ErrorResponses)
)]
pub async fn counter_batch(
    State(app): State<App>,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    client: Client,
    JsonBytes(body): JsonBytes,
) -> Result<Json<CounterBatchResponse>, Problem> {
    let max = app.config.http.max_batch;
    let batch: CounterBatchRequest<'_> = parse_json(&body)?;
    let entities: Vec<Entity> = parse_list("items", batch.items, max)?;
    let metrics = match batch.metrics {
        Some(metrics) => to_strings(&parse_list("metrics", metrics, max)?),
        None => Vec::new(),
    };
    drop(body);
    client.acquire_rest(&app.limits, entities.len()).await?;
    let _items_permit = app.budget.reserve_items(entities.len()).await?;
    let counts = app.queries.counters(&entities, &metrics, &trace_id).await?;
    let items = entities.into_iter().zip(counts);
    let items = items
        .map(|(entity, counts)| EntityCountsResult::new(entity, counts))
        .collect();
    Ok(Json(CounterBatchResponse { items }))
}
