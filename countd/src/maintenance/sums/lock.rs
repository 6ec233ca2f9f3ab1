//! The lock that keeps two processes from doing the work of the same sweep. Two would do no harm: the lock only avoids double work.

use crate::domain::error::StoreError;
use crate::maintenance::storage::LEASE;
use crate::redis::store::Store;
use std::time::Duration;

/// The time to live of the lock.
const LIFETIME: Duration = Duration::from_secs(10);
/// The delay between two renewals.
const INTERVAL: Duration = Duration::from_secs(3);

/// A lock of Redis.
pub struct Lock {
    store: Store,
    key: &'static str,
    token: String,
}

impl Lock {
    /// A lock that is not acquired.
    pub fn new(store: Store, key: &'static str) -> Lock {
        Lock {
            store,
            key,
            token: format!("{}-{:016x}", std::process::id(), fastrand::u64(..)),
        }
    }

    /// Runs some work while the lock is renewed. Without the lock nothing is done: `None`.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<Option<T>, StoreError> {
        if !self.set(LIFETIME).await? {
            return Ok(None);
        }
        let renewal = async {
            loop {
                tokio::time::sleep(INTERVAL).await;
                if !matches!(self.set(LIFETIME).await, Ok(true) | Err(_)) {
                    return;
                }
            }
        };
        let result = tokio::select! {
            result = work => result.map(Some),
            () = renewal => return Ok(None),
        };
        self.set(Duration::ZERO).await?;
        result
    }

    async fn set(&self, lifetime: Duration) -> Result<bool, StoreError> {
        let mut call = LEASE.script.key(self.key);
        call.arg(&self.token).arg(lifetime.as_millis() as u64);
        Ok(call.invoke_async(&mut self.store.commands()).await?)
    }
}
