//! The handler of adjustments.

use super::app::App;
use super::auth::Caller;
use super::errors::ErrorResponses;
use super::extract::JsonBody;
use super::idempotency::{IdempotencyKey, respond};
use super::telemetry::RequestTraceId;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::ingest::adjustments::{Adjustment, Change, MAX_REASON, MAX_VALUE};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An adjustment of a counter. It has either `add` or `set`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdjustRequest {
    /// The entity type.
    etype: Name,
    /// The ID of the entity.
    eid: Id,
    /// The name or an alias of a metric.
    #[schema(example = "read")]
    metric: Name,
    /// What is added; may be negative.
    #[serde(default)]
    #[schema(minimum = -1_099_511_627_775_i64, maximum = 1_099_511_627_775_i64)]
    add: Option<i64>,
    /// The new value.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_099_511_627_775_i64)]
    set: Option<u64>,
    /// Why. It is recorded in the audit.
    #[schema(max_length = 256, example = "reads of the old system")]
    reason: String,
    /// Makes retries safe. The same as the header `Idempotency-Key`.
    #[serde(rename = "idempotencyKey")]
    idempotency_key: Option<Id>,
}

impl AdjustRequest {
    fn change(&self) -> Result<Change, Problem> {
        let refuse = |problem: &str| Err(Problem::Unprocessable(problem.to_owned()));
        if self.reason.len() > MAX_REASON {
            return refuse("reason: longer than 256 bytes");
        }
        match (self.add, self.set) {
            (Some(delta), None) if delta.unsigned_abs() <= MAX_VALUE.unsigned_abs() => {
                Ok(Change::Add(delta))
            }
            (None, Some(value)) if value <= MAX_VALUE.unsigned_abs() => Ok(Change::Set(value)),
            (Some(_), None) | (None, Some(_)) => refuse("the value is out of range"),
            _ => refuse("either add or set is required"),
        }
    }
}

/// The result of an adjustment.
#[derive(Serialize, ToSchema)]
pub struct AdjustResponse {
    /// The counter before.
    before: u64,
    /// The counter after.
    after: u64,
}

/// Adjust a counter
///
/// Adds to a counter of an entity or sets it, atomically, and records that in the audit stream `x:audit:cntfix`. The credit of the entity's
/// author follows. Events that are still in the log are added afterwards. A value that a counter cannot have is refused. Facts do not change: the
/// count of a *once* metric should equal the number of its facts. A retry with the same idempotency key changes nothing and gets the first
/// answer.
#[utoipa::path(
    post,
    path = "/counter/adjust",
    tag = "Counters",
    params(("Idempotency-Key" = Option<Id>, Header, description = "Makes retries safe; the same as the field `idempotencyKey`. Quotes are allowed")),
    request_body(content = AdjustRequest, example = json!({ "etype": "note", "eid": "114327608932745216", "metric": "repost", "add": 5, "reason": "reposts of the old system" })),
    responses((status = 200, description = "The counter is adjusted", body = AdjustResponse, example = json!({ "before": 0, "after": 5 })), ErrorResponses)
)]
pub async fn adjust(
    State(app): State<App>,
    Extension(RequestTraceId(trace_id)): Extension<RequestTraceId>,
    caller: Caller,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<AdjustRequest>,
) -> Result<Response, Problem> {
    caller.check_service()?;
    let change = request.change()?;
    let key = key.or_field(request.idempotency_key)?;
    let entity = Entity {
        etype: request.etype,
        eid: request.eid,
    };
    let adjustment = Adjustment {
        entity: &entity,
        metric: request.metric.as_str(),
        change,
        reason: &request.reason,
        by: caller.name(),
        trace_id: &trace_id,
        key: key.as_ref(),
    };
    let outcome = app.actions.adjust(&adjustment).await?;
    let response = AdjustResponse {
        before: outcome.before,
        after: outcome.after,
    };
    Ok(respond(response, outcome.replayed))
}
