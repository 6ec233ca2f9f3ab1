//! Handler of hot entities.

use super::app::App;
use super::auth::Caller;
use super::errors::ErrorResponses;
use super::extract::QueryParams;
use super::json::Json;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Id, Name};
use crate::redis::layout::StoredLayout;
use crate::storage::hot::HotEntity;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The number of entities of a response, unless `http.max_batch` is smaller.
const DEFAULT_LIMIT: usize = 100;

/// The query parameters of hot entities.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HotParams {
    /// The maximum number of entities, 100 by default and at most `http.max_batch`.
    // The document adds the maximum.
    #[param(minimum = 1)]
    limit: Option<usize>,
}

/// A hot entity.
#[derive(Serialize, ToSchema)]
pub struct HotItem {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// Requests per second: reads and writes.
    #[schema(example = 1312.5)]
    rate: f64,
    /// Reads per second.
    #[schema(example = 1250.0)]
    reads: f64,
    /// Writes per second.
    #[schema(example = 62.5)]
    writes: f64,
    /// The number of shards, if the entity is split; 1 if it is whole.
    #[schema(example = 1)]
    shards: u16,
}

impl HotItem {
    fn new(hot: HotEntity, layout: &StoredLayout) -> HotItem {
        HotItem {
            shards: layout.split_of(&hot.entity).map_or(1, |state| state.shards),
            rate: rounded(hot.rate()),
            reads: rounded(hot.reads),
            writes: rounded(hot.writes),
            etype: hot.entity.etype,
            eid: hot.entity.eid,
        }
    }
}

/// A rate with one decimal.
fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

/// The hot entities.
#[derive(Serialize, ToSchema)]
pub struct HotResponse {
    /// The entities, in descending order of their rates.
    items: Vec<HotItem>,
}

/// List hot entities
///
/// Returns the entities with at least `hot.min_rate` requests per second in the last minute, over all processes. The rates are estimates from
/// a sample of the requests. A request counts for each of its entities: a read of counters or a status, an action, an envelope, a page of users
/// of an entity. Processes report once a second, each at most `hot.max_entities` entities. The report of a process that has ended counts for
/// up to 10 seconds.
#[utoipa::path(
    get,
    path = "/hot",
    tag = "Operations",
    params(HotParams),
    responses((status = 200, description = "The hot entities", body = HotResponse, example = json!({ "items": [{ "etype": "note", "eid": "114327608932745216", "rate": 1312.5, "reads": 1250.0, "writes": 62.5, "shards": 1 }] })), ErrorResponses)
)]
pub async fn hot(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<HotParams>,
) -> Result<Json<HotResponse>, Problem> {
    caller.check_service()?;
    let max = app.config.http.max_batch;
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT.min(max));
    if !(1..=max).contains(&limit) {
        return Err(Problem::Malformed(format!("limit: must be 1 to {max}")));
    }
    let hottest = app.hot.hottest(&app.store).await;
    let hottest = hottest.map_err(StoreError::from)?.into_iter();
    let layout = app.store.layout();
    let items = hottest.take(limit).map(|hot| HotItem::new(hot, &layout));
    let items = items.collect();
    Ok(Json(HotResponse { items }))
}
