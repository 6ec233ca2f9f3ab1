//! One rebuild of an entity at a time in this process: concurrent callers share its result.

use crate::domain::ids::Entity;
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};

/// The number of recounts that run at once.
const CONCURRENT_RECOUNTS: usize = 2;

/// The result that callers share: the values of the fields, or `None` if the rebuild failed.
type Shared = Option<Arc<[u64]>>;
type InFlight = HashMap<Entity, watch::Receiver<Option<Shared>>>;

/// The rebuilds in progress. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Flights(Arc<Mutex<InFlight>>);

/// Ends a flight, also if its task is dropped.
struct Flight {
    flights: Flights,
    entity: Entity,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.with(|flights| flights.remove(&self.entity));
    }
}

impl Flights {
    fn with<T>(&self, change: impl FnOnce(&mut InFlight) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the rebuild of an entity that is in progress, or runs `rebuild` in a task of its own, so that a caller who leaves does
    /// not end it.
    pub async fn share<F>(&self, entity: &Entity, rebuild: impl FnOnce() -> F) -> Shared
    where
        F: Future<Output = Shared> + Send + 'static,
    {
        let mut receiver = self.with(|flights| {
            if let Some(receiver) = flights.get(entity) {
                return receiver.clone();
            }
            let (sender, receiver) = watch::channel(None);
            flights.insert(entity.clone(), receiver.clone());
            let (rebuild, flight) = (rebuild(), self.flight(entity));
            tokio::spawn(async move {
                let result = rebuild.await;
                drop(flight);
                sender.send_replace(Some(result));
            });
            receiver
        });
        let result = receiver.wait_for(Option::is_some).await;
        result.ok().and_then(|result| result.clone().flatten())
    }

    /// Waits for the rebuild of an entity that is in progress, if there is one.
    pub async fn wait(&self, entity: &Entity) {
        let receiver = self.with(|flights| flights.get(entity).cloned());
        if let Some(mut receiver) = receiver {
            // An error means that the rebuild has ended.
            let _ = receiver.wait_for(Option::is_some).await;
        }
    }

    /// Whether a rebuild of another entity would exceed this number.
    pub fn is_full(&self, entity: &Entity, max: usize) -> bool {
        self.with(|flights| flights.len() >= max && !flights.contains_key(entity))
    }

    fn flight(&self, entity: &Entity) -> Flight {
        Flight {
            flights: self.clone(),
            entity: entity.clone(),
        }
    }
}

/// The recounts of this process. Rebuilds wait for them.
pub(super) struct Recounts {
    /// The rebuilds that follow them.
    pub flights: Flights,
    /// Limits the number of concurrent recounts.
    pub permits: Semaphore,
}

impl Recounts {
    pub fn new() -> Recounts {
        Recounts {
            flights: Flights::default(),
            permits: Semaphore::new(CONCURRENT_RECOUNTS),
        }
    }

    /// Waits for the recount of the facts of an entity, if it is in progress.
    pub async fn wait(&self, entity: &Entity) {
        self.flights.wait(entity).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Id, Name};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test]
    async fn concurrent_callers_share_one_rebuild() {
        let flights = Flights::default();
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new("7").expect("an ID"),
        };
        let runs = Arc::new(AtomicU64::new(0));
        let (open, gate) = watch::channel(false);
        let callers = (0..100).map(|_| {
            let (runs, mut gate) = (Arc::clone(&runs), gate.clone());
            flights.share(&entity, move || async move {
                let run = runs.fetch_add(1, Ordering::Relaxed);
                let _ = gate.wait_for(|open| *open).await;
                Some(Arc::from([run]))
            })
        });
        let callers = futures_util::future::join_all(callers);
        let opened = async { open.send_replace(true) };
        let (results, _) = tokio::join!(callers, opened);
        assert!(results.iter().all(|result| result.as_deref() == Some(&[0])));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        // The next caller starts a new one.
        flights.wait(&entity).await;
        let result = flights.share(&entity, || async { None }).await;
        assert_eq!(result, None);
        assert!(flights.with(|flights| flights.is_empty()));
    }
}
