//! Handlers of the counters of users.

use super::app::App;
use super::auth::Caller;
use super::counters::non_null;
use super::errors::{ErrorResponses, ItemError};
use super::extract::{JsonBody, JsonBytes, QueryParams, name_list, parse_json, to_strings};
use super::idempotency::{IdempotencyKey, respond};
use super::items::parse_list;
use super::rate_limit::Client;
use super::telemetry::RequestTraceId;
use super::users::user_id;
use crate::domain::error::Problem;
use crate::domain::ids::{Id, Name};
use crate::query::counts::Counts;
use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

/// The counters of a user.
#[derive(Serialize, ToSchema)]
pub struct UserCounts {
    /// The ID of the user.
    #[schema(value_type = String, example = "113984275610238976")]
    uid: Id,
    /// The counters: `followings`, `followers`, `posts`, `likesReceived` and `favsReceived`, and those of `users.counters`.
    #[schema(value_type = BTreeMap<String, u64>)]
    counts: Counts,
}

/// The query parameters of a user's counters.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UserParams {
    /// The ID of the user.
    #[param(value_type = Id, example = "113984275610238976")]
    uid: String,
    /// A comma-separated list of counters. By default, all counters.
    #[param(pattern = "^[A-Za-z][A-Za-z0-9_-]{0,31}(,[A-Za-z][A-Za-z0-9_-]{0,31})*$")]
    counters: Option<String>,
}

/// Retrieve the counters of a user
///
/// An unknown user has zeros.
#[utoipa::path(
    get,
    path = "/relation/counter",
    tag = "Users",
    params(UserParams),
    responses((status = 200, description = "The counters", body = UserCounts, example = json!({ "uid": "113984275610238976", "counts": { "favsReceived": 0, "followers": 0, "followings": 0, "likesReceived": 0, "posts": 0, "unread": 0 } })), ErrorResponses)
)]
pub async fn relation(
    State(app): State<App>,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    QueryParams(params): QueryParams<UserParams>,
) -> Result<Json<UserCounts>, Problem> {
    let uid = user_id(params.uid)?;
    let counters = match &params.counters {
        Some(counters) => name_list("counters", counters)?,
        None => Vec::new(),
    };
    let uids = std::slice::from_ref(&uid);
    let reading = app.queries.user_counters(uids, &counters, &trace_id);
    let mut counts = reading.await?;
    let counts = counts.pop().transpose()?.unwrap_or_default();
    Ok(Json(UserCounts { uid, counts }))
}

/// The users and counters of a batch.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserCountsBatchRequest<'a> {
    /// The IDs of the users.
    #[serde(borrow)]
    #[schema(value_type = Vec<Id>)]
    uids: &'a RawValue,
    /// The counters. By default, all counters.
    #[serde(default, borrow, deserialize_with = "non_null")]
    #[schema(value_type = Vec<Name>)]
    counters: Option<&'a RawValue>,
}

/// The user counters of a batch.
#[derive(Serialize, ToSchema)]
pub struct UserCountsBatchResponse {
    /// One item per user, in the order of the request.
    items: Vec<UserCountsResult>,
}

/// A user of a batch.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum UserCountsResult {
    /// The counters.
    Counts(UserCounts),
    /// The key of the user's counters is damaged.
    Failed(FailedUser),
}

/// A failed user in a batch.
#[derive(Serialize, ToSchema)]
pub struct FailedUser {
    /// The ID of the user.
    #[schema(value_type = String, example = "113984275610238976")]
    uid: Id,
    /// Why the user failed.
    error: ItemError,
}

/// Retrieve the counters of many users
///
/// The items are in the order of the request. A user with a damaged key has an `error`; the others are not affected.
#[utoipa::path(
    post,
    path = "/relation/counter/batch",
    tag = "Users",
    request_body(content = UserCountsBatchRequest, example = json!({ "uids": ["113984275610238976"], "counters": ["followers", "unread"] })),
    responses((status = 200, description = "The counters", body = UserCountsBatchResponse, example = json!({ "items": [{ "uid": "113984275610238976", "counts": { "followers": 0, "unread": 0 } }] })), ErrorResponses)
)]
pub async fn relation_batch(
    State(app): State<App>,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    client: Client,
    JsonBytes(body): JsonBytes,
) -> Result<Json<UserCountsBatchResponse>, Problem> {
    let max = app.config.http.max_batch;
    let batch: UserCountsBatchRequest<'_> = parse_json(&body)?;
    let uids: Vec<Id> = parse_list("uids", batch.uids, max)?;
    let counters = match batch.counters {
        Some(counters) => to_strings(&parse_list("counters", counters, max)?),
        None => Vec::new(),
    };
    drop(body);
    client.acquire_rest(&app.limits, uids.len()).await?;
    let _items_permit = app.budget.reserve_items(uids.len()).await?;
    let reading = app.queries.user_counters(&uids, &counters, &trace_id);
    let counts = reading.await?;
    let items = uids.into_iter().zip(counts);
    let items = items
        .map(|(uid, counts)| match counts {
            Ok(counts) => UserCountsResult::Counts(UserCounts { uid, counts }),
            Err(problem) => {
                let error = ItemError::of(&problem);
                UserCountsResult::Failed(FailedUser { uid, error })
            }
        })
        .collect();
    Ok(Json(UserCountsBatchResponse { items }))
}

/// The counter of a user to reset.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserResetRequest {
    /// The ID of the user.
    uid: Id,
    /// The name of a counter of `users.counters`.
    #[schema(example = "unread")]
    counter: Name,
    /// Makes retries safe. The same as the header `Idempotency-Key`.
    #[serde(rename = "idempotencyKey")]
    idempotency_key: Option<Id>,
}

/// The result of a reset of a user's counter.
#[derive(Serialize, ToSchema)]
pub struct UserResetResponse {
    /// The value of the counter before the reset.
    was: u64,
}

/// Reset a counter of a user
///
/// Sets a counter of `users.counters` to 0 and returns its previous value, atomically: for example, the number behind a red dot when the
/// user opens the page. Increments that are still in the log are added afterwards. A retry with the same idempotency key changes nothing
/// and gets the first answer. The counters that all users have cannot be reset. A JSON Web Token resets only counters of its user, and
/// only those of `users.resettable`.
#[utoipa::path(
    post,
    path = "/relation/counter/reset",
    tag = "Users",
    params(("Idempotency-Key" = Option<Id>, Header, description = "Makes retries safe; the same as the field `idempotencyKey`. Quotes are allowed")),
    request_body(content = UserResetRequest, example = json!({ "uid": "113984275610238976", "counter": "unread" })),
    responses((status = 200, description = "The counter is 0", body = UserResetResponse, headers(("Idempotent-Replayed" = bool, description = "`true` if this is the first answer to the same idempotency key")), example = json!({ "was": 0 })), ErrorResponses)
)]
pub async fn relation_reset(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    JsonBody(reset): JsonBody<UserResetRequest>,
) -> Result<Response, Problem> {
    let UserResetRequest {
        uid,
        counter,
        idempotency_key,
    } = reset;
    caller.check_uid(&uid)?;
    if caller.is_user() && !app.config.users.resettable.contains(&counter) {
        let problem = format!("the token of a user does not permit to reset {counter}");
        return Err(Problem::Forbidden(problem));
    }
    let key = key.or_field(idempotency_key)?;
    app.limits.users.acquire(&uid, 1).await?;
    let outcome = app.user_counters.reset(&uid, &counter, key.as_ref());
    let outcome = outcome.await?;
    let was = outcome.was;
    Ok(respond(UserResetResponse { was }, outcome.replayed))
}
