//! A command or script call, ready to be sent.

use crate::domain::error::{StoreError, is_no_script};
use crate::domain::keys::MovingCounters;
use crate::redis::day::CountedDay;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, IDEMPOTENCY, LoadedScript, NO_DAY, ScriptTemplate};
use crate::redis::store::Store;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, Value};
use std::sync::LazyLock;

/// Runs a command once for an idempotency key.
static IDEMPOTENT: LazyLock<LoadedScript> = LazyLock::new(|| {
    let script = include_str!("../lua/idempotent.lua");
    LoadedScript::writing(&[IDEMPOTENCY, NO_DAY, script].join("\n"))
});

/// Runs a command that uses counters which a migration moves, or which have counts by day.
static COUNTER_COMMAND: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../lua/idempotent.lua")]).with_days();

/// A command or script call.
pub struct RedisCall {
    /// The command.
    pub cmd: Cmd,
    /// The script that the command calls.
    pub script: Option<&'static LoadedScript>,
}

/// An idempotency key.
#[derive(Clone, Debug)]
pub struct IdempotencyGuard {
    /// The key.
    pub key: String,
    /// Its time to live in seconds.
    pub seconds: u64,
    /// The hash of the request. Another request with the same key is rejected.
    pub hash: u64,
}

impl IdempotencyGuard {
    /// The argument of a script: the time to live and the hash.
    pub fn argument(&self) -> String {
        format!("{}:{:016x}", self.seconds, self.hash)
    }
}

/// The reply of a call with an idempotency key.
#[derive(Debug, PartialEq)]
pub enum GuardedReply {
    /// The call was executed, with this reply.
    Executed(Value),
    /// The key exists: the first answer to the same request.
    Replayed {
        /// Whether it changed anything.
        changed: bool,
        /// The count, if the answer had one.
        count: Option<u64>,
    },
    /// The key exists; an older version stored no answer.
    ReplayedUnknown,
    /// The key exists, with another request.
    Reused,
}

impl GuardedReply {
    /// Decodes a reply. `hash` is the hash of the request; `None` without an idempotency key.
    ///
    /// # Errors
    /// The stored answer is malformed.
    pub fn decode(reply: Value, hash: Option<u64>) -> Result<GuardedReply, StoreError> {
        let stored = match (&reply, hash) {
            (Value::Array(parts), Some(_)) => match parts.as_slice() {
                [Value::BulkString(tag), Value::BulkString(stored)] if tag == b"R" => stored,
                _ => return Ok(GuardedReply::Executed(reply)),
            },
            _ => return Ok(GuardedReply::Executed(reply)),
        };
        // An older version stored no answer.
        if stored == b"1" {
            return Ok(GuardedReply::ReplayedUnknown);
        }
        let malformed = || StoreError::Unexpected("an idempotency key".to_owned());
        let stored = std::str::from_utf8(stored).map_err(|_| malformed())?;
        let mut parts = stored.split(':');
        let mut part = || parts.next().ok_or_else(malformed);
        let first = u64::from_str_radix(part()?, 16).map_err(|_| malformed())?;
        let changed = part()? == "1";
        let count = match part()? {
            "-" => None,
            count => Some(count.parse().map_err(|_| malformed())?),
        };
        match hash == Some(first) {
            true => Ok(GuardedReply::Replayed { changed, count }),
            false => Ok(GuardedReply::Reused),
        }
    }
}

/// Counters that a migration moves, and their place in the arguments of a call.
pub struct PlacedCounters<'a> {
    /// The counters.
    pub at: &'a MovingCounters,
    /// The index of the row in the arguments of the script or the command.
    pub row: usize,
    /// The minimum length of the object.
    pub min_len: usize,
}

impl PlacedCounters<'_> {
    /// Adds the arguments of moving_one.lua. `before` is the number of arguments before those in which the index of the row counts.
    pub fn add_arguments<K: AsRef<str>>(&self, cmd: &mut Cmd, keys: &[K], before: usize) {
        let key = keys.iter().position(|key| key.as_ref() == self.at.object);
        // Lua counts from 1.
        cmd.arg(key.unwrap_or_default() + 1)
            .arg(before + self.row + 1)
            .arg(self.min_len)
            .arg(&self.at.field);
    }
}

impl RedisCall {
    /// A command with its arguments.
    pub fn command(cmd: Cmd) -> RedisCall {
        RedisCall { cmd, script: None }
    }

    /// A command that uses these keys. With an idempotency key it runs at most once within the key's time to live.
    pub fn guarded(args: &[&str], keys: &[&str], guard: Option<&IdempotencyGuard>) -> RedisCall {
        let mut cmd = Cmd::new();
        match guard {
            None => RedisCall::command(cmd.arg(args).take()),
            Some(guard) => {
                let mut all: Vec<&str> = vec![&guard.key];
                all.extend(keys);
                let mut call = RedisCall::script(&IDEMPOTENT, &all);
                call.cmd.arg(guard.argument()).arg(args);
                call
            }
        }
    }

    /// [`guarded`](Self::guarded), for a command with a counter that a migration moves, or that has counts by day.
    pub fn of_counter(
        args: &[&str],
        keys: &[&str],
        guard: Option<&IdempotencyGuard>,
        (counters, day): (Option<&PlacedCounters<'_>>, Option<&CountedDay>),
    ) -> RedisCall {
        let mut all: Vec<&str> = guard.map(|guard| guard.key.as_str()).into_iter().collect();
        all.extend(keys);
        let template = (&COUNTER_COMMAND, CounterBackend::Module);
        RedisCall::counting(template, &all, (counters, day, 1), |cmd| {
            let guard = guard.map(IdempotencyGuard::argument);
            cmd.arg(guard.unwrap_or_default()).arg(args);
        })
    }

    /// A script that changes a counter. `add_arguments` adds the arguments of the script. The index of the row counts from argument
    /// `before`.
    pub fn counting<K: AsRef<str>>(
        (template, backend): (&'static ScriptTemplate, CounterBackend),
        keys: &[K],
        (counters, day, before): (Option<&PlacedCounters<'_>>, Option<&CountedDay>, usize),
        add_arguments: impl FnOnce(&mut Cmd),
    ) -> RedisCall {
        let script = match (counters, day) {
            (None, None) => template.on(backend),
            (None, Some(_)) => template.daily(backend),
            (Some(_), None) => template.moving(),
            (Some(_), Some(_)) => template.daily_moving(),
        };
        let mut all: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        if let Some(day) = day {
            all.extend(day.keys().iter().map(String::as_str));
        }
        if let Some(counters) = counters {
            all.extend([counters.at.table.as_str(), &counters.at.phases]);
        }
        let mut call = RedisCall::script(script, &all);
        add_arguments(&mut call.cmd);
        if let Some(day) = day {
            day.add_arguments(&mut call.cmd);
        }
        if let Some(counters) = counters {
            counters.add_arguments(&mut call.cmd, keys, before);
        }
        call
    }

    /// The permissions of [`of_counter`](Self::of_counter) calls, in addition to those of the command.
    pub fn counter_permissions() -> Permissions {
        COUNTER_COMMAND.required_permissions(CounterBackend::Module)
    }

    /// The permissions that [`guarded`](Self::guarded) calls of these commands require.
    pub fn guarded_permissions(commands: &[&str]) -> Permissions {
        Permissions::of_commands(commands)
            .through_script()
            .and(IDEMPOTENT.required_permissions())
    }

    /// A script with its keys. The caller adds the arguments.
    pub fn script<K: AsRef<str>>(code: &'static LoadedScript, keys: &[K]) -> RedisCall {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(code.script.get_hash()).arg(keys.len());
        for key in keys {
            cmd.arg(key.as_ref());
        }
        RedisCall {
            cmd,
            script: Some(code),
        }
    }

    /// Sends the call.
    ///
    /// # Errors
    /// The error of the server or the connection.
    pub async fn send(&self, store: &Store) -> Result<Value, RedisError> {
        self.send_on(store.commands()).await
    }

    /// Sends a call whose effect is confirmed, to a client for example: returns when it is as safe as `redis.ack` requires.
    ///
    /// # Errors
    /// The error of the server or the connection, or the effect is not safe.
    pub async fn send_confirmed(&self, store: &Store) -> Result<Value, RedisError> {
        self.send_on(store.writes()).await
    }

    /// Sends a call that writes nothing. It is retried once if its connection was lost.
    ///
    /// # Errors
    /// The error of the server or the connection.
    pub async fn send_read(&self, store: &Store) -> Result<Value, RedisError> {
        self.send_on(store.reads()).await
    }

    /// Sends a call that writes nothing, and whose reply may be as old as `redis.max_staleness_ms`.
    ///
    /// # Errors
    /// The error of the server or the connection.
    pub async fn send_replica_read(&self, store: &Store) -> Result<Value, RedisError> {
        let mut connection = store.replica_reads();
        let reply: Result<Value, RedisError> = self.cmd.query_async(&mut connection).await;
        match (reply, self.script) {
            (Err(error), Some(code)) if is_no_script(&error) => {
                // Into the replicas, too. The next call finds it there.
                code.script.load_async(&mut connection).await?;
                self.send_read(store).await
            }
            (reply, _) => reply,
        }
    }

    async fn send_on(&self, mut connection: impl ConnectionLike) -> Result<Value, RedisError> {
        let reply: Result<Value, RedisError> = self.cmd.query_async(&mut connection).await;
        match (reply, self.script) {
            // NOSCRIPT: the script was not executed.
            (Err(error), Some(code)) if is_no_script(&error) => {
                code.script.load_async(&mut connection).await?;
                self.cmd.query_async(&mut connection).await
            }
            (reply, _) => reply,
        }
    }
}

/// The scripts of some calls, each once.
pub fn scripts<'a>(calls: impl Iterator<Item = &'a RedisCall>) -> Vec<&'static LoadedScript> {
    let mut scripts: Vec<&'static LoadedScript> = Vec::new();
    for code in calls.filter_map(|call| call.script) {
        if !scripts.iter().any(|other| std::ptr::eq(*other, code)) {
            scripts.push(code);
        }
    }
    scripts
}

/// Sends read-only calls as one pipeline. Returns their replies, in order.
///
/// # Errors
/// The store is unavailable. The inner errors are those of calls.
pub async fn send_reads(
    store: &Store,
    calls: &[RedisCall],
) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let replies = send_reads_after(store, &[], calls).await?;
    // Texts of scripts are long, and servers usually have them. Otherwise nothing was executed.
    let is_missing = |reply: &Result<Value, RedisError>| reply.as_ref().is_err_and(is_no_script);
    match replies.iter().any(is_missing) {
        true => send_reads_after(store, &scripts(calls.iter()), calls).await,
        false => Ok(replies),
    }
}

/// Loads scripts, and sends read-only calls, as one pipeline.
async fn send_reads_after(
    store: &Store,
    scripts: &[&'static LoadedScript],
    calls: &[RedisCall],
) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
    let mut pipeline = redis::pipe();
    for script in scripts {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
    }
    for call in calls {
        pipeline.add_command(call.cmd.clone());
    }
    pipeline.ignore_errors();
    let replies: Vec<Result<Value, RedisError>> = pipeline.query_async(&mut store.reads()).await?;
    Ok(replies.into_iter().skip(scripts.len()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str) -> Value {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Value::Array(vec![bulk("R"), bulk(text)])
    }

    #[test]
    fn stored_answers_are_decoded() {
        let decode = |text: &str| GuardedReply::decode(stored(text), Some(0xab));
        let replayed = |changed, count| GuardedReply::Replayed { changed, count };
        for (text, expected) in [
            ("00000000000000ab:1:12", replayed(true, Some(12))),
            ("00000000000000ab:0:0", replayed(false, Some(0))),
            ("00000000000000ab:1:-", replayed(true, None)),
            ("1", GuardedReply::ReplayedUnknown),
            ("00000000000000ac:1:12", GuardedReply::Reused),
        ] {
            assert_eq!(decode(text).expect("an answer"), expected, "{text}");
        }
        for text in ["", "2", "x:1:1", "ab:1", "ab:1:x"] {
            assert!(decode(text).is_err(), "{text}");
        }
        let reply = Value::Array(vec![Value::Int(1), Value::Nil]);
        let executed = GuardedReply::decode(reply.clone(), Some(1)).expect("a reply");
        assert_eq!(executed, GuardedReply::Executed(reply));
    }
}
