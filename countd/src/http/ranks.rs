//! Handler of rankings.

use super::app::App;
use super::errors::ErrorResponses;
use super::extract::{PathParams, QueryParams};
use super::json::Json;
use crate::domain::day::with_dashes;
use crate::domain::error::Problem;
use crate::domain::ids::{Id, Name};
use crate::query::ranks::RankedEntity;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use utoipa::{IntoParams, ToSchema};

/// The number of entities of a page, unless `http.max_batch` is smaller.
const DEFAULT_LIMIT: usize = 100;
/// Integers up to this one have a form without a fraction.
const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;

/// The query parameters of a ranking.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RankParams {
    /// The entity type.
    #[param(example = "note")]
    etype: Name,
    /// The `cursor` of the previous page. By default, the first page is returned.
    #[param(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    cursor: Option<String>,
    /// The maximum number of entities, 100 by default and at most `http.max_batch`.
    // The document adds the maximum.
    #[param(minimum = 1)]
    limit: Option<usize>,
}

/// An entity of a ranking.
#[derive(Serialize, ToSchema)]
pub struct RankItem {
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// The sum of the weighted counts. It is above 0.
    #[schema(value_type = f64, example = 17)]
    score: Number,
}

/// A page of a ranking.
#[derive(Serialize, ToSchema)]
pub struct RankResponse {
    /// The name of the ranking.
    #[schema(example = "hot")]
    ranking: String,
    /// The entity type.
    etype: Name,
    /// The last day whose counts are in the scores: today, or yesterday shortly after midnight.
    #[schema(example = "2026-12-31")]
    day: String,
    /// Whether no entity is missing. If it is false, entities after those of the last page are missing for a moment.
    complete: bool,
    /// The entities, in descending order of their scores.
    items: Vec<RankItem>,
    /// The `cursor` of the next page; null on the last page.
    cursor: Option<String>,
}

/// The score as a JSON number: without a fraction if it is an integer.
fn number(score: f64) -> Number {
    if score.fract() == 0.0 && score.abs() <= MAX_INTEGER {
        return Number::from(score as i64);
    }
    Number::from_f64(score).unwrap_or_else(|| Number::from(0))
}

/// List the first entities of a ranking
///
/// Returns one page of the entities of a type with the highest scores: the sums of their counts of the last days, weighted as `[rank]`
/// configures. To list all, repeat the request with the returned `cursor` until it is null: all pages are of the same day. Entities whose
/// scores change between pages may be on two pages or on none. A process may answer from entities that it read up to `rank.cache_ms`
/// before.
#[utoipa::path(
    get,
    path = "/rank/{name}",
    tag = "Counters",
    params(("name" = String, Path, description = "The name of a ranking", example = "hot"), RankParams),
    responses((status = 200, description = "A page of entities", body = RankResponse, example = json!({ "ranking": "hot", "etype": "note", "day": "2026-12-31", "complete": true, "items": [{ "eid": "114327608932745216", "score": 17 }], "cursor": null })), ErrorResponses)
)]
pub async fn rank(
    State(app): State<App>,
    PathParams((name,)): PathParams<(String,)>,
    QueryParams(params): QueryParams<RankParams>,
) -> Result<Json<RankResponse>, Problem> {
    let max = app.config.http.max_batch;
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT.min(max));
    if !(1..=max).contains(&limit) {
        return Err(Problem::Malformed(format!("limit: must be 1 to {max}")));
    }
    let of = (name.as_str(), &params.etype);
    let page = app.ranks.page(of, params.cursor.as_deref(), limit).await?;
    let items = page.entities.into_iter();
    let items = items.map(|RankedEntity { eid, score }| RankItem {
        eid,
        score: number(score),
    });
    Ok(Json(RankResponse {
        items: items.collect(),
        ranking: name,
        etype: params.etype,
        day: with_dashes(page.date),
        complete: page.is_complete,
        cursor: page.next,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integral_scores_have_no_fraction() {
        assert_eq!(number(17.0).to_string(), "17");
        assert_eq!(number(0.5).to_string(), "0.5");
    }
}
