//! Handler of `POST /feed`.

use super::app::App;
use super::auth::Caller;
use super::counters::non_null;
use super::errors::{ErrorResponses, FailedEntity};
use super::extract::{JsonBytes, parse_json};
use super::items::parse_list;
use super::json::Json;
use super::rate_limit::Client;
use super::telemetry::RequestTraceId;
use super::users::optional_names;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::query::counts::Counts;
use crate::query::status::Status;
use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// The user, entities and metrics of a feed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FeedRequest<'a> {
    /// The ID of the user who sees the feed.
    uid: Id,
    /// The entities.
    #[serde(borrow)]
    #[schema(value_type = Vec<Entity>)]
    items: &'a RawValue,
    /// The metrics. A *once* metric selects a status and, if the schema has it, a counter; a repeatable metric selects a counter. By
    /// default, all counters of the schemas and all *once* metrics of each entity's type.
    #[serde(default, borrow, deserialize_with = "non_null")]
    #[schema(value_type = Vec<Name>, min_items = 1)]
    metrics: Option<&'a RawValue>,
}

/// The counters of an entity and a user's status on it.
#[derive(Serialize, ToSchema)]
pub struct FeedEntity {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// The counters by metric.
    #[schema(value_type = BTreeMap<String, u64>, example = json!({ "like": 1, "read": 12 }))]
    counts: Counts,
    /// For each *once* metric, whether the user performed it.
    #[schema(value_type = BTreeMap<String, bool>, example = json!({ "fav": false, "like": true }))]
    status: Status,
}

/// An entity of a feed, or why it could not be read.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum FeedEntityResult {
    /// The counters and the status.
    Entity(FeedEntity),
    /// A key of the entity is damaged.
    Failed(FailedEntity),
}

/// A page of a feed.
#[derive(Serialize, ToSchema)]
pub struct FeedResponse {
    /// The ID of the user.
    #[schema(value_type = String, example = "113984275610238976")]
    uid: Id,
    /// One item per entity, in the order of the request.
    items: Vec<FeedEntityResult>,
}

/// Retrieve counters and statuses of a feed
///
/// Returns the counters of a page of entities and what a user did to them, in one round trip to each Redis node. Entities whose counters are
/// all 0 are checked for lost counters in a second one, at most once in `rebuild.zero_seconds`. The items are in the order of the request.
/// An entity with a damaged key has an `error`; the others are not affected.
#[utoipa::path(
    post,
    path = "/feed",
    tag = "Feeds",
    request_body(
        content = FeedRequest,
        example = json!({
            "uid": "113984275610238976",
            "items": [{ "etype": "note", "eid": "114327608932745216" }],
            "metrics": ["read", "like", "fav"]
        })
    ),
    responses(
        (
            status = 200,
            description = "The counters and statuses",
            body = FeedResponse,
            example = json!({
                "uid": "113984275610238976",
                "items": [{
                    "etype": "note", "eid": "114327608932745216",
                    "counts": { "fav": 0, "like": 1, "read": 0 },
                    "status": { "fav": false, "like": true }
                }]
            })
        ),
        ErrorResponses
    )
)]
pub async fn feed(
    State(app): State<App>,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    client: Client,
    caller: Caller,
    JsonBytes(body): JsonBytes,
) -> Result<Json<FeedResponse>, Problem> {
    let max = app.config.http.max_batch;
    let request: FeedRequest<'_> = parse_json(&body)?;
    let entities: Vec<Entity> = parse_list("items", request.items, max)?;
    let metrics = optional_names(request.metrics, max)?;
    if metrics.as_ref().is_some_and(Vec::is_empty) {
        let problem = "metrics: at least one is required".to_owned();
        return Err(Problem::Malformed(problem));
    }
    let uid = request.uid;
    caller.check_uid(&uid)?;
    drop(body);
    client.acquire_rest(&app.limits, entities.len()).await?;
    app.limits
        .users
        .acquire(&uid, entities.len().max(1))
        .await?;
    let _items_permit = app.budget.reserve_items(entities.len()).await?;
    let metrics = metrics.as_deref();
    let items = app.pages.feed(&entities, &uid, metrics, &trace_id).await?;
    let items = entities.into_iter().zip(items);
    let items = items.map(|(entity, item)| match item {
        Ok((counts, status)) => {
            let Entity { etype, eid } = entity;
            FeedEntityResult::Entity(FeedEntity {
                etype,
                eid,
                counts,
                status,
            })
        }
        Err(problem) => FeedEntityResult::Failed(FailedEntity::new(entity, &problem)),
    });
    Ok(Json(FeedResponse {
        uid,
        items: items.collect(),
    }))
}
