//! GrantCache for requests: what their bodies and items may take together, however many clients there are.
//!
//! A body takes budget as it arrives, so a client that announces a long one and sends nothing takes none. Where there is no budget the
//! request waits a moment and is then refused with 503, before more of it is read.

use crate::domain::config::HttpConfig;
use crate::domain::error::Problem;
use axum::body::Body;
use futures_util::StreamExt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// What a semaphore counts, in bytes.
const UNIT: usize = 1024;
/// Bodies up to this length take no budget: single actions and small pages go on while long bodies fill it. `http.max_connections` bounds them.
const FREE: usize = 8 * 1024;
/// How long a request waits for budget.
const WAIT: Duration = Duration::from_secs(2);
/// So many bodies may grow without budget, after waiting for so long: else all could wait for what the others have taken of it.
const OVERDRAFTS: usize = 2;
const PATIENCE: Duration = Duration::from_millis(100);

/// What all requests of a process share.
#[derive(Clone)]
pub struct BodyBudget {
    bytes: Arc<Semaphore>,
    overdraft: Arc<Semaphore>,
    items: Arc<Semaphore>,
    units: usize,
    max_body: usize,
}

/// Why a body was not read.
pub enum Unread {
    /// It is longer than `http.max_body_bytes`.
    TooLong,
    /// There is no budget.
    Busy,
    /// It broke off.
    Broken(String),
}

/// A body, and the budget that it takes.
pub struct Raw {
    bytes: Vec<u8>,
    _held: Held,
}

/// What a body takes.
#[derive(Default)]
struct Held {
    budget: Option<OwnedSemaphorePermit>,
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Deref for Raw {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Raw {
    /// Frees the bytes, and goes on taking their budget for what was made of them.
    pub fn free(&mut self) {
        self.bytes = Vec::new();
    }
}

impl BodyBudget {
    /// As configured.
    pub fn new(settings: &HttpConfig) -> BodyBudget {
        let units = (settings.max_bodies_bytes / UNIT).min(Semaphore::MAX_PERMITS);
        BodyBudget {
            bytes: Arc::new(Semaphore::new(units)),
            overdraft: Arc::new(Semaphore::new(OVERDRAFTS)),
            items: Arc::new(Semaphore::new(units)),
            units,
            max_body: settings.max_body_bytes,
        }
    }

    /// Reads a body.
    ///
    /// # Errors
    /// It is too long, there is no budget for it, or it broke off.
    pub async fn read(&self, body: Body) -> Result<Raw, Unread> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut held = Held::default();
        // Copied together at once: a list of frames costs many times their bytes where a client sends a byte in each.
        let mut frames = body.into_data_stream();
        while let Some(frame) = frames.next().await {
            let frame = frame.map_err(|why| Unread::Broken(why.to_string()))?;
            let wanted = bytes.len() + frame.len();
            if wanted > self.max_body {
                return Err(Unread::TooLong);
            }
            if wanted > bytes.capacity() {
                let mut capacity = wanted.max(bytes.capacity() * 2).min(self.max_body);
                if wanted <= FREE {
                    capacity = capacity.min(FREE);
                }
                self.grow(&mut held, capacity).await?;
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&frame);
        }
        Ok(Raw { bytes, _held: held })
    }

    /// Takes as much as a body of this length needs.
    async fn grow(&self, held: &mut Held, bytes: usize) -> Result<(), Unread> {
        if bytes <= FREE || held.overdraft.is_some() {
            return Ok(());
        }
        let needed = bytes.div_ceil(UNIT).min(self.units);
        let has = held.budget.as_ref();
        let has = has.map_or(0, OwnedSemaphorePermit::num_permits);
        let overdraft = async {
            sleep(PATIENCE).await;
            Arc::clone(&self.overdraft).acquire_owned().await
        };
        tokio::select! {
            more = take(&self.bytes, needed.saturating_sub(has)) => {
                let more = more.ok_or(Unread::Busy)?;
                match &mut held.budget {
                    Some(budget) => budget.merge(more),
                    None => held.budget = Some(more),
                }
            }
            overdraft = overdraft => held.overdraft = overdraft.ok(),
        }
        Ok(())
    }

    /// Takes a share for the items of a request, which it has until the result is dropped.
    ///
    /// # Errors
    /// [`Problem::Busy`]: the requests under way have too many.
    pub async fn share(&self, items: usize) -> Result<OwnedSemaphorePermit, Problem> {
        take(&self.items, items.min(self.units))
            .await
            .ok_or(Problem::Busy)
    }
}

async fn take(of: &Arc<Semaphore>, permits: usize) -> Option<OwnedSemaphorePermit> {
    let permits = u32::try_from(permits).unwrap_or(u32::MAX);
    let taken = timeout(WAIT, Arc::clone(of).acquire_many_owned(permits)).await;
    // Nobody closes the semaphore.
    taken.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use futures_util::stream;
    use std::convert::Infallible;

    fn budget(max_body: usize, max_bodies: usize) -> BodyBudget {
        let mut http = crate::domain::config::Config::parse("")
            .expect("sound")
            .http;
        (http.max_body_bytes, http.max_bodies_bytes) = (max_body, max_bodies);
        BodyBudget::new(&http)
    }

    fn body(frames: usize, each: usize) -> Body {
        let frame = move |_| Ok::<_, Infallible>(Bytes::from(vec![b'x'; each]));
        Body::from_stream(stream::iter((0..frames).map(frame)))
    }

    #[tokio::test]
    async fn bodies_take_room_while_they_are_held() {
        let budget = budget(100_000, 200 * 1_024);
        let mut held = Vec::new();
        for _ in 0..2 + OVERDRAFTS {
            let read = budget.read(body(100, 900)).await;
            held.push(read.unwrap_or_else(|_| panic!("there is room")));
        }
        assert_eq!(held[0].len(), 90_000);
        assert!(matches!(
            budget.read(body(100, 900)).await,
            Err(Unread::Busy)
        ));
        let small = budget.read(body(8, 1_000)).await;
        assert!(small.is_ok_and(|small| small.len() == 8_000));
        held.pop();
        assert!(budget.read(body(90_000, 1)).await.is_ok());
    }

    #[tokio::test]
    async fn bodies_that_arrive_together_do_not_wait_for_each_other() {
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
    async fn long_bodies_are_refused() {
        let budget = budget(1_000, 200_000);
        assert!(budget.read(body(1, 1_000)).await.is_ok());
        assert!(matches!(
            budget.read(body(2, 501)).await,
            Err(Unread::TooLong)
        ));
    }

    #[tokio::test]
    async fn items_are_shared() {
        let budget = budget(1_024, 10_240);
        let all = budget.share(1_000_000).await.expect("all of them");
        assert!(matches!(budget.share(1).await, Err(Problem::Busy)));
        drop(all);
        assert!(budget.share(10).await.is_ok());
    }
}
