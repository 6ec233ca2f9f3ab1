//! Handlers of entities: their authors.

use super::app::App;
use super::auth::Caller;
use super::errors::ErrorResponses;
use super::extract::{self, JsonBody, PathParams, QueryParams};
use crate::domain::config::USER;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The author of an entity.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EntityRequest {
    /// The author; `null` if the entity has none any more.
    #[serde(deserialize_with = "required")]
    #[schema(required = true, example = "300001")]
    author: Option<Id>,
}

/// Deserializes a field that may be null, but must be present.
fn required<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Id>, D::Error> {
    Option::deserialize(from)
}

/// An entity and its author.
#[derive(Serialize, ToSchema)]
pub struct EntityResponse {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    #[schema(value_type = String, example = "114327608932745216")]
    eid: Id,
    /// The author; `null` if none is registered.
    #[schema(value_type = Option<String>, example = "300001")]
    author: Option<Id>,
}

/// The result of a change of an entity.
#[derive(Serialize, ToSchema)]
pub struct EntityChange {
    #[serde(flatten)]
    entity: EntityResponse,
    /// Whether the entity had another author before, or none.
    changed: bool,
}

/// Set the author of an entity
///
/// Registers the author, whose counters are credited with what the entity has and will get. If the entity has another author, the
/// entity moves to the new one, with its credit: the counters of both change when the consumer commits the change. Retries are safe.
#[utoipa::path(
    put,
    path = "/entity/{etype}/{eid}",
    tag = "Entities",
    params(
        ("etype" = Name, Path, description = "The entity type", example = "note"),
        ("eid" = Id, Path, description = "The ID of the entity", example = "114327608932745216")
    ),
    request_body(content = EntityRequest, example = json!({ "author": "113984275610241024" })),
    responses((status = 200, description = "The author is registered", body = EntityChange, example = json!({ "etype": "note", "eid": "114327608932745216", "author": "113984275610241024", "changed": true })), ErrorResponses)
)]
pub async fn put_entity(
    State(app): State<App>,
    caller: Caller,
    PathParams((etype, eid)): PathParams<(String, String)>,
    JsonBody(request): JsonBody<EntityRequest>,
) -> Result<Json<EntityChange>, Problem> {
    // A user may not change the author of another user's entity.
    caller.check_service()?;
    let entity = entity(&app, etype, eid)?;
    let change = app.authors.put(&entity, request.author.as_ref()).await?;
    Ok(Json(EntityChange {
        entity: EntityResponse {
            etype: entity.etype,
            eid: entity.eid,
            author: change.author,
        },
        changed: change.changed,
    }))
}

/// The query of a request that has no parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// Read the author of an entity
#[utoipa::path(
    get,
    path = "/entity/{etype}/{eid}",
    tag = "Entities",
    params(
        ("etype" = Name, Path, description = "The entity type", example = "note"),
        ("eid" = Id, Path, description = "The ID of the entity", example = "114327608932745216")
    ),
    responses((status = 200, description = "The entity", body = EntityResponse, example = json!({ "etype": "note", "eid": "114327608932745216", "author": "113984275610241024" })), ErrorResponses)
)]
pub async fn entity_of(
    State(app): State<App>,
    PathParams((etype, eid)): PathParams<(String, String)>,
    QueryParams(NoParams {}): QueryParams<NoParams>,
) -> Result<Json<EntityResponse>, Problem> {
    let entity = entity(&app, etype, eid)?;
    let mut authors = app.authors.get(std::slice::from_ref(&entity)).await?;
    Ok(Json(EntityResponse {
        etype: entity.etype,
        eid: entity.eid,
        author: authors.pop().flatten(),
    }))
}

/// The entity of a path. Users have no author.
fn entity(app: &App, etype: String, eid: String) -> Result<Entity, Problem> {
    let entity = extract::entity(etype, eid)?;
    if entity.etype.as_str() == USER {
        return Err(Problem::Unprocessable("a user has no author".to_owned()));
    }
    app.catalog.schema_id(&entity.etype)?;
    Ok(entity)
}
