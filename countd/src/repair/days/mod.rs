//! Work on counts by day: recording what was counted before days were kept, and archiving past days. The process that owns partition 0
//! does it.

mod archive;
mod fill;
mod pass;
mod streams;

use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::day_states;
use crate::redis::layout::StoredLayout;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The interval between two checks whether metrics got counts by day, or lost them.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The permissions to fill and archive days.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(pass::PERMISSIONS)
        .and(Permissions::of_commands(streams::PERMISSIONS))
        .and(Permissions::of_commands(day_states::PERMISSIONS))
        .and(fill::FILL.required_permissions(backend))
        .and(archive::ARCHIVE.required_permissions(backend))
}

/// Fills and archives days while partition 0 is assigned to this process, until `stop` turns true.
pub async fn run(
    store: Store,
    config: Arc<Config>,
    assigned: watch::Receiver<Arc<Vec<Partition>>>,
    mut stop: watch::Receiver<bool>,
) {
    let catalog = Catalog::new(Arc::clone(&config), store.clone());
    let interval = Duration::from_secs(config.days.archive_interval_seconds);
    let rounds = async {
        let (mut filled, mut archived) = (None::<Arc<StoredLayout>>, None::<Instant>);
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            if !assigned.borrow().contains(&0) {
                filled = None;
                continue;
            }
            let round = async {
                // Whoever finds that processes have differed changes the layout, too.
                let layout = store.layout();
                let is_filled = filled.as_ref().is_some_and(|of| Arc::ptr_eq(of, &layout));
                if !is_filled && fill::fill(&store, &catalog).await? {
                    filled = Some(layout);
                }
                let is_daily = config.metrics.daily().next().is_some();
                if archived.is_none_or(|at| at.elapsed() >= interval) {
                    if is_daily {
                        archive::archive(&store, &config).await?;
                    }
                    streams::delete_past(&store, &config).await?;
                    archived = Some(Instant::now());
                }
                Ok::<(), StoreError>(())
            };
            if let Err(error) = round.await {
                tracing::warn!(%error, "days cannot be filled or archived now");
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
