//! Handlers of timelines: what a user did, whom a user follows, and their followers.

use super::app::App;
use super::auth::Caller;
use super::errors::ErrorResponses;
use super::extract::{PathParams, QueryParams, entity};
use super::users::{PageParams, UserPage, user_id};
use crate::domain::config::USER;
use crate::domain::error::Problem;
use crate::domain::ids::{Id, Name};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

/// The metric of followers.
const FOLLOW: &str = "follow";

/// An entity on which a user performed a metric.
#[derive(Serialize, ToSchema)]
pub struct TimelineItem {
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// The time of the action in milliseconds since 1970; null if it is no longer kept.
    ts: Option<u64>,
}

/// A page of a user's timeline.
#[derive(Serialize, ToSchema)]
pub struct Timeline {
    /// The entities: first the latest ones with their times, the newest first; then the others, in descending numeric order of their IDs,
    /// and those with other IDs in no order.
    items: Vec<TimelineItem>,
    /// The `cursor` of the next page; null on the last page.
    cursor: Option<String>,
}

/// List what a user did
///
/// Returns the entities of a type on which the user performed a *once* metric with `reverse = true`, such as the notes that they like. To list
/// all, repeat the request with the returned `cursor` until it is null. The consumer keeps timelines, so an action appears a moment later. A
/// JSON Web Token permits only its own user.
#[utoipa::path(
    get,
    path = "/user/{uid}/{metric}/{etype}",
    tag = "Users",
    params(
        ("uid" = Id, Path, description = "The ID of the user", example = "113984275610238976"),
        ("metric" = String, Path, description = "The name or an alias of a *once* metric", example = "publish"),
        ("etype" = Name, Path, description = "The entity type", example = "note"),
        PageParams
    ),
    responses((status = 200, description = "A page of entities", body = Timeline, example = json!({ "items": [{ "eid": "114327608932745216", "ts": 1_795_348_800_000_u64 }], "cursor": null })), ErrorResponses)
)]
pub async fn user_timeline(
    State(app): State<App>,
    caller: Caller,
    PathParams((uid, metric, etype)): PathParams<(String, String, String)>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<Timeline>, Problem> {
    let uid = user_id(uid)?;
    caller.check_uid(&uid)?;
    let etype = Name::new(etype).map_err(|error| Problem::Invalid("etype".to_owned(), error))?;
    let limit = params.limit(app.config.http.max_batch)?;
    app.limits.users.acquire(&uid, 1).await?;
    let page = app
        .queries
        .timeline(&uid, (&metric, &etype), params.cursor(), limit)
        .await?;
    let items = page.items.into_iter();
    Ok(Json(Timeline {
        items: items.map(|(eid, ts)| TimelineItem { eid, ts }).collect(),
        cursor: page.next,
    }))
}

/// List the users whom a user follows
///
/// Returns one page, in the order of the user's timeline of the metric `follow`: the latest ones first. A JSON Web Token permits only its own
/// user.
#[utoipa::path(
    get,
    path = "/user/{uid}/followings",
    tag = "Users",
    params(("uid" = Id, Path, description = "The ID of the user", example = "113984275610238976"), PageParams),
    responses((status = 200, description = "A page of users", body = UserPage, example = json!({ "users": ["113984275610241024"], "cursor": null })), ErrorResponses)
)]
pub async fn followings(
    State(app): State<App>,
    caller: Caller,
    PathParams((uid,)): PathParams<(String,)>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<UserPage>, Problem> {
    let uid = user_id(uid)?;
    caller.check_uid(&uid)?;
    let etype = Name::new(USER).map_err(|error| Problem::Invalid("etype".to_owned(), error))?;
    let limit = params.limit(app.config.http.max_batch)?;
    app.limits.users.acquire(&uid, 1).await?;
    let page = app
        .queries
        .timeline(&uid, (FOLLOW, &etype), params.cursor(), limit)
        .await?;
    let users = page.items.into_iter();
    let users = users.map(|(uid, _)| uid.to_string()).collect();
    Ok(Json(UserPage::new(users, page.next)))
}

/// List the followers of a user
///
/// Returns the same page as `/who/follow/user/{uid}`.
#[utoipa::path(
    get,
    path = "/user/{uid}/followers",
    tag = "Users",
    params(("uid" = Id, Path, description = "The ID of the user", example = "113984275610238976"), PageParams),
    responses((status = 200, description = "A page of users", body = UserPage, example = json!({ "users": ["113984275610241024"], "cursor": null })), ErrorResponses)
)]
pub async fn followers(
    State(app): State<App>,
    PathParams((uid,)): PathParams<(String,)>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<UserPage>, Problem> {
    let user = entity(USER.to_owned(), user_id(uid)?.to_string())?;
    let limit = params.limit(app.config.http.max_batch)?;
    let page = app.queries.who(FOLLOW, &user, params.cursor(), limit);
    let page = page.await?;
    Ok(Json(UserPage::new(page.users, page.next)))
}
