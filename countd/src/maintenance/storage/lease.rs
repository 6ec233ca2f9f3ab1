//! The lock that keeps two migrations from running at the same time. Two would do no harm: the lock only avoids double work.

use super::error::MigrationError;
use crate::redis::processes::LiveProcess;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::RedisError;
use std::sync::LazyLock;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Acquires, renews or releases a lock.
pub static LEASE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/lease.lua")));

/// Commands of [`Lease::holder`].
pub(in crate::maintenance) const HOLDER_PERMISSIONS: &[&str] = &["GET {migration}"];

/// The step of a migration that waits for the lock.
pub(super) const WAITING_FOR_LOCK: &str = "waiting for the lock of another migration";

/// The time to live of the lock.
const LIFETIME: Duration = Duration::from_secs(10);
/// How long to wait for the lock. The lock of a migration that was killed expires in that time.
const PATIENCE: Duration = Duration::from_secs(12);
const INTERVAL: Duration = Duration::from_secs(1);

/// The lock, renewed until it is dropped.
pub(in crate::maintenance) struct Lease {
    store: Store,
    token: String,
    is_lost: Arc<AtomicBool>,
    renewal: JoinHandle<()>,
}

impl Lease {
    /// Acquires the lock. `waiting` is called once if another migration has it.
    ///
    /// # Errors
    /// Another migration keeps the lock, or Redis failed.
    pub async fn acquire(store: &Store, waiting: impl FnOnce()) -> Result<Lease, MigrationError> {
        let token = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
        let (started, mut waiting) = (Instant::now(), Some(waiting));
        while !set(store, &token, LIFETIME).await? {
            if started.elapsed() > PATIENCE {
                let problem = "another migration is running";
                return Err(MigrationError::Refused(problem.to_owned()));
            }
            if let Some(waiting) = waiting.take() {
                waiting();
            }
            tokio::time::sleep(INTERVAL).await;
        }
        let is_lost = Arc::new(AtomicBool::new(false));
        let renewal = tokio::spawn(renew(store.clone(), token.clone(), Arc::clone(&is_lost)));
        Ok(Lease {
            store: store.clone(),
            token,
            is_lost,
            renewal,
        })
    }

    /// The process ID of the command that has the lock; `None` if no migration runs. The lock of one that was killed expires within ten seconds.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn holder(store: &Store) -> Result<Option<String>, RedisError> {
        let mut cmd = redis::cmd("GET");
        cmd.arg(store.keys().migration_lock());
        let token: Option<String> = cmd.query_async(&mut store.reads()).await?;
        Ok(token.map(|token| LiveProcess::pid_of(&token).to_owned()))
    }

    /// Checks that no other migration has taken the lock.
    ///
    /// # Errors
    /// It has.
    pub fn check(&self) -> Result<(), MigrationError> {
        match self.is_lost.load(Ordering::Acquire) {
            true => Err(MigrationError::LockLost),
            false => Ok(()),
        }
    }

    /// Releases the lock.
    pub async fn release(self) {
        self.renewal.abort();
        // It would expire soon.
        let _ = set(&self.store, &self.token, Duration::ZERO).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

async fn renew(store: Store, token: String, is_lost: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // If Redis is unavailable, so it is for other migrations.
        if let Ok(false) = set(&store, &token, LIFETIME).await {
            is_lost.store(true, Ordering::Release);
            return;
        }
    }
}

async fn set(store: &Store, token: &str, lifetime: Duration) -> Result<bool, RedisError> {
    LEASE
        .script
        .key(store.keys().migration_lock())
        .arg(token)
        .arg(lifetime.as_millis() as u64)
        .invoke_async(&mut store.commands())
        .await
}
