//! Connections that receive notices of changes of the logs: `CLIENT TRACKING` in broadcasting mode.

use super::error::FeedError;
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, PushKind, Value};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["CLIENT TRACKING OFF"];

/// The logs that have changed.
#[derive(Default)]
struct Changes {
    partitions: BTreeSet<Partition>,
    /// Whether notices may be missing.
    is_lost: bool,
}

/// What the connections and their readers share.
struct Inbox {
    /// What the key of a log has before the number of its partition, and after it.
    prefix: String,
    suffix: String,
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
        number.strip_suffix(&self.suffix)?.parse().ok()
    }
}

/// Opens connections that receive notices of changes.
pub(super) struct Subscriber {
    inbox: Arc<Inbox>,
    timeout: Duration,
}

impl Subscriber {
    /// A subscriber without connections.
    pub fn new(store: &Store) -> Subscriber {
        // The keys of logs differ in the number of the partition only.
        let log = store.keys().log(0);
        let (prefix, suffix) = log.rsplit_once('0').unwrap_or((&log, ""));
        Subscriber {
            inbox: Arc::new(Inbox {
                prefix: prefix.to_owned(),
                suffix: suffix.to_owned(),
                changes: Mutex::default(),
                notify: Notify::new(),
            }),
            timeout: store.timeout(),
        }
    }

    /// Is notified of changes.
    pub fn notify(&self) -> &Notify {
        &self.inbox.notify
    }

    /// The partitions of which notices have arrived since the last call.
    ///
    /// # Errors
    /// Notices may be missing.
    pub fn take(&self) -> Result<BTreeSet<Partition>, FeedError> {
        let mut changes = self.inbox.lock();
        match changes.is_lost {
            true => Err(FeedError::Lost),
            false => Ok(std::mem::take(&mut changes.partitions)),
        }
    }

    /// Connects. Changes from now on are noticed.
    ///
    /// # Errors
    /// Redis is unavailable, or rejects a command.
    pub async fn open(&self, client: &Client) -> Result<MultiplexedConnection, FeedError> {
        let info = client.get_connection_info().clone();
        let settings = info.redis_settings().clone();
        // Only RESP3 has notices on the connection of the replies.
        let settings = settings.set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings))?;
        let receiver = Arc::clone(&self.inbox);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout))
            .set_push_sender(move |push: PushInfo| {
                receiver.receive(&push);
                Ok::<(), Infallible>(())
            });
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connection.await?;
        let mut cmd = redis::cmd("CLIENT");
        cmd.arg(&["TRACKING", "ON", "BCAST", "PREFIX"]);
        cmd.arg(&self.inbox.prefix);
        cmd.exec_async(&mut connection).await?;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(kind: PushKind, data: Vec<Value>) -> PushInfo {
        PushInfo { kind, data }
    }

    fn inbox(prefix: &str, suffix: &str) -> Inbox {
        Inbox {
            prefix: prefix.to_owned(),
            suffix: suffix.to_owned(),
            changes: Mutex::default(),
            notify: Notify::new(),
        }
    }

    fn changed(inbox: &Inbox, keys: &[&str]) -> BTreeSet<Partition> {
        let keys = keys.iter().map(|key| key.as_bytes().to_vec());
        let keys = keys.map(Value::BulkString).collect();
        inbox.receive(&push(PushKind::Invalidate, vec![Value::Array(keys)]));
        inbox.lock().partitions.clone()
    }

    #[test]
    fn notices_name_the_logs_that_have_changed() {
        let keys = [
            "x:cnt-update:7",
            "x:cnt-update:pos",
            "x:cnt-update:1023",
            "x:cnt-update:7:new",
            "x",
        ];
        let server = inbox("x:cnt-update:", "");
        assert_eq!(changed(&server, &keys), BTreeSet::from([7, 1023]));
        let keys = [
            "x:cnt-update:{7}",
            "x:cnt-update:{8}:pos",
            "x:cnt-update:{1023}",
            "x:cnt-update:{9}:dead",
        ];
        let cluster = inbox("x:cnt-update:{", "}");
        assert_eq!(changed(&cluster, &keys), BTreeSet::from([7, 1023]));
        assert!(!cluster.lock().is_lost);
        for lost in [
            push(PushKind::Invalidate, vec![Value::Nil]),
            push(PushKind::Disconnection, Vec::new()),
        ] {
            cluster.lock().is_lost = false;
            cluster.receive(&lost);
            assert!(cluster.lock().is_lost);
        }
    }
}
