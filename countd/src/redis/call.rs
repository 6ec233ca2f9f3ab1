//! A command or script call, ready to be sent.

use crate::domain::error::is_no_script;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, Value};
use std::sync::LazyLock;

/// Runs a command once for an idempotency key.
static IDEMPOTENT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../lua/idempotent.lua")));

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
                call.cmd.arg(guard.seconds).arg(args);
                call
            }
        }
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

    /// Sends a call that writes nothing. It is retried once if its connection was lost.
    ///
    /// # Errors
    /// The error of the server or the connection.
    pub async fn send_read(&self, store: &Store) -> Result<Value, RedisError> {
        self.send_on(store.reads()).await
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
