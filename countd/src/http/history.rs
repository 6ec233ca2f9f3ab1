//! Handlers of counts by day.

use super::app::App;
use super::errors::{ErrorResponses, FailedEntity};
use super::extract::{JsonBytes, PathParams, QueryParams, entity, parse_json};
use super::items::parse_list;
use super::json::Json;
use super::rate_limit::Client;
use crate::domain::config::Config;
use crate::domain::day::{civil, parse, with_dashes};
use crate::domain::error::Problem;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Id, Name};
use crate::query::history::{DayRange, Unit};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

/// The maximum number of days of a history.
const MAX_DAYS: u64 = 366;
/// The maximum number of days of a history by month: ten years.
const MAX_MONTH_DAYS: u64 = 3_660;
/// The maximum number of days of the histories of a batch.
const MAX_BATCH_DAYS: u64 = 92;
/// The number of days, by default.
const DEFAULT_DAYS: u64 = 30;

/// The unit of a history.
#[derive(Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HistoryUnit {
    /// Days.
    #[default]
    Day,
    /// Months.
    Month,
}

/// The query parameters of a history.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryParams {
    /// The first day. By default, 29 days before the last one.
    #[param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2024-02-28")]
    from: Option<String>,
    /// The last day. By default, today.
    #[param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2024-03-01")]
    to: Option<String>,
    /// The unit: at most 366 days, or 3660 days by month.
    #[param(inline, example = "day")]
    by: Option<HistoryUnit>,
}

/// The count of a day or a month.
#[derive(Serialize, ToSchema)]
pub struct HistoryItem {
    /// The day, such as `2026-12-31`, or the month, such as `2026-12`.
    #[schema(example = "2026-12-31")]
    date: String,
    /// The count. It is negative if more was taken back than added.
    count: i64,
}

/// The counts of an entity by day or month.
#[derive(Serialize, ToSchema)]
pub struct EntityHistory {
    /// The metric.
    metric: String,
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// The first day.
    #[schema(example = "2024-02-28")]
    from: String,
    /// The last day.
    #[schema(example = "2024-03-01")]
    to: String,
    /// The unit.
    by: HistoryUnit,
    /// The count of each unit. Months at the ends of the range have only the days of the range.
    items: Vec<HistoryItem>,
    /// What was counted before the first day, and what belongs to no day.
    before: i64,
}

/// Parses a date of a request.
fn day_of(field: &str, text: &str) -> Result<u64, Problem> {
    // Only this form: digits without dashes are for keys.
    let day = parse(text).filter(|_| text.len() == "2026-12-31".len());
    day.ok_or_else(|| Problem::Malformed(format!("{field}: must be a date such as 2026-12-31")))
}

/// The range of a request.
fn range(
    config: &Config,
    (from, to): (Option<&str>, Option<&str>),
    max: u64,
) -> Result<DayRange, Problem> {
    let to = match to {
        Some(text) => day_of("to", text)?,
        None => config.days.calendar().day_of(now_ms()),
    };
    let from = match from {
        Some(text) => day_of("from", text)?,
        None => (to + 1).saturating_sub(DEFAULT_DAYS),
    };
    if from > to {
        let problem = "from: must not be after to";
        return Err(Problem::Unprocessable(problem.to_owned()));
    }
    let range = DayRange { from, to };
    if range.days() > max {
        let problem = format!("from, to: at most {max} days");
        return Err(Problem::Unprocessable(problem));
    }
    Ok(range)
}

/// Formats a date (20261231) or a month (202612).
fn format_unit(unit: Unit, number: u64) -> String {
    match unit {
        Unit::Day => with_dashes(number),
        Unit::Month => format!("{:04}-{:02}", number / 100, number % 100),
    }
}

/// Retrieve the counts of an entity by day
///
/// Returns the count of each day or month of a range, for a metric with `daily = true`. Days without events have 0. An event counts in the day
/// of its own time, by the setting `days.utc_offset`.
#[utoipa::path(
    get,
    path = "/history/{metric}/{etype}/{eid}",
    tag = "Counters",
    params(
        ("metric" = String, Path, description = "The name or an alias of a metric", example = "read"),
        ("etype" = Name, Path, description = "The entity type", example = "note"),
        ("eid" = Id, Path, description = "The ID of the entity", example = "114327608932745216"),
        HistoryParams
    ),
    responses((status = 200, description = "The counts", body = EntityHistory, example = json!({ "metric": "read", "etype": "note", "eid": "114327608932745216", "from": "2024-02-28", "to": "2024-03-01", "by": "day", "items": [{ "date": "2024-02-28", "count": 0 }, { "date": "2024-02-29", "count": 0 }, { "date": "2024-03-01", "count": 0 }], "before": 0 })), ErrorResponses)
)]
pub async fn history(
    State(app): State<App>,
    PathParams((metric, etype, eid)): PathParams<(String, String, String)>,
    QueryParams(params): QueryParams<HistoryParams>,
) -> Result<Json<EntityHistory>, Problem> {
    let Entity { etype, eid } = entity(etype, eid)?;
    let by = params.by.unwrap_or_default();
    let (unit, max) = match by {
        HistoryUnit::Day => (Unit::Day, MAX_DAYS),
        HistoryUnit::Month => (Unit::Month, MAX_MONTH_DAYS),
    };
    let days = (params.from.as_deref(), params.to.as_deref());
    let range = range(&app.config, days, max)?;
    let entity = Entity { etype, eid };
    let history = app.queries.history(&metric, &entity, range, unit).await?;
    let items = history.items.into_iter();
    Ok(Json(EntityHistory {
        metric: app.config.metrics.resolve(&metric).to_owned(),
        etype: entity.etype,
        eid: entity.eid,
        from: with_dashes(civil(range.from)),
        to: with_dashes(civil(range.to)),
        by,
        items: items
            .map(|(number, count)| HistoryItem {
                date: format_unit(unit, number),
                count,
            })
            .collect(),
        before: history.before,
    }))
}

/// The entities, the metric and the range of a batch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryBatchRequest<'a> {
    /// The name or an alias of a metric.
    #[schema(example = "read")]
    metric: String,
    /// The entities.
    #[serde(borrow)]
    #[schema(value_type = Vec<Entity>)]
    items: &'a RawValue,
    /// The first day. By default, 29 days before the last one.
    #[serde(default)]
    #[schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2024-02-28")]
    from: Option<String>,
    /// The last day, at most 92 days in all. By default, today.
    #[serde(default)]
    #[schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2024-03-01")]
    to: Option<String>,
}

/// The counts of an entity of a batch.
#[derive(Serialize, ToSchema)]
pub struct DayCounts {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// The count of each day of the range.
    counts: Vec<i64>,
}

/// The counts of an entity of a batch, or why they could not be read.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum DayCountsResult {
    /// The counts.
    Counts(DayCounts),
    /// The entity's key is damaged.
    Failed(FailedEntity),
}

/// The counts of a batch.
#[derive(Serialize, ToSchema)]
pub struct HistoryBatchResponse {
    /// The first day.
    #[schema(example = "2024-02-28")]
    from: String,
    /// The last day.
    #[schema(example = "2024-03-01")]
    to: String,
    /// One item per entity, in the order of the request.
    items: Vec<DayCountsResult>,
}

/// Retrieve the counts of many entities by day
///
/// Returns the counts of each day of a range, for example for the sparklines of a page, in one round trip to each Redis node. The items are in
/// the order of the request. An entity whose key is damaged has an `error`; the others are not affected.
#[utoipa::path(
    post,
    path = "/history/batch",
    tag = "Counters",
    request_body(content = HistoryBatchRequest, example = json!({ "metric": "read", "items": [{ "etype": "note", "eid": "114327608932745216" }], "from": "2024-02-28", "to": "2024-03-01" })),
    responses((status = 200, description = "The counts", body = HistoryBatchResponse, example = json!({ "from": "2024-02-28", "to": "2024-03-01", "items": [{ "etype": "note", "eid": "114327608932745216", "counts": [0, 0, 0] }] })), ErrorResponses)
)]
pub async fn history_batch(
    State(app): State<App>,
    client: Client,
    JsonBytes(body): JsonBytes,
) -> Result<Json<HistoryBatchResponse>, Problem> {
    let batch: HistoryBatchRequest<'_> = parse_json(&body)?;
    let entities: Vec<Entity> = parse_list("items", batch.items, app.config.http.max_batch)?;
    let days = (batch.from.as_deref(), batch.to.as_deref());
    let range = range(&app.config, days, MAX_BATCH_DAYS)?;
    let metric = batch.metric;
    client.acquire_rest(&app.limits, entities.len()).await?;
    let _items_permit = app.budget.reserve_items(entities.len()).await?;
    let counts = app.queries.histories(&metric, &entities, range).await?;
    let items = entities.into_iter().zip(counts);
    let item = |(entity, counts): (Entity, Result<Vec<i64>, Problem>)| match counts {
        Ok(counts) => DayCountsResult::Counts(DayCounts {
            etype: entity.etype,
            eid: entity.eid,
            counts,
        }),
        Err(problem) => DayCountsResult::Failed(FailedEntity::new(entity, &problem)),
    };
    Ok(Json(HistoryBatchResponse {
        from: with_dashes(civil(range.from)),
        to: with_dashes(civil(range.to)),
        items: items.map(item).collect(),
    }))
}
