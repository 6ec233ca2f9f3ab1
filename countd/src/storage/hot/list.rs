//! The hot entities of all processes, for consumers.

use super::reports::{self, HotEntity};
use crate::domain::config::HotConfig;
use crate::domain::ids::Entity;
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;
use arc_swap::ArcSwap;
use hashbrown::HashSet;
use redis::RedisError;
use std::sync::Arc;
use tokio::sync::watch;

/// The hot entities of all processes as this process knows them: up to `hot.max_entities`, about a second old. Cheap to clone.
#[derive(Clone, Default)]
pub struct HotList(Arc<ArcSwap<HashSet<Entity>>>);

impl HotList {
    /// The permissions that following it requires.
    pub fn required_permissions() -> Permissions {
        reports::read_permissions()
    }

    /// The entities now.
    pub fn load(&self) -> Arc<HashSet<Entity>> {
        self.0.load_full()
    }

    /// What all processes report now, from the entity with the most requests on. Two round trips.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn hottest(store: &Store) -> Result<Vec<HotEntity>, RedisError> {
        reports::read_all(store).await
    }

    /// Follows the reports of all processes until `stopping` turns true. While they cannot be read, the list stays as it is. Two round
    /// trips a second.
    pub async fn follow(
        self,
        settings: HotConfig,
        store: Store,
        mut stopping: watch::Receiver<bool>,
    ) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(reports::INTERVAL) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
            match HotList::hottest(&store).await {
                Ok(all) => {
                    let hot = all.into_iter().filter(|entity| entity.is_hot(&settings));
                    let hot = hot.take(settings.max_entities).map(|hot| hot.entity);
                    let hot: HashSet<Entity> = hot.collect();
                    metrics::gauge!("countd_hot_entities").set(hot.len() as f64);
                    self.0.store(Arc::new(hot));
                }
                Err(error) => tracing::debug!(%error, "hot entities cannot be read now"),
            }
        }
    }
}
