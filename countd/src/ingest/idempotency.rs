//! The guards of idempotency keys.

use super::action::Action;
use super::actions::Actions;
use crate::domain::event::Event;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::op::Op;
use crate::redis::call::IdempotencyGuard;
use xxhash_rust::xxh3::xxh3_64;

impl Actions {
    /// The guard of an action that has an idempotency key.
    pub(super) fn action_guard(
        &self,
        action: &Action,
        event: &Event,
        op: Op,
    ) -> Option<IdempotencyGuard> {
        let Event {
            metric,
            entity,
            uid,
            ..
        } = event;
        let key = action.idempotency_key.as_ref()?;
        let author = action.author.as_ref().map_or("", Id::as_str);
        Some(self.guard(metric, entity, op.name(), uid, (key, author)))
    }

    /// The guard of an idempotency key. The key belongs to a user, a metric, an entity and an operation; `rest` is what else the
    /// request says.
    pub(super) fn guard(
        &self,
        metric: &Name,
        entity: &Entity,
        op: &str,
        uid: &Id,
        (key, rest): (&Id, &str),
    ) -> IdempotencyGuard {
        let Entity { etype, eid } = entity;
        // No part contains a line feed.
        let request = format!("{metric}\n{etype}\n{eid}\n{op}\n{uid}\n{rest}");
        IdempotencyGuard {
            key: self
                .store
                .keys()
                .dedup(metric, entity, op, uid, key.as_str()),
            seconds: self.catalog.config.dedup.window_seconds,
            hash: xxh3_64(request.as_bytes()),
        }
    }
}
