//! The request and the response of an action.

use crate::domain::ids::{Id, Name};
use crate::domain::op::Op;
use serde::{Deserialize, Serialize};

/// An action of a user on an entity.
#[derive(Clone, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Action {
    /// The metric. Required in `POST /actions`; not allowed in `POST /action/{metric}`, where the path names it.
    #[schema(example = "like")]
    pub metric: Option<Name>,
    /// The entity type. Optional if the metric applies to a single type.
    pub etype: Option<Name>,
    /// The ID of the entity.
    pub eid: Id,
    /// The user who acts.
    pub uid: Id,
    /// `add` (the default) performs the action, `remove` undoes it. A JSON Web Token does not permit removals of repeatable metrics.
    pub op: Option<Op>,
    /// The author of the entity. The first action that names one registers them; later actions need not name them. Another one is
    /// refused with `author_mismatch`. With a JSON Web Token, only the user themselves.
    pub author: Option<Id>,
    /// Makes retries safe: within the deduplication window (`dedup.window_seconds`), a repeated action with the same key changes nothing
    /// and gets the first answer. The same as the header `Idempotency-Key`.
    pub idempotency_key: Option<Id>,
}

/// The result of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActionOutcome {
    /// Whether the action changed anything; false for a repeated action.
    pub changed: bool,
    /// The entity's counter after the action. Present if the metric is counted immediately.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    /// Whether this is the first answer to the same idempotency key. Present only in lines of `POST /actions`; a single action has the
    /// header `Idempotent-Replayed`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    #[schema(required = false)]
    pub replayed: bool,
}
