//! Records enqueued in a client of librdkafka and not confirmed yet.

use super::producing_client::{Client, ProducingClient};
use rdkafka::error::KafkaError;
use rdkafka::producer::DeliveryFuture;
use rdkafka::producer::future_producer::Delivery;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

/// The records of a request, and their client. If one is not confirmed in time, the client is replaced, also if the request was cancelled.
pub(super) struct UnconfirmedRecords {
    clients: Arc<ProducingClient>,
    client: Arc<Client>,
    /// `None` is never.
    deadline: Option<Instant>,
    /// In the order in which they were offered.
    records: VecDeque<Result<DeliveryFuture, KafkaError>>,
    /// Timed-out records.
    late: Vec<DeliveryFuture>,
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
            late: Vec::new(),
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
                Some(deadline) => timeout_at(deadline, delivery).await.ok().map(flatten),
                None => Some(flatten(delivery.await)),
            },
            // The queue is full, or the client has failed.
            Err(error) => Some(Err(error.clone())),
        };
        let record = self.records.pop_front();
        Some(match confirmed {
            Some(Ok(delivery)) => Ok(delivery),
            Some(Err(error)) => {
                self.clients.replace_failed(&self.client);
                Err(error)
            }
            None => {
                self.late.extend(record.and_then(Result::ok));
                let timed_out = RDKafkaErrorCode::MessageTimedOut;
                Err(KafkaError::MessageProduction(timed_out))
            }
        })
    }
}

/// What became of a record. An error of the outer result is that of a client that was dropped.
fn flatten<M, E>(
    delivery: Result<Result<Delivery, (KafkaError, M)>, E>,
) -> Result<Delivery, KafkaError> {
    match delivery {
        Ok(Ok(delivery)) => Ok(delivery),
        Ok(Err((error, _))) => Err(error),
        Err(_) => Err(KafkaError::Canceled),
    }
}

impl Drop for UnconfirmedRecords {
    fn drop(&mut self) {
        let Some(deadline) = self.deadline else {
            return;
        };
        let mut left = std::mem::take(&mut self.late);
        left.extend(self.records.drain(..).filter_map(Result::ok));
        if left.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (clients, client) = (Arc::clone(&self.clients), Arc::clone(&self.client));
        runtime.spawn(async move {
            let patience = client.patience(deadline);
            for delivery in left {
                if timeout_at(patience, delivery).await.is_err() {
                    clients.replace_late(&client);
                    return;
                }
            }
        });
    }
}
