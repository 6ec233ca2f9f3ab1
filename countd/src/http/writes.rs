//! Handlers of actions and counter resets.

use super::app::App;
use super::auth::Caller;
use super::budget::RequestBody;
use super::errors::{ErrorResponses, FailedItem, ItemError};
use super::extract::{JsonBody, PathParams, parse_json};
use super::idempotency::{IdempotencyKey, respond};
use super::items::{Items, Ndjson, ndjson_lines};
use super::rate_limit::Client;
use super::telemetry::RequestTraceId;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::ingest::actions::{Action, ActionOutcome, PreparedAction};
use crate::ingest::limits::RateLimits;
use axum::Extension;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Perform an action
///
/// Performs a metric on an entity for a user, or undoes it. `metric` is the name or an alias of a configured metric. For a *once*
/// metric, the prefix `un` undoes it: `like` and `unlike`, `follow` and `unfollow`. A repeatable metric is undone with
/// `"op": "remove"`.
///
/// Retries of a *once* metric are safe: a repeated action changes nothing. Retries of a repeatable metric count again unless they
/// carry the same idempotency key, in the header `Idempotency-Key` or in the field `idempotencyKey`. The retry then gets the first
/// answer, with the header `Idempotent-Replayed: true`. The same key with another author is rejected (`key_reused`).
///
/// With a JSON Web Token, `uid` and `author` are the user's own ID, and repeatable metrics cannot be removed, unless the settings
/// `auth.jwt.may_name_authors` and `auth.jwt.may_remove_repeatable` permit it (403, `uid_mismatch` or `forbidden`).
#[utoipa::path(
    post,
    path = "/action/{metric}",
    tag = "Actions",
    params(("metric" = String, Path, description = "The name or an alias of a metric", example = "like"), ("Idempotency-Key" = Option<Id>, Header, description = "Makes retries safe; the same as the field `idempotencyKey`. Quotes are allowed")),
    request_body(content = Action, example = json!({ "etype": "note", "eid": "114327608932745216", "uid": "113984275610238976", "author": "113984275610241024" })),
    responses((status = 200, description = "The action was performed, now or before", body = ActionOutcome, headers(("Idempotent-Replayed" = bool, description = "`true` if this is the first answer to the same idempotency key")), example = json!({ "changed": true, "count": 1 })), ErrorResponses)
)]
pub async fn action(
    State(app): State<App>,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    PathParams(metric): PathParams<String>,
    caller: Caller,
    key: IdempotencyKey,
    JsonBody(mut action): JsonBody<Action>,
) -> Result<Response, Problem> {
    caller.check_action(&app, &metric, &action)?;
    action.idempotency_key = key.or_field(action.idempotency_key)?;
    if action.metric.is_some() {
        return Err(Problem::Unprocessable(
            "metric: not allowed, because the path names the metric".to_owned(),
        ));
    }
    let prepared = app.actions.prepare(&metric, &action, &trace_id).await?;
    app.limits.users.acquire(&action.uid, 1).await?;
    let mut outcome = app.actions.execute(prepared).await?;
    record_outcomes(std::iter::once(&outcome));
    let replayed = std::mem::take(&mut outcome.replayed);
    Ok(respond(outcome, replayed))
}

/// Perform many actions
///
/// Performs the actions in order, in one round trip to each Redis node. The body is NDJSON: one action with its `metric` per line.
///
/// The response has one line for each action, in the same order: an `ActionOutcome`, or a
/// `FailedItem` with the code of the error. One failed action does not affect the others. A JSON Web Token permits the same actions
/// as in `POST /action/{metric}`.
#[utoipa::path(
    post,
    path = "/actions",
    tag = "Actions",
    request_body(content = Ndjson<Action>, content_type = "application/x-ndjson", example = json!([{ "metric": "read", "etype": "note", "eid": "114327608932745216", "uid": "113984275610238976" }, { "metric": "clap", "etype": "note", "eid": "114327608932745216", "uid": "113984275610238976" }])),
    responses((status = 200, description = "One result per line", body = String, content_type = "application/x-ndjson", example = json!("{\"changed\":true}\n{\"error\":{\"code\":\"unknown_metric\",\"status\":404,\"detail\":\"there is no metric clap\"}}\n")), ErrorResponses)
)]
pub async fn actions(
    State(app): State<App>,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    (client, caller): (Client, Caller),
    key: IdempotencyKey,
    body: RequestBody,
) -> Result<Response, Problem> {
    key.reject()?;
    let lines = ndjson_lines(&body)?;
    let count = Items::Lines(lines.clone()).count_up_to(app.config.http.max_actions)?;
    client.acquire_rest(&app.limits, count).await?;
    let _items_permit = app.budget.reserve_items(count).await?;
    let mut prepared = Vec::with_capacity(count);
    // For each line, the problem that prevents its execution.
    let mut problems: Vec<Option<Problem>> = Vec::with_capacity(count);
    for line in lines {
        match prepare_line(&app, &caller, line, &trace_id).await {
            Ok(action) => {
                prepared.push(action);
                problems.push(None);
            }
            Err(problem) => problems.push(Some(problem)),
        }
    }
    let prepared = within_limits(&app.limits, prepared, &mut problems).await;
    let outcomes = app.actions.execute_all(prepared).await;
    record_outcomes(outcomes.iter().flatten());
    let mut outcomes = outcomes.into_iter();
    let mut response = Vec::with_capacity(problems.len() * 32);
    for problem in problems {
        let result = match problem {
            Some(problem) => Some(Err(problem)),
            None => outcomes.next(),
        };
        match result {
            Some(Ok(outcome)) => write_line(&mut response, &outcome),
            Some(Err(problem)) => {
                let error = ItemError::of(&problem);
                write_line(&mut response, &FailedItem { error });
            }
            None => {}
        }
    }
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, response).into_response())
}

/// Parses and prepares the action on a line. Returns its user, too.
async fn prepare_line(
    app: &App,
    caller: &Caller,
    line: &[u8],
    trace_id: &str,
) -> Result<(Id, PreparedAction), Problem> {
    let action: Action = parse_json(line)?;
    // The user is checked first, as in `/action/{metric}`.
    caller.check_uid(&action.uid)?;
    let Some(metric) = &action.metric else {
        return Err(Problem::Malformed("metric: missing".to_owned()));
    };
    caller.check_action(app, metric.as_str(), &action)?;
    let prepared = app
        .actions
        .prepare(metric.as_str(), &action, trace_id)
        .await?;
    Ok((action.uid, prepared))
}

/// Drops the actions that exceed the limits of their users. `problems` has an entry for each line; the entries that are `None`
/// correspond to the prepared actions.
async fn within_limits(
    limits: &RateLimits,
    prepared: Vec<(Id, PreparedAction)>,
    problems: &mut [Option<Problem>],
) -> Vec<PreparedAction> {
    let users: Vec<&Id> = prepared.iter().map(|(uid, _)| uid).collect();
    let limited = limits.users.acquire_each(&users).await;
    let pending = problems.iter_mut().filter(|problem| problem.is_none());
    let mut allowed = Vec::with_capacity(prepared.len());
    for (((_, prepared), limited), problem) in prepared.into_iter().zip(limited).zip(pending) {
        match limited {
            Some(limited) => *problem = Some(limited),
            None => allowed.push(prepared),
        }
    }
    allowed
}

fn write_line(response: &mut Vec<u8>, value: &impl Serialize) {
    // Writing strings and numbers to memory cannot fail.
    let _ = serde_json::to_writer(&mut *response, value);
    response.push(b'\n');
}

fn record_outcomes<'a>(outcomes: impl Iterator<Item = &'a ActionOutcome>) {
    let (mut changed, mut duplicate) = (0, 0);
    for outcome in outcomes {
        match outcome.changed && !outcome.replayed {
            true => changed += 1,
            false => duplicate += 1,
        }
    }
    metrics::counter!("countd_events_appended_total").increment(changed);
    metrics::counter!("countd_actions_duplicated_total").increment(duplicate);
}

/// The counter to reset.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetRequest {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    eid: Id,
    /// The name or an alias of a repeatable metric.
    #[schema(example = "read")]
    metric: Name,
    /// Makes retries safe. The same as the header `Idempotency-Key`.
    #[serde(rename = "idempotencyKey")]
    idempotency_key: Option<Id>,
}

/// The result of a reset.
#[derive(Serialize, ToSchema)]
pub struct ResetResponse {
    /// The value of the counter before the reset.
    was: u64,
}

/// Reset a counter
///
/// Sets the counter of a repeatable metric to 0 and returns its previous value, atomically: for example, the number of unread
/// messages when they are read. Events that are still in the log are added afterwards. A retry with the same idempotency key changes
/// nothing and gets the first answer.
#[utoipa::path(
    post,
    path = "/counter/reset",
    tag = "Counters",
    params(("Idempotency-Key" = Option<Id>, Header, description = "Makes retries safe; the same as the field `idempotencyKey`. Quotes are allowed")),
    request_body(content = ResetRequest, example = json!({ "etype": "note", "eid": "114327608932745216", "metric": "comment" })),
    responses((status = 200, description = "The counter is 0", body = ResetResponse, example = json!({ "was": 0 })), ErrorResponses)
)]
pub async fn reset(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    JsonBody(reset): JsonBody<ResetRequest>,
) -> Result<Response, Problem> {
    caller.check_service()?;
    let key = key.or_field(reset.idempotency_key)?;
    let entity = Entity {
        etype: reset.etype,
        eid: reset.eid,
    };
    let metric = reset.metric.as_str();
    let outcome = app.actions.reset(metric, &entity, key.as_ref()).await?;
    let was = outcome.was;
    Ok(respond(ResetResponse { was }, outcome.replayed))
}
