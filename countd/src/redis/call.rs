//! Commands and scripts for Redis, ready to be sent.

use crate::domain::error::is_no_script;
use crate::redis::script::{LoadedScript, script};
use crate::redis::store::Store;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, Value};
use std::sync::LazyLock;

/// Runs a command once for an idempotency key.
static GUARDED: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(script(include_str!("../lua/guarded.lua"))));

/// A command, or the call of a script.
pub struct RedisCall {
    /// What is sent.
    pub cmd: Cmd,
    /// The script that it calls.
    pub script: Option<&'static LoadedScript>,
}

/// What is remembered of an idempotency key.
#[derive(Clone, Debug)]
pub struct IdempotencyGuard {
    /// Its key.
    pub key: String,
    /// For how many seconds it is remembered.
    pub seconds: u64,
}

impl RedisCall {
    /// A command with its arguments.
    pub fn command(cmd: Cmd) -> RedisCall {
        RedisCall { cmd, script: None }
    }

    /// A command that uses these keys, done once for an idempotency key if there is one.
    pub fn guarded(words: &[&str], keys: &[&str], guard: Option<&IdempotencyGuard>) -> RedisCall {
        let mut cmd = Cmd::new();
        match guard {
            None => RedisCall::command(cmd.arg(words).take()),
            Some(guard) => {
                let mut all: Vec<&str> = vec![&guard.key];
                all.extend(keys);
                let mut call = RedisCall::script(&GUARDED, &all);
                call.cmd.arg(guard.seconds).arg(words);
                call
            }
        }
    }

    /// A script with its keys. Its arguments are to be added.
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

    /// Sends it.
    ///
    /// # Errors
    /// As the server or the connection has them.
    pub async fn send(&self, store: &Store) -> Result<Value, RedisError> {
        self.send_by(store.commands()).await
    }

    /// Sends one that changes nothing: if it was lost with its connection, once more.
    ///
    /// # Errors
    /// As the server or the connection has them.
    pub async fn ask(&self, store: &Store) -> Result<Value, RedisError> {
        self.send_by(store.reads()).await
    }

    async fn send_by(&self, mut connection: impl ConnectionLike) -> Result<Value, RedisError> {
        let sent: Result<Value, RedisError> = self.cmd.query_async(&mut connection).await;
        match (sent, self.script) {
            // The server has not seen the script since it started: it did not run.
            (Err(why), Some(code)) if is_no_script(&why) => {
                code.script.load_async(&mut connection).await?;
                self.cmd.query_async(&mut connection).await
            }
            (sent, _) => sent,
        }
    }
}

/// The scripts that some calls need, each once.
pub fn scripts<'a>(calls: impl Iterator<Item = &'a RedisCall>) -> Vec<&'static LoadedScript> {
    let mut found: Vec<&'static LoadedScript> = Vec::new();
    for code in calls.filter_map(|call| call.script) {
        if !found.iter().any(|known| std::ptr::eq(*known, code)) {
            found.push(code);
        }
    }
    found
}
