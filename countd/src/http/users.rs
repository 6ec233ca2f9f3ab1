//! Handlers of reads about users: statuses, and the users who performed a metric.

use super::app::App;
use super::auth::Caller;
use super::counters::non_null;
use super::errors::{ErrorResponses, FailedEntity};
use super::extract::{
    JsonBytes, PathParams, QueryParams, entity, metric_list, parse_json, to_strings,
};
use super::items::parse_list;
use super::rate_limit::Client;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::query::status::Status;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

/// Which metrics a user performed on an entity.
#[derive(Serialize, ToSchema)]
pub struct EntityStatus {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// For each metric, whether the user performed it.
    #[schema(value_type = BTreeMap<String, bool>, example = json!({ "fav": false, "like": true }))]
    status: Status,
}

impl EntityStatus {
    fn new(Entity { etype, eid }: Entity, status: Status) -> EntityStatus {
        EntityStatus { etype, eid, status }
    }
}

/// The status of an entity of a batch, or why it could not be read.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EntityStatusResult {
    /// The status.
    Status(EntityStatus),
    /// A key of the entity is damaged.
    Failed(FailedEntity),
}

impl EntityStatusResult {
    fn new(entity: Entity, status: Result<Status, Problem>) -> EntityStatusResult {
        match status {
            Ok(status) => EntityStatusResult::Status(EntityStatus::new(entity, status)),
            Err(problem) => EntityStatusResult::Failed(FailedEntity::new(entity, &problem)),
        }
    }
}

/// The query parameters of a status.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatusParams {
    /// The ID of the user.
    #[param(value_type = Id, example = "113984275610238976")]
    uid: String,
    /// A comma-separated list of *once* metrics. By default, all *once* metrics of the entity type.
    #[param(
        pattern = "^[A-Za-z][A-Za-z0-9_-]{0,31}(,[A-Za-z][A-Za-z0-9_-]{0,31})*$",
        example = "like,fav"
    )]
    metrics: Option<String>,
}

/// Retrieve a user's status on an entity
///
/// Returns, for each metric, whether the user performed it on the entity.
#[utoipa::path(
    get,
    path = "/status/{etype}/{eid}",
    tag = "Users",
    params(("etype" = Name, Path, description = "The entity type", example = "note"), ("eid" = Id, Path, description = "The ID of the entity", example = "114327608932745216"), StatusParams),
    responses((status = 200, description = "The status", body = EntityStatus, example = json!({ "etype": "note", "eid": "114327608932745216", "status": { "fav": false, "like": true } })), ErrorResponses)
)]
pub async fn status(
    State(app): State<App>,
    caller: Caller,
    PathParams((etype, eid)): PathParams<(String, String)>,
    QueryParams(params): QueryParams<StatusParams>,
) -> Result<Json<EntityStatus>, Problem> {
    let entity = entity(etype, eid)?;
    let uid = user_id(params.uid)?;
    caller.check_uid(&uid)?;
    let metrics = params.metrics.as_deref().map(metric_list).transpose()?;
    let entities = std::slice::from_ref(&entity);
    let of = (&uid, metrics.as_deref());
    let charge = |items| app.limits.users.acquire(&uid, items);
    let statuses = app.pages.statuses(entities, of, charge);
    let status = statuses.await?.pop().transpose()?;
    Ok(Json(EntityStatus::new(entity, status.unwrap_or_default())))
}

/// Validates the user in a parameter.
pub(super) fn user_id(text: String) -> Result<Id, Problem> {
    Id::new(text).map_err(|error| Problem::Invalid("uid".to_owned(), error))
}

/// Parses an optional list of names.
pub fn optional_names(raw: Option<&RawValue>, max: usize) -> Result<Option<Vec<String>>, Problem> {
    let names = |raw| parse_list("metrics", raw, max).map(|names| to_strings(&names));
    raw.map(names).transpose()
}

/// The user, entities and metrics of a batch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusBatchRequest<'a> {
    /// The ID of the user.
    uid: Id,
    /// The entities.
    #[serde(borrow)]
    #[schema(value_type = Vec<Entity>)]
    items: &'a RawValue,
    /// The *once* metrics, at least one. By default, all *once* metrics of each entity's type.
    #[serde(default, borrow, deserialize_with = "non_null")]
    #[schema(value_type = Vec<Name>, min_items = 1, example = json!(["like", "fav"]))]
    metrics: Option<&'a RawValue>,
}

/// The statuses of a batch.
#[derive(Serialize, ToSchema)]
pub struct StatusBatchResponse {
    /// One item per entity, in the order of the request.
    items: Vec<EntityStatusResult>,
}

/// Retrieve a user's status on many entities
///
/// Returns which metrics the user performed on, for example, each entity of a feed, in one round trip to each Redis node. The items are
/// in the order of the request. An entity with a damaged key has an `error`; the others are not affected.
#[utoipa::path(
    post,
    path = "/status/batch",
    tag = "Users",
    request_body(content = StatusBatchRequest, example = json!({ "uid": "113984275610238976", "items": [{ "etype": "note", "eid": "114327608932745216" }], "metrics": ["like"] })),
    responses((status = 200, description = "The statuses", body = StatusBatchResponse, example = json!({ "items": [{ "etype": "note", "eid": "114327608932745216", "status": { "like": true } }] })), ErrorResponses)
)]
pub async fn status_batch(
    State(app): State<App>,
    client: Client,
    caller: Caller,
    JsonBytes(body): JsonBytes,
) -> Result<Json<StatusBatchResponse>, Problem> {
    let max = app.config.http.max_batch;
    let StatusBatchRequest {
        uid,
        items,
        metrics,
    } = parse_json(&body)?;
    caller.check_uid(&uid)?;
    let entities: Vec<Entity> = parse_list("items", items, max)?;
    let metrics = optional_names(metrics, max)?;
    drop(body);
    client.acquire_rest(&app.limits, entities.len()).await?;
    // A batch above the burst is refused whether or not the prefilter answers it.
    app.limits.users.check_burst(entities.len())?;
    let _items_permit = app.budget.reserve_items(entities.len()).await?;
    let of = (&uid, metrics.as_deref());
    let charge = |items| app.limits.users.acquire(&uid, items);
    let statuses = app.pages.statuses(&entities, of, charge);
    let statuses = statuses.await?;
    let items = entities.into_iter().zip(statuses);
    let items = items
        .map(|(entity, status)| EntityStatusResult::new(entity, status))
        .collect();
    Ok(Json(StatusBatchResponse { items }))
}

/// The query parameters of a page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// The `cursor` of the previous page. By default, the first page is returned.
    #[param(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    cursor: Option<String>,
    /// The maximum number of items, 100 by default and at most `http.max_batch`.
    // The document adds the maximum.
    #[param(minimum = 1)]
    limit: Option<usize>,
}

/// The default of [`PageParams::limit`], unless `http.max_batch` is smaller.
const DEFAULT_LIMIT: usize = 100;

impl PageParams {
    /// Where the page begins.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The number of items, at most `max`.
    pub(super) fn limit(&self, max: usize) -> Result<usize, Problem> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT.min(max));
        match (1..=max).contains(&limit) {
            true => Ok(limit),
            false => Err(Problem::Malformed(format!("limit: must be 1 to {max}"))),
        }
    }
}

/// A page of users.
#[derive(Serialize, ToSchema)]
pub struct UserPage {
    /// The IDs of the users. With a metric that has `order = "time"`, and in followings, the latest users are first, the newest first. The
    /// others are in descending numeric order with the fact stores `rbm` (if the module is used) and `bitmap`, in no order otherwise.
    users: Vec<String>,
    /// The `cursor` of the next page; null on the last page.
    cursor: Option<String>,
}

impl UserPage {
    pub(super) fn new(users: Vec<String>, cursor: Option<String>) -> UserPage {
        UserPage { users, cursor }
    }
}

/// List the users who performed a metric on an entity
///
/// Returns one page. To list all users, repeat the request with the returned `cursor` until it is null.
#[utoipa::path(
    get,
    path = "/who/{metric}/{etype}/{eid}",
    tag = "Users",
    params(
        ("metric" = String, Path, description = "The name or an alias of a *once* metric", example = "like"),
        ("etype" = Name, Path, description = "The entity type", example = "note"),
        ("eid" = Id, Path, description = "The ID of the entity", example = "114327608932745216"),
        PageParams
    ),
    responses((status = 200, description = "A page of users", body = UserPage, example = json!({ "users": ["113984275610238976"], "cursor": null })), ErrorResponses)
)]
pub async fn who(
    State(app): State<App>,
    PathParams((metric, etype, eid)): PathParams<(String, String, String)>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<UserPage>, Problem> {
    let entity = entity(etype, eid)?;
    let limit = params.limit(app.config.http.max_batch)?;
    let page = app.queries.who(&metric, &entity, params.cursor(), limit);
    let page = page.await?;
    Ok(Json(UserPage::new(page.users, page.next)))
}
