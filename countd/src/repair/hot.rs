//! The entities with the most events that a process has counted.

use crate::domain::ids::Entity;
use crate::domain::space_saving::SpaceSaving;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of entities that are counted. An entity with a larger share of the events than 1 / `CAPACITY` is among them.
const CAPACITY: usize = 4_096;

/// The entities with the most events since they were last taken. Cheap to clone.
#[derive(Clone)]
pub struct HotEntities(Arc<Mutex<SpaceSaving<Entity>>>);

impl Default for HotEntities {
    fn default() -> HotEntities {
        HotEntities(Arc::new(Mutex::new(SpaceSaving::new(CAPACITY))))
    }
}

impl HotEntities {
    /// Adds entities of events.
    pub fn add(&self, entities: &[Entity]) {
        if entities.is_empty() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entities.iter().for_each(|entity| all.add(entity));
    }

    /// Returns the entities, from the most frequent one on, and begins again.
    pub fn take(&self) -> Vec<Entity> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::replace(&mut *all, SpaceSaving::new(CAPACITY));
        drop(all);
        taken.top().cloned().collect()
    }
}
