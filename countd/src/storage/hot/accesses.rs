//! The accesses to entities that a process counts.

use super::reports::HotEntity;
use super::sampling::{INTERVAL, sample};
use super::window::{Access, Window, rates};
use crate::domain::ids::Entity;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The accesses of the last minute. One of 64 is counted, so an access costs a few nanoseconds on average.
pub struct Accesses(Mutex<Window>);

impl Default for Accesses {
    fn default() -> Accesses {
        Accesses(Mutex::new(Window::new(Instant::now())))
    }
}

impl Accesses {
    /// Counts one read of each of these entities.
    pub fn record_reads(&self, entities: &[Entity]) {
        self.record(entities, Access::Read);
    }

    /// Counts a write to an entity.
    pub fn record_write(&self, entity: &Entity) {
        self.record(std::slice::from_ref(entity), Access::Write);
    }

    fn record(&self, entities: &[Entity], access: Access) {
        sample(entities.len(), |index| {
            let now = Instant::now();
            self.window().add(&entities[index], access, INTERVAL, now);
        });
    }

    /// The accesses per second of the most frequent entities.
    pub fn rates(&self) -> Vec<HotEntity> {
        let (counts, seconds) = self.window().counts(Instant::now());
        rates(counts, seconds)
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
