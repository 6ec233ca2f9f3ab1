//! Questions over HTTP.

use super::App;
use super::budget::Raw;
use super::errors::ErrorResponses;
use super::extract::{Params, PathOf, entity, json, list};
use super::items;
use super::limits::Client;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::query::reads::Counts;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// An entity's counters.
#[derive(Serialize, ToSchema)]
pub struct CounterValue {
    /// Its type.
    etype: Name,
    /// Its id.
    eid: Id,
    /// Its counters by name.
    #[schema(value_type = BTreeMap<String, u64>)]
    counts: Counts,
}

impl CounterValue {
    fn of(Entity { etype, eid }: Entity, counts: Counts) -> CounterValue {
        CounterValue { etype, eid, counts }
    }
}

/// Which counters.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MetricValues {
    /// Names with commas between them; all that the schema has if it is missing.
    #[param(
        pattern = "^[A-Za-z][A-Za-z0-9_-]{0,31}(,[A-Za-z][A-Za-z0-9_-]{0,31})*$",
        example = "read,like"
    )]
    metrics: Option<String>,
}

/// The counters of an entity. Those that nobody counted yet are 0.
#[utoipa::path(
    get,
    path = "/counter/{etype}/{eid}",
    params(("etype" = Name, Path), ("eid" = Id, Path), MetricValues),
    responses((status = 200, description = "The counters", body = CounterValue), ErrorResponses)
)]
pub async fn counter(
    State(app): State<App>,
    PathOf((etype, eid)): PathOf<(String, String)>,
    Params(params): Params<MetricValues>,
) -> Result<Json<CounterValue>, Problem> {
    let entity = entity(etype, eid)?;
    let metrics = match &params.metrics {
        Some(metrics) => list(metrics)?,
        None => Vec::new(),
    };
    let mut found = app
        .queries
        .counters(std::slice::from_ref(&entity), &metrics)
        .await?;
    let counts = found.pop().unwrap_or_default();
    Ok(Json(CounterValue::of(entity, counts)))
}

/// Entities and metrics. The lists of batches are read when the rest has been, up to `http.max_batch` items.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CounterBatch<'a> {
    /// The entities.
    #[serde(borrow)]
    #[schema(value_type = Vec<Entity>)]
    items: &'a RawValue,
    /// The metrics; all that the schemas have if there are none.
    #[serde(default, borrow, deserialize_with = "present")]
    #[schema(value_type = Vec<Name>)]
    metrics: Option<&'a RawValue>,
}

/// What is there is no null.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// CounterValues, in the order of the request.
#[derive(Serialize, ToSchema)]
pub struct CounterValues {
    /// One for each entity.
    items: Vec<CounterValue>,
}

/// The counters of many entities: a page of a feed.
#[utoipa::path(
    post,
    path = "/counter/batch",
    request_body = CounterBatch,
    responses((status = 200, description = "The counters", body = CounterValues), ErrorResponses)
)]
pub async fn counter_batch(
    State(app): State<App>,
    client: Client,
    body: Raw,
) -> Result<Json<CounterValues>, Problem> {
    let max = app.config.http.max_batch;
    let batch: CounterBatch<'_> = json(&body)?;
    let entities: Vec<Entity> = items::list("items", batch.items, max)?;
    let metrics = match batch.metrics {
        Some(metrics) => words(&items::list("metrics", metrics, max)?),
        None => Vec::new(),
    };
    drop(body);
    client.pay(&app.limits, entities.len())?;
    let _share = app.budget.share(entities.len()).await?;
    let found = app.queries.counters(&entities, &metrics).await?;
    let items = entities.into_iter().zip(found);
    let items = items
        .map(|(entity, counts)| CounterValue::of(entity, counts))
        .collect();
    Ok(Json(CounterValues { items }))
}

/// What a user did to an entity.
#[derive(Serialize, ToSchema)]
pub struct Status {
    /// The type of the entity.
    etype: Name,
    /// Its id.
    eid: Id,
    /// By metric.
    status: BTreeMap<String, bool>,
}

impl Status {
    fn of(Entity { etype, eid }: Entity, status: BTreeMap<String, bool>) -> Status {
        Status { etype, eid, status }
    }
}

/// Whom and what to ask about.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatusParams {
    /// The user.
    #[param(value_type = Id)]
    uid: String,
    /// Names with commas between them, at least one.
    #[param(
        pattern = "^[A-Za-z][A-Za-z0-9_-]{0,31}(,[A-Za-z][A-Za-z0-9_-]{0,31})*$",
        example = "like,fav"
    )]
    metrics: String,
}

/// Whether a user did something to an entity.
#[utoipa::path(
    get,
    path = "/status/{etype}/{eid}",
    params(("etype" = Name, Path), ("eid" = Id, Path), StatusParams),
    responses((status = 200, description = "Whether he did", body = Status), ErrorResponses)
)]
pub async fn status(
    State(app): State<App>,
    PathOf((etype, eid)): PathOf<(String, String)>,
    Params(params): Params<StatusParams>,
) -> Result<Json<Status>, Problem> {
    let entity = entity(etype, eid)?;
    let uid = uid(params.uid)?;
    app.limits.users.take(&uid, 1).await?;
    let metrics = list(&params.metrics)?;
    let mut found = app
        .queries
        .statuses(std::slice::from_ref(&entity), &uid, &metrics)
        .await?;
    let status = found.pop().unwrap_or_default();
    Ok(Json(Status::of(entity, status)))
}

fn uid(text: String) -> Result<Id, Problem> {
    Id::new(text).map_err(|why| Problem::Invalid("uid".to_owned(), why))
}

fn words(names: &[Name]) -> Vec<String> {
    names.iter().map(Name::to_string).collect()
}

/// A user, entities and metrics.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusBatch<'a> {
    /// The user.
    uid: Id,
    /// The entities.
    #[serde(borrow)]
    #[schema(value_type = Vec<Entity>)]
    items: &'a RawValue,
    /// The metrics, at least one.
    #[serde(borrow)]
    #[schema(value_type = Vec<Name>, min_items = 1, example = json!(["like", "fav"]))]
    metrics: &'a RawValue,
}

/// Statuses, in the order of the request.
#[derive(Serialize, ToSchema)]
pub struct Statuses {
    /// One for each entity.
    items: Vec<Status>,
}

/// Whether a user did something to each of many entities: the hearts of a feed.
#[utoipa::path(
    post,
    path = "/status/batch",
    request_body = StatusBatch,
    responses((status = 200, description = "Whether he did", body = Statuses), ErrorResponses)
)]
pub async fn status_batch(
    State(app): State<App>,
    client: Client,
    body: Raw,
) -> Result<Json<Statuses>, Problem> {
    let max = app.config.http.max_batch;
    let StatusBatch {
        uid,
        items,
        metrics,
    } = json(&body)?;
    let entities: Vec<Entity> = items::list("items", items, max)?;
    let metrics = words(&items::list("metrics", metrics, max)?);
    drop(body);
    client.pay(&app.limits, entities.len())?;
    app.limits.users.take(&uid, entities.len().max(1)).await?;
    let _share = app.budget.share(entities.len()).await?;
    let found = app.queries.statuses(&entities, &uid, &metrics).await?;
    let items = entities.into_iter().zip(found);
    let items = items
        .map(|(entity, status)| Status::of(entity, status))
        .collect();
    Ok(Json(Statuses { items }))
}

/// A user's counters.
#[derive(Serialize, ToSchema)]
pub struct Relation {
    /// Whose.
    uid: Id,
    /// `followings`, `followers`, `posts`, `likesReceived` and `favsReceived`.
    #[schema(value_type = BTreeMap<String, u64>)]
    counts: Counts,
}

/// A user.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct User {
    /// His id.
    #[param(value_type = Id)]
    uid: String,
}

/// A user's counters.
#[utoipa::path(
    get,
    path = "/relation/counter",
    params(User),
    responses((status = 200, description = "The counters", body = Relation), ErrorResponses)
)]
pub async fn relation(
    State(app): State<App>,
    Params(user): Params<User>,
) -> Result<Json<Relation>, Problem> {
    let uid = uid(user.uid)?;
    let mut found = app
        .queries
        .user_counters(std::slice::from_ref(&uid))
        .await?;
    let counts = found.pop().unwrap_or_default();
    Ok(Json(Relation { uid, counts }))
}

/// UserPage.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RelationBatch<'a> {
    /// Their ids.
    #[serde(borrow)]
    #[schema(value_type = Vec<Id>)]
    uids: &'a RawValue,
}

/// UserPage' counters, in the order of the request.
#[derive(Serialize, ToSchema)]
pub struct Relations {
    /// One for each user.
    items: Vec<Relation>,
}

/// The counters of many users.
#[utoipa::path(
    post,
    path = "/relation/counter/batch",
    request_body = RelationBatch,
    responses((status = 200, description = "The counters", body = Relations), ErrorResponses)
)]
pub async fn relation_batch(
    State(app): State<App>,
    client: Client,
    body: Raw,
) -> Result<Json<Relations>, Problem> {
    let batch: RelationBatch<'_> = json(&body)?;
    let uids: Vec<Id> = items::list("uids", batch.uids, app.config.http.max_batch)?;
    drop(body);
    client.pay(&app.limits, uids.len())?;
    let _share = app.budget.share(uids.len()).await?;
    let found = app.queries.user_counters(&uids).await?;
    let items = uids.into_iter().zip(found);
    let items = items
        .map(|(uid, counts)| Relation { uid, counts })
        .collect();
    Ok(Json(Relations { items }))
}

/// A page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageParams {
    /// Where the page before ended; the first page without it.
    #[param(pattern = "^[A-Za-z0-9_.-]{1,96}$")]
    cursor: Option<String>,
    /// How many users at most, 100 if it is missing.
    #[param(minimum = 1, maximum = 18_446_744_073_709_551_615_u64)]
    limit: Option<usize>,
}

/// UserPage, and where the next page begins.
#[derive(Serialize, ToSchema)]
pub struct UserPage {
    /// Their ids: the greatest first where the metric keeps facts as numbers, else in no order.
    users: Vec<String>,
    /// The `cursor` of the next page; null at the end.
    cursor: Option<String>,
}

/// ClientKey did something to an entity, page by page, until there is no `cursor`.
#[utoipa::path(
    get,
    path = "/who/{metric}/{etype}/{eid}",
    params(("metric" = String, Path, description = "A metric, or an alias of one", example = "like"), ("etype" = Name, Path), ("eid" = Id, Path), PageParams),
    responses((status = 200, description = "A page", body = UserPage), ErrorResponses)
)]
pub async fn who(
    State(app): State<App>,
    PathOf((metric, etype, eid)): PathOf<(String, String, String)>,
    Params(page): Params<PageParams>,
) -> Result<Json<UserPage>, Problem> {
    let entity = entity(etype, eid)?;
    let limit = page.limit.unwrap_or(100);
    if limit == 0 {
        return Err(Problem::Malformed("limit: at least 1".to_owned()));
    }
    let page = app
        .queries
        .who(&metric, &entity, page.cursor.as_deref(), limit)
        .await?;
    Ok(Json(UserPage {
        users: page.users,
        cursor: page.next,
    }))
}
