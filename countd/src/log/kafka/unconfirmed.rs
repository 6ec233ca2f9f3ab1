//! Records that a client of librdkafka has got, and that are not confirmed yet.

use super::producing_client::{Client, ProducingClient};
use rdkafka::error::KafkaError;
use rdkafka::producer::DeliveryFuture;
use rdkafka::producer::future_producer::Delivery;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

/// Records in the order in which they were offered, and their client. If one is not confirmed in time, the client is replaced, also if nobody
/// waits for the records any more, because a request was cancelled.
pub(super) struct UnconfirmedRecords {
    clients: Arc<ProducingClient>,
    client: Client,
    /// `None` is never.
    deadline: Option<Instant>,
    records: VecDeque<Result<DeliveryFuture, KafkaError>>,
}

impl UnconfirmedRecords {
    /// No records of the current client.
    pub fn new(
        clients: &Arc<ProducingClient>,
        deadline: Option<Instant>,
        capacity: usize,
    ) -> UnconfirmedRecords {
        UnconfirmedRecords {
            clients: Arc::clone(clients),
            client: clients.current(),
            deadline,
            records: VecDeque::with_capacity(capacity),
        }
    }

    /// The client of the records.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Until when they have to be confirmed.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Adds a record that was offered to the client.
    pub fn push(&mut self, offered: Result<DeliveryFuture, KafkaError>) {
        self.records.push_back(offered);
    }

    /// Waits for the first record, and removes it. `None` if there are none.
    pub async fn next(&mut self) -> Option<Result<Delivery, KafkaError>> {
        let confirmed = match self.records.front_mut()? {
            Ok(delivery) => match self.deadline {
                Some(deadline) => timeout_at(deadline, delivery).await,
                None => Ok(delivery.await),
            },
            Err(error) => {
                let error = error.clone();
                self.records.pop_front();
                return Some(Err(error));
            }
        };
        self.records.pop_front();
        Some(match confirmed {
            Ok(Ok(Ok(delivery))) => Ok(delivery),
            Ok(Ok(Err((error, _)))) => Err(error),
            // The client was dropped.
            Ok(Err(_)) => Err(KafkaError::Canceled),
            Err(_) => {
                let reason = "a record was not confirmed in kafka.timeout_ms";
                self.clients.replace(&self.client, reason);
                Err(KafkaError::MessageProduction(
                    RDKafkaErrorCode::MessageTimedOut,
                ))
            }
        })
    }
}

impl Drop for UnconfirmedRecords {
    fn drop(&mut self) {
        if self.records.is_empty() || self.deadline.is_none() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut left = UnconfirmedRecords {
            clients: Arc::clone(&self.clients),
            client: Arc::clone(&self.client),
            deadline: self.deadline,
            records: std::mem::take(&mut self.records),
        };
        runtime.spawn(async move { while left.next().await.is_some() {} });
    }
}
