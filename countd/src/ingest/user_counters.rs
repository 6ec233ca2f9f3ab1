//! Resets of the counters of users.

use super::actions::RESET;
use super::announcement::Announcement;
use super::prepared::counter_value;
use super::resets::ResetOutcome;
use crate::domain::config::{BUILT_IN_COUNTERS, USER};
use crate::domain::error::{Problem, rejected_by_foreign_last_id};
use crate::domain::event::{Cause, Journal, now_ms};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::shorten;
use crate::facts::{CounterField, counter_call};
use crate::log::renumber;
use crate::redis::call::{GuardedReply, IdempotencyGuard};
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::schema::user_schema_id;
use xxhash_rust::xxh3::xxh3_64;

/// Resets the counters of users. Cheap to clone.
#[derive(Clone)]
pub struct UserCounters {
    catalog: Catalog,
    store: Store,
}

impl UserCounters {
    /// Uses the counters of `catalog`.
    pub fn new(catalog: Catalog, store: Store) -> UserCounters {
        UserCounters { catalog, store }
    }

    /// The permissions that resets require.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        RESET.required_permissions(backend)
    }

    /// Sets a counter of a user to 0 and returns the previous value, atomically. Increments that are still in the log are added
    /// afterwards. A repeated reset with the same idempotency key changes nothing.
    ///
    /// # Errors
    /// There is no such counter, it is one of the counters that all users have, or Redis failed.
    pub async fn reset(
        &self,
        uid: &Id,
        counter: &Name,
        key: Option<&Id>,
    ) -> Result<ResetOutcome, Problem> {
        let schemas = &self.catalog.schemas;
        let schema = schemas
            .with_name(user_schema_id(), counter.as_str())
            .await?;
        let Some(idx) = schema.index_of(counter.as_str()) else {
            return Err(Problem::UnknownCounter(shorten(counter.as_str())));
        };
        // They equal sums of facts and of entities' counters.
        if idx < BUILT_IN_COUNTERS.len() {
            let problem = format!("{counter} cannot be reset: only counters of users.counters can");
            return Err(Problem::Unprocessable(problem));
        }
        let guard = key.map(|key| self.guard(uid, counter, key));
        let name = counter;
        let counter = CounterField {
            at: Locator::of(&self.store).user(uid),
            idx,
            len: schema.len(),
            min_len: BUILT_IN_COUNTERS.len(),
            verify: false,
        };
        let announcement = Announcement::of_user(&self.catalog, &self.store, uid);
        let partition = self.store.keys().of_user(uid);
        let log = self.store.keys().log(partition);
        let mut keys = vec![counter.at.key()];
        keys.extend(guard.as_ref().map(|guard| guard.key.as_str()));
        let mut entry = String::new();
        if self.store.layout().archives {
            keys.push(&log);
            let etype =
                Name::new(USER).map_err(|error| Problem::Invalid("uid".to_owned(), error))?;
            let eid = uid.clone();
            entry = Journal::of_change(&Entity { etype, eid }, Cause::Reset, now_ms(), name);
        }
        keys.extend(announcement.key.as_deref());
        let script = (&RESET, self.store.backend());
        let call = counter_call(script, &keys, (Some(&counter), 0, None), |cmd| {
            let [row, idx, _, min_len] = counter.script_args();
            cmd.arg(&[row, idx, min_len]);
            let argument = guard.as_ref().map(IdempotencyGuard::argument);
            cmd.arg(argument.unwrap_or_default()).arg(entry);
            announcement.add_arguments(cmd);
        });
        let reply = match call.send_confirmed(&self.store).await {
            // A rejected append has no effect.
            Err(error) if rejected_by_foreign_last_id(&error) => {
                renumber(&self.store, partition).await?;
                call.send_confirmed(&self.store).await?
            }
            reply => reply?,
        };
        match GuardedReply::decode(reply, guard.map(|guard| guard.hash))? {
            GuardedReply::Executed(reply) => Ok(ResetOutcome {
                was: counter_value(reply)?,
                replayed: false,
            }),
            GuardedReply::Replayed { count, .. } => Ok(ResetOutcome {
                was: count.unwrap_or(0),
                replayed: true,
            }),
            GuardedReply::ReplayedUnknown => Ok(ResetOutcome {
                was: 0,
                replayed: true,
            }),
            GuardedReply::Reused => Err(Problem::KeyReused),
        }
    }

    fn guard(&self, uid: &Id, counter: &Name, key: &Id) -> IdempotencyGuard {
        // No part contains a line feed.
        let request = format!("{uid}\n{counter}\nreset");
        IdempotencyGuard {
            key: self.store.keys().user_dedup(uid, counter, key),
            seconds: self.catalog.config.dedup.window_seconds,
            hash: xxh3_64(request.as_bytes()),
        }
    }
}
