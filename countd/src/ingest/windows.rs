//! Actions that count once for a user and an entity in a window of time (`window_seconds` of a repeatable metric).
//!
//! The window is the one of Redis's clock, and the check is part of the action's own step. A script must be called with all of its
//! keys, so countd sends the keys of the window that its own clock says, and of the ones before and after it. If the clocks differ
//! by more than that, the script replies its time, and countd sends the action again.

use crate::domain::error::StoreError;
use crate::domain::keys::KeyTemplate;
use crate::facts::{CounterField, counter_call};
use crate::redis::author::NamedAuthor;
use crate::redis::call::{IdempotencyGuard, RedisCall};
use crate::redis::day::CountedDay;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use redis::{FromRedisValue, Value};

static WINDOWED: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../lua/action_windowed.lua")]).with_days();

/// The index of the row in the arguments of the script.
const ROW: usize = 5;
/// The minimum time to live of a window's key, in seconds: two days.
const MIN_TTL: u64 = 172_800;

/// An action in a window of time.
pub struct WindowedAction {
    /// The length of a window in seconds.
    pub seconds: u64,
    /// The key of a window, by its number.
    pub key: KeyTemplate,
    /// The log.
    pub log: String,
    /// The event.
    pub event: String,
    /// The counter that changes, if the metric is counted immediately.
    pub counter: Option<CounterField>,
    /// The day in which the action counts, if the counter has counts by day.
    pub day: Option<CountedDay>,
    /// The idempotency key.
    pub guard: Option<IdempotencyGuard>,
    /// The author that the action names.
    pub author: Option<NamedAuthor>,
}

impl WindowedAction {
    /// The permissions that the calls require.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        WINDOWED.required_permissions(backend)
    }

    /// The call at a time, in seconds since 1970.
    pub fn call(&self, backend: CounterBackend, now: u64) -> RedisCall {
        let first = (now / self.seconds).saturating_sub(1);
        let mut keys = vec![self.log.clone()];
        keys.extend((first..first + 3).map(|window| self.key.key(window)));
        keys.extend(
            self.counter
                .iter()
                .map(|counter| counter.at.key().to_owned()),
        );
        keys.extend(self.guard.iter().map(|guard| guard.key.clone()));
        keys.extend(
            self.author
                .iter()
                .flat_map(|author| author.keys().iter().cloned()),
        );
        let counter = (self.counter.as_ref(), ROW, self.day.as_ref());
        counter_call((&WINDOWED, backend), &keys, counter, |cmd| {
            cmd.arg(self.seconds).arg(first);
            cmd.arg(self.seconds.max(MIN_TTL)).arg(&self.event);
            let guard = self.guard.as_ref().map(IdempotencyGuard::argument);
            cmd.arg(guard.unwrap_or_default());
            match &self.counter {
                Some(counter) => cmd.arg(&counter.script_args()),
                None => cmd.arg(&["", "", "", ""]),
            };
            if let Some(author) = &self.author {
                author.add_arguments(cmd);
            }
        })
    }
}

/// The server's time in seconds, if the reply says that the current window is none of those of the call.
///
/// # Errors
/// The reply is malformed.
pub fn server_time(reply: &Value) -> Result<Option<u64>, StoreError> {
    match reply {
        Value::Array(parts) => match parts.as_slice() {
            [Value::BulkString(tag), time] if tag == b"T" => u64::from_redis_value(time.clone())
                .map(Some)
                .map_err(|error| StoreError::Unexpected(error.to_string())),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}
