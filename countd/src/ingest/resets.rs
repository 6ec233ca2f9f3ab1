//! Resets of counters.

use super::actions::{Actions, RESET};
use super::announcement::Announcement;
use super::prepared::counter_value;
use crate::domain::config::Nature;
use crate::domain::error::{Problem, rejected_by_foreign_last_id};
use crate::domain::event::{Cause, Journal, NewAuthor, now_ms};
use crate::domain::ids::{Entity, Id};
use crate::facts::counter_call;
use crate::log::renumber;
use crate::redis::call::{GuardedReply, IdempotencyGuard};

/// The result of a reset.
#[derive(Clone, Copy, Debug)]
pub struct ResetOutcome {
    /// The value of the counter before the reset.
    pub was: u64,
    /// Whether this is the first answer to the same idempotency key.
    pub replayed: bool,
}

impl Actions {
    /// Sets the counter of a repeatable metric to 0 and returns the previous value, atomically. Events of the metric that are still
    /// in the log are added afterwards. The entity's author loses the credit for what was reset. A repeated reset with the same
    /// idempotency key changes nothing.
    ///
    /// # Errors
    /// The metric has facts or no counter, or Redis failed.
    pub async fn reset(
        &self,
        metric: &str,
        entity: &Entity,
        key: Option<&Id>,
    ) -> Result<ResetOutcome, Problem> {
        let (name, metric) = self.catalog.metric(metric)?;
        self.catalog.schema_id(&entity.etype)?;
        if metric.nature == Nature::Once || !metric.applies_to(&entity.etype) {
            let problem = format!("{name} of entity type {} cannot be reset", entity.etype);
            return Err(Problem::Unprocessable(problem));
        }
        let counter = self.counter(entity, name).await?;
        let _changing = self.hot.changing([entity]);
        let nobody = Id::new("-").map_err(|error| Problem::Invalid("uid".to_owned(), error))?;
        let guard = key.map(|key| self.guard(name, entity, "reset", &nobody, (key, "")));
        let partition = self.store.keys().of_entity(entity);
        let log = self.store.keys().log(partition);
        let mut keys = vec![counter.at.key()];
        keys.extend(guard.as_ref().map(|guard| guard.key.as_str()));
        let mut entry = String::new();
        let is_ranked = self.catalog.config.is_ranked(name, &entity.etype);
        // The commit of the entry computes the scores in rankings.
        if self.store.layout().journals() || is_ranked {
            keys.push(&log);
            entry = Journal::of_change(entity, Cause::Reset, now_ms(), name);
        } else if self.authors.are_registered() && metric.author_counters().next().is_some() {
            keys.push(&log);
            entry = NewAuthor::unchanged(entity).to_json();
        }
        let announcement = Announcement::of_entity(&self.catalog, &self.store, entity);
        keys.extend(announcement.key.as_deref());
        let script = (&RESET, self.store.backend());
        let day = metric
            .daily
            .then(|| self.counted_day((name, entity), now_ms()));
        let call = counter_call(script, &keys, (Some(&counter), 0, day.as_ref()), |cmd| {
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
        let (was, replayed) = match GuardedReply::decode(reply, guard.map(|guard| guard.hash))? {
            GuardedReply::Executed(reply) => (counter_value(reply)?, false),
            GuardedReply::Replayed { count, .. } => (count.unwrap_or(0), true),
            GuardedReply::ReplayedUnknown => (0, true),
            GuardedReply::Reused => return Err(Problem::KeyReused),
        };
        Ok(ResetOutcome { was, replayed })
    }
}
