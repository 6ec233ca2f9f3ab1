//! Adjustments of counters by operators, recorded in the audit.

use super::actions::Actions;
use super::announcement::Announcement;
use super::prepared::counter_value;
use crate::domain::error::{Problem, rejected_by_foreign_last_id};
use crate::domain::event::{Cause, Journal, NewAuthor, now_ms};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::{shorten, truncate};
use crate::facts::counter_call;
use crate::log::renumber;
use crate::redis::call::{GuardedReply, IdempotencyGuard};
use crate::redis::permissions::Permissions;
use crate::redis::script::{
    AUDIT, AUTHOR, CHANGES, CounterBackend, JOURNAL, OPTIONAL_KEYS, ScriptTemplate,
};
use redis::RedisError;

/// Changes a counter and appends to the audit.
static ADJUST: ScriptTemplate = ScriptTemplate::writing(&[
    AUTHOR,
    CHANGES,
    AUDIT,
    JOURNAL,
    OPTIONAL_KEYS,
    include_str!("../lua/counter_adjust.lua"),
])
.with_days();

/// The maximum absolute value of an adjustment: the maximum value of a counter.
pub const MAX_VALUE: i64 = (1 << 40) - 1;
/// The maximum length of a reason, in bytes.
pub const MAX_REASON: usize = 256;
/// The script's error code for a value outside the range of a counter.
const OUT_OF_RANGE: &str = "OUTOFRANGE";

/// The permissions that adjustments require.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    ADJUST.required_permissions(backend)
}

/// A change of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds to it.
    Add(i64),
    /// Sets it.
    Set(u64),
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Change::Add(_) => "add",
            Change::Set(_) => "set",
        }
    }

    /// The value after the change.
    fn after(self, before: u64) -> u64 {
        match self {
            Change::Add(delta) => before.saturating_add_signed(delta),
            Change::Set(value) => value,
        }
    }
}

/// An adjustment of a counter.
pub struct Adjustment<'a> {
    /// The entity.
    pub entity: &'a Entity,
    /// The name or an alias of a metric.
    pub metric: &'a str,
    /// The change.
    pub change: Change,
    /// Why.
    pub reason: &'a str,
    /// The name of the token.
    pub by: &'a str,
    /// The trace ID of the request.
    pub trace_id: &'a str,
    /// A repeated adjustment with the same key changes nothing.
    pub key: Option<&'a Id>,
}

/// The result of an adjustment.
#[derive(Clone, Copy, Debug)]
pub struct AdjustmentOutcome {
    /// The counter before.
    pub before: u64,
    /// The counter after.
    pub after: u64,
    /// Whether this is the first answer to the same idempotency key.
    pub replayed: bool,
}

impl Actions {
    /// Adds to a counter or sets it, atomically. Events of the metric that are still in the log are added afterwards. The credit of the
    /// entity's author follows.
    ///
    /// # Errors
    /// The entity has no such counter, the counter cannot have the value, or Redis failed.
    pub async fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<AdjustmentOutcome, Problem> {
        let Adjustment { entity, change, .. } = *adjustment;
        let stored = self.store.layout();
        let resolved = self
            .catalog
            .metric_name(&stored, &entity.etype, adjustment.metric);
        let name = Name::new(resolved).map_err(|_| Problem::UnknownMetric(shorten(resolved)))?;
        if self.split_of(entity).is_some_and(|state| state.has(&name)) {
            return Err(Problem::Unprocessable(format!(
                "{name} of this entity is split: merge it first (countd hot merge)"
            )));
        }
        let counter = self.counter(entity, &name).await?;
        let _changing = self.hot.changing([entity]);
        let nobody = Id::new("-").map_err(|error| Problem::Invalid("uid".to_owned(), error))?;
        let (mode, value) = match change {
            Change::Add(delta) => (change.name(), delta.to_string()),
            Change::Set(value) => (change.name(), value.to_string()),
        };
        let request = format!("{mode} {value}");
        let guard = adjustment
            .key
            .map(|key| self.guard(&name, entity, "adjust", &nobody, (key, &request)));
        let layout = self.store.keys();
        let partition = layout.of_entity(entity);
        let (log, audit) = (layout.log(partition), layout.audit(partition));
        let mut keys = vec![counter.at.key(), &audit];
        keys.extend(guard.as_ref().map(|guard| guard.key.as_str()));
        let metric = self.catalog.config.metrics.get(name.as_str());
        let feeds = metric.is_some_and(|(_, metric)| metric.author_counters().next().is_some());
        let mut entry = String::new();
        let is_ranked = self.catalog.config.is_ranked(&name, &entity.etype);
        // The commit of the entry computes the scores in rankings.
        if self.store.layout().journals() || is_ranked {
            keys.push(&log);
            entry = Journal::of_change(entity, Cause::Adjust, now_ms(), &name);
        } else if self.authors.are_registered() && feeds {
            keys.push(&log);
            entry = NewAuthor::unchanged(entity).to_json();
        }
        let announcement = Announcement::of_entity(&self.catalog, &self.store, entity);
        keys.extend(announcement.key.as_deref());
        let script = (&ADJUST, self.store.backend());
        let is_daily = metric.is_some_and(|(_, metric)| metric.daily);
        let day = is_daily.then(|| self.counted_day((&name, entity), now_ms()));
        let call = counter_call(script, &keys, (Some(&counter), 0, day.as_ref()), |cmd| {
            cmd.arg(&counter.script_args()).arg(mode).arg(value);
            let argument = guard.as_ref().map(IdempotencyGuard::argument);
            cmd.arg(argument.unwrap_or_default()).arg(entry);
            cmd.arg(self.catalog.config.audit.retain_per_stream(layout));
            announcement.add_arguments(cmd);
            for (field, value) in [
                ("source", "adjust"),
                ("etype", entity.etype.as_str()),
                ("eid", entity.eid.as_str()),
                ("metric", name.as_str()),
                ("key", counter.at.key()),
                ("by", adjustment.by),
                ("reason", truncate(adjustment.reason, MAX_REASON)),
                ("traceId", adjustment.trace_id),
                ("ts", &now_ms().to_string()),
            ] {
                cmd.arg(field).arg(value);
            }
        });
        let reply = match call.send_confirmed(&self.store).await {
            // A rejected append has no effect.
            Err(error) if rejected_by_foreign_last_id(&error) => {
                renumber(&self.store, partition).await?;
                call.send_confirmed(&self.store).await
            }
            reply => reply,
        };
        let reply = reply.map_err(problem)?;
        let (before, replayed) = match GuardedReply::decode(reply, guard.map(|guard| guard.hash))? {
            GuardedReply::Executed(reply) => (counter_value(reply)?, false),
            GuardedReply::Replayed { count, .. } => (count.unwrap_or(0), true),
            GuardedReply::ReplayedUnknown => (0, true),
            GuardedReply::Reused => return Err(Problem::KeyReused),
        };
        Ok(AdjustmentOutcome {
            before,
            after: change.after(before),
            replayed,
        })
    }
}

fn problem(error: RedisError) -> Problem {
    match error.code() {
        Some(OUT_OF_RANGE) => {
            let before = error.detail().unwrap_or_default().trim();
            let problem = format!("the counter is {before}: it must stay in 0 to {MAX_VALUE}");
            Problem::Unprocessable(problem)
        }
        _ => error.into(),
    }
}
