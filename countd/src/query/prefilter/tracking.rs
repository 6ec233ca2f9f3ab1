//! Notices of changes of the logs: a connection with `CLIENT TRACKING` in broadcasting mode.

use super::error::FeedError;
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, PushKind, Value};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["CLIENT TRACKING OFF", "PING"];

/// The logs that have changed.
#[derive(Default)]
struct Changes {
    partitions: BTreeSet<Partition>,
    /// Whether notices may be missing.
    is_lost: bool,
}

/// What the connection and its reader share.
struct Inbox {
    prefix: String,
    changes: Mutex<Changes>,
    notify: Notify,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&self, push: &PushInfo) {
        let mut changes = self.lock();
        match (&push.kind, push.data.as_slice()) {
            (PushKind::Invalidate, [Value::Array(keys)]) => {
                for key in keys {
                    match key {
                        Value::BulkString(key) => changes.partitions.extend(self.partition(key)),
                        _ => changes.is_lost = true,
                    }
                }
            }
            // All data was deleted, or the connection was closed.
            (PushKind::Invalidate | PushKind::Disconnection, _) => changes.is_lost = true,
            _ => return,
        }
        self.notify.notify_one();
    }

    /// The partition of a log. Other keys have the same prefix: positions, dead letters.
    fn partition(&self, key: &[u8]) -> Option<Partition> {
        let number = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        number.parse().ok()
    }
}

/// A connection that receives notices of changes.
pub(super) struct Tracking {
    connection: MultiplexedConnection,
    inbox: Arc<Inbox>,
}

impl Tracking {
    /// Connects. Changes from now on are noticed.
    ///
    /// # Errors
    /// Redis is unavailable, or rejects a command.
    pub async fn start(store: &Store) -> Result<Tracking, FeedError> {
        let info = store.endpoint().client().get_connection_info().clone();
        let settings = info.redis_settings().clone();
        // Only RESP3 has notices on the connection of the replies.
        let settings = settings.set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings))?;
        // The keys of logs end with the number of the partition.
        let log = store.keys().log(0);
        let prefix = log.trim_end_matches('0').to_owned();
        let inbox = Arc::new(Inbox {
            changes: Mutex::default(),
            notify: Notify::new(),
            prefix: prefix.clone(),
        });
        let receiver = Arc::clone(&inbox);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(store.timeout()))
            .set_response_timeout(Some(store.timeout()))
            .set_push_sender(move |push: PushInfo| {
                receiver.receive(&push);
                Ok::<(), Infallible>(())
            });
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connection.await?;
        let mut cmd = redis::cmd("CLIENT");
        cmd.arg(&["TRACKING", "ON", "BCAST", "PREFIX"]).arg(prefix);
        cmd.exec_async(&mut connection).await?;
        Ok(Tracking { connection, inbox })
    }

    /// Is notified of changes.
    pub fn notify(&self) -> &Notify {
        &self.inbox.notify
    }

    /// The partitions whose logs have changed since the last call: all changes that were acknowledged before this call are among them.
    ///
    /// # Errors
    /// Notices may be missing.
    pub async fn changed(&mut self) -> Result<BTreeSet<Partition>, FeedError> {
        redis::cmd("PING").exec_async(&mut self.connection).await?;
        let mut changes = self.inbox.lock();
        match changes.is_lost {
            true => Err(FeedError::Lost),
            false => Ok(std::mem::take(&mut changes.partitions)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(kind: PushKind, data: Vec<Value>) -> PushInfo {
        PushInfo { kind, data }
    }

    #[test]
    fn notices_name_the_logs_that_have_changed() {
        let inbox = Inbox {
            prefix: "x:cnt-update:".to_owned(),
            changes: Mutex::default(),
            notify: Notify::new(),
        };
        let keys = [
            "x:cnt-update:7",
            "x:cnt-update:pos",
            "x:cnt-update:1023",
            "x:cnt-update:7:new",
            "x",
        ];
        let keys = keys
            .map(|key| Value::BulkString(key.as_bytes().to_vec()))
            .to_vec();
        inbox.receive(&push(PushKind::Invalidate, vec![Value::Array(keys)]));
        assert_eq!(inbox.lock().partitions, BTreeSet::from([7, 1023]));
        assert!(!inbox.lock().is_lost);
        for lost in [
            push(PushKind::Invalidate, vec![Value::Nil]),
            push(PushKind::Disconnection, Vec::new()),
        ] {
            inbox.lock().is_lost = false;
            inbox.receive(&lost);
            assert!(inbox.lock().is_lost);
        }
    }
}
