//! A memory budget for request bodies and their items, independent of the number of clients.
//!
//! A body reserves memory as it arrives, so a client that announces a long body and sends nothing reserves none. If the budget is
//! used up, the request waits a moment and is then rejected with 503, before more of the body is read.

use crate::domain::config::HttpConfig;
use crate::domain::error::Problem;
use axum::body::Body;
use futures_util::StreamExt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// The bytes of one semaphore permit.
const PERMIT_BYTES: usize = 1024;
/// The maximum length of a body that needs no permit, so that single actions and small pages are served while long bodies use up
/// the budget. `http.max_connections` bounds their number.
const UNBUDGETED: usize = 8 * 1024;
/// How long a request waits for the budget.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The number of bodies that may exceed the budget after waiting for [`OVERDRAFT_DELAY`]. Without an overdraft, all bodies could
/// wait for memory that other waiting bodies hold.
const OVERDRAFTS: usize = 2;
const OVERDRAFT_DELAY: Duration = Duration::from_millis(100);

/// The budget of a process.
#[derive(Clone)]
pub struct BodyBudget {
    bytes: Arc<Semaphore>,
    overdraft: Arc<Semaphore>,
    items: Arc<Semaphore>,
    /// The number of permits of `bytes` and of `items`.
    permits: usize,
    max_body: usize,
}

/// Why a body was not read.
pub enum BodyError {
    /// It is longer than `http.max_body_bytes`.
    TooLong,
    /// The budget is used up.
    Busy,
    /// The connection broke, or the encoding is invalid.
    Broken(String),
}

/// A request body and its share of the budget.
pub struct RequestBody {
    bytes: Vec<u8>,
    _reservation: Reservation,
}

/// The share of the budget that a body holds.
#[derive(Default)]
struct Reservation {
    bytes: Option<OwnedSemaphorePermit>,
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Deref for RequestBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl RequestBody {
    /// Frees the bytes. The reservation is kept for the values parsed from them.
    pub fn release_bytes(&mut self) {
        self.bytes = Vec::new();
    }
}

impl BodyBudget {
    /// Creates the configured budget.
    pub fn new(settings: &HttpConfig) -> BodyBudget {
        let permits = (settings.max_bodies_bytes / PERMIT_BYTES).min(Semaphore::MAX_PERMITS);
        BodyBudget {
            bytes: Arc::new(Semaphore::new(permits)),
            overdraft: Arc::new(Semaphore::new(OVERDRAFTS)),
            items: Arc::new(Semaphore::new(permits)),
            permits,
            max_body: settings.max_body_bytes,
        }
    }

    /// Reads a body.
    ///
    /// # Errors
    /// The body is too long, the budget is used up, or the connection broke.
    pub async fn read(&self, body: Body) -> Result<RequestBody, BodyError> {
        // A vector, because its exact capacity is what the reservation accounts for. Frames are copied at once: a list of frames of
        // one byte would take many times their length.
        let mut bytes: Vec<u8> = Vec::new();
        let mut reservation = Reservation::default();
        let mut frames = body.into_data_stream();
        while let Some(frame) = frames.next().await {
            let frame = frame.map_err(|error| BodyError::Broken(error.to_string()))?;
            let length = bytes.len() + frame.len();
            if length > self.max_body {
                return Err(BodyError::TooLong);
            }
            if length > bytes.capacity() {
                let mut capacity = length.max(bytes.capacity() * 2).min(self.max_body);
                if length <= UNBUDGETED {
                    capacity = capacity.min(UNBUDGETED);
                }
                self.grow(&mut reservation, capacity).await?;
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&frame);
        }
        Ok(RequestBody {
            bytes,
            _reservation: reservation,
        })
    }

    /// Grows a reservation to the given capacity.
    async fn grow(&self, reservation: &mut Reservation, capacity: usize) -> Result<(), BodyError> {
        if capacity <= UNBUDGETED || reservation.overdraft.is_some() {
            return Ok(());
        }
        let needed = capacity.div_ceil(PERMIT_BYTES).min(self.permits);
        let held = reservation.bytes.as_ref();
        let held = held.map_or(0, OwnedSemaphorePermit::num_permits);
        let overdraft = async {
            sleep(OVERDRAFT_DELAY).await;
            Arc::clone(&self.overdraft).acquire_owned().await
        };
        tokio::select! {
            more = acquire(&self.bytes, needed.saturating_sub(held)) => {
                let more = more.ok_or(BodyError::Busy)?;
                match &mut reservation.bytes {
                    Some(bytes) => bytes.merge(more),
                    None => reservation.bytes = Some(more),
                }
            }
            overdraft = overdraft => reservation.overdraft = overdraft.ok(),
        }
        Ok(())
    }

    /// Reserves memory for the items of a request, until the permit is dropped.
    ///
    /// # Errors
    /// [`Problem::Busy`] if the budget is used up.
    pub async fn reserve_items(&self, items: usize) -> Result<OwnedSemaphorePermit, Problem> {
        acquire(&self.items, items.min(self.permits))
            .await
            .ok_or(Problem::Busy)
    }
}

async fn acquire(semaphore: &Arc<Semaphore>, permits: usize) -> Option<OwnedSemaphorePermit> {
    let permits = u32::try_from(permits).unwrap_or(u32::MAX);
    let acquired = timeout(MAX_WAIT, Arc::clone(semaphore).acquire_many_owned(permits)).await;
    // The semaphore is never closed.
    acquired.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use futures_util::stream;
    use std::convert::Infallible;

    fn budget(max_body: usize, max_bodies: usize) -> BodyBudget {
        let mut http = crate::domain::config::Config::parse("")
            .expect("valid")
            .http;
        (http.max_body_bytes, http.max_bodies_bytes) = (max_body, max_bodies);
        BodyBudget::new(&http)
    }

    fn body(frames: usize, frame_bytes: usize) -> Body {
        let frame = move |_| Ok::<_, Infallible>(Bytes::from(vec![b'x'; frame_bytes]));
        Body::from_stream(stream::iter((0..frames).map(frame)))
    }

    #[tokio::test]
    async fn bodies_use_the_budget_until_they_are_dropped() {
        let budget = budget(100_000, 200 * 1_024);
        let mut bodies = Vec::new();
        for _ in 0..2 + OVERDRAFTS {
            let read = budget.read(body(100, 900)).await;
            bodies.push(read.unwrap_or_else(|_| panic!("within the budget")));
        }
        assert_eq!(bodies[0].len(), 90_000);
        assert!(matches!(
            budget.read(body(100, 900)).await,
            Err(BodyError::Busy)
        ));
        let small = budget.read(body(8, 1_000)).await;
        assert!(small.is_ok_and(|small| small.len() == 8_000));
        bodies.pop();
        assert!(budget.read(body(90_000, 1)).await.is_ok());
    }

    #[tokio::test]
    async fn concurrent_bodies_do_not_deadlock() {
        let budget = budget(100_000, 200 * 1_024);
        let slow = || {
            let frame = |_| async {
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(Bytes::from(vec![b'x'; 900]))
            };
            Body::from_stream(stream::iter(0..100).then(frame))
        };
        let reads = (0..20).map(|_| async { budget.read(slow()).await.is_ok() });
        let read = futures_util::future::join_all(reads).await;
        assert_eq!(read, [true; 20]);
    }

    #[tokio::test]
    async fn long_bodies_are_rejected() {
        let budget = budget(1_000, 200_000);
        assert!(budget.read(body(1, 1_000)).await.is_ok());
        assert!(matches!(
            budget.read(body(2, 501)).await,
            Err(BodyError::TooLong)
        ));
    }

    #[tokio::test]
    async fn items_use_a_budget_of_their_own() {
        let budget = budget(1_024, 10_240);
        let all = budget.reserve_items(1_000_000).await.expect("all permits");
        assert!(matches!(budget.reserve_items(1).await, Err(Problem::Busy)));
        drop(all);
        assert!(budget.reserve_items(10).await.is_ok());
    }
}
