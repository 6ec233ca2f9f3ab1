//! Actions over HTTP.

use super::budget::Raw;
use super::errors::{ErrorBody, ErrorResponses};
use super::extract::{Body, PathOf, json};
use super::items::{Items, lines};
use super::limits::Client;
use super::{App, TraceId};
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::ingest::actions::{Action, ActionOutcome, PreparedAction};
use crate::ingest::limits::RateLimits;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Do something to an entity, or take it back.
///
/// `metric` is a name or an alias of the configuration, or of a metric that a user has at most once one of those with `un` before
/// it, which takes the action back: `like`, `unlike`, `follow`, `unfollow`. Such a metric may be sent again at will. A repeatable
/// one counts again, unless it has the same `idempotencyKey`, and is taken back with `op`.
#[utoipa::path(
    post,
    path = "/action/{metric}",
    params(("metric" = String, Path, description = "The metric", example = "like")),
    request_body = Action,
    responses((status = 200, description = "Done, now or before", body = ActionOutcome), ErrorResponses)
)]
pub async fn action(
    State(app): State<App>,
    Extension(TraceId(trace)): Extension<TraceId>,
    PathOf(metric): PathOf<String>,
    Body(action): Body<Action>,
) -> Result<Json<ActionOutcome>, Problem> {
    if action.metric.is_some() {
        return Err(Problem::Unfit(
            "metric: the path says it already".to_owned(),
        ));
    }
    let prepared = app.actions.prepare(&metric, &action, &trace).await?;
    app.limits.users.take(&action.uid, 1).await?;
    let done = app.actions.execute(&prepared).await?;
    count_actions(std::iter::once(&done));
    Ok(Json(done))
}

/// Many actions, one on each line.
///
/// The body is NDJSON: on each line an action with its `metric`. They are done in this order, in one round trip to the store. The
/// answer has one line for each, in the same order: what `/action/{metric}` would have answered, a `ErrorBody` included.
#[utoipa::path(
    post,
    path = "/actions",
    request_body(content = Lines<Action>, content_type = "application/x-ndjson"),
    responses((status = 200, description = "One result a line", body = String, content_type = "application/x-ndjson"), ErrorResponses)
)]
pub async fn actions(
    State(app): State<App>,
    Extension(TraceId(trace)): Extension<TraceId>,
    client: Client,
    body: Raw,
) -> Result<Response, Problem> {
    let lines = lines(&body)?;
    let count = Items::Lines(lines.clone()).count(app.config.http.max_actions)?;
    client.pay(&app.limits, count)?;
    let _share = app.budget.share(count).await?;
    let mut prepared = Vec::with_capacity(count);
    let mut results: Vec<Option<Problem>> = Vec::with_capacity(count);
    for line in lines {
        let result = match json::<Action>(line) {
            Ok(action) => match &action.metric {
                Some(metric) => {
                    let prepared = app.actions.prepare(metric.as_str(), &action, &trace).await;
                    prepared.map(|prepared| (action.uid, prepared))
                }
                None => Err(Problem::Malformed("metric: missing".to_owned())),
            },
            Err(problem) => Err(problem),
        };
        match result {
            Ok(action) => {
                prepared.push(action);
                results.push(None);
            }
            Err(problem) => results.push(Some(problem)),
        }
    }
    let prepared = within_limits(&app.limits, prepared, &mut results).await;
    let done = app.actions.execute_all(prepared).await;
    count_actions(done.iter().flatten());
    let mut done = done.into_iter();
    let mut answer = Vec::with_capacity(results.len() * 32);
    for result in results {
        let result = match result {
            Some(problem) => Some(Err(problem)),
            None => done.next(),
        };
        match result {
            Some(Ok(done)) => write_line(&mut answer, &done),
            Some(Err(problem)) => write_line(&mut answer, &ErrorBody::of(&problem)),
            None => {}
        }
    }
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], answer).into_response())
}

/// Leaves out what users may not do any more; `results` has a place for each action that has no problem yet.
async fn within_limits(
    limits: &RateLimits,
    prepared: Vec<(Id, PreparedAction)>,
    results: &mut [Option<Problem>],
) -> Vec<PreparedAction> {
    let users: Vec<&Id> = prepared.iter().map(|(uid, _)| uid).collect();
    let refused = limits.users.take_each(&users).await;
    let places = results.iter_mut().filter(|result| result.is_none());
    let mut kept = Vec::with_capacity(prepared.len());
    for (((_, prepared), refused), place) in prepared.into_iter().zip(refused).zip(places) {
        match refused {
            Some(problem) => *place = Some(problem),
            None => kept.push(prepared),
        }
    }
    kept
}

/// NDJSON: at least one line, and on each an item.
#[derive(ToSchema)]
#[schema(min_items = 1)]
#[allow(dead_code, reason = "it describes; bodies are read line by line")]
pub struct Lines<T: ToSchema>(Vec<T>);

fn write_line(answer: &mut Vec<u8>, value: &impl Serialize) {
    // Texts and numbers into memory: neither can fail.
    let _ = serde_json::to_writer(&mut *answer, value);
    answer.push(b'\n');
}

fn count_actions<'a>(done: impl Iterator<Item = &'a ActionOutcome>) {
    let (mut changed, mut duplicate) = (0, 0);
    for done in done {
        *(if done.changed {
            &mut changed
        } else {
            &mut duplicate
        }) += 1;
    }
    metrics::counter!("countd_events_appended_total").increment(changed);
    metrics::counter!("countd_actions_duplicated_total").increment(duplicate);
}

/// A counter to set to 0.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// The type of the entity.
    etype: Name,
    /// Its id.
    eid: Id,
    /// The metric; a repeatable one.
    #[schema(example = "read")]
    metric: Name,
}

/// What a counter was.
#[derive(Serialize, ToSchema)]
pub struct Was {
    /// Its value before.
    was: u64,
}

/// Set a counter to 0 and get what it was: unread messages that are read now.
#[utoipa::path(
    post,
    path = "/counter/reset",
    request_body = Reset,
    responses((status = 200, description = "It is 0 now", body = Was), ErrorResponses)
)]
pub async fn reset(State(app): State<App>, Body(reset): Body<Reset>) -> Result<Json<Was>, Problem> {
    let entity = Entity {
        etype: reset.etype,
        eid: reset.eid,
    };
    let was = app.actions.reset(reset.metric.as_str(), &entity).await?;
    Ok(Json(Was { was }))
}
