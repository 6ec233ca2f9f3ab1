//! How a process follows the stored layout, which migrations, backfills and adoptions change.

use super::layout::{StoredLayout, Truncation};
use super::store::Store;
use crate::domain::config::Config;
use crate::domain::error::{ConnectError, StoreError};
use crate::domain::ids::Name;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::RwLockReadGuard;

/// The age of the layout above which a process answers no requests and commits nothing, if a migration, a backfill or a split can change it, or
/// if the process did not try to read it for as long.
pub const MAX_LAYOUT_AGE: Duration = Duration::from_secs(30);

impl Store {
    /// Keeps this process on its layout until the guard is dropped: only then do heartbeats report a later one, for which other processes
    /// wait. The holder must not hold it twice, nor read the layout again.
    pub async fn hold_layout(&self) -> RwLockReadGuard<'_, ()> {
        self.layout.hold().await
    }

    /// Reads the layout again if its epoch has changed, as soon as nothing [holds](Self::hold_layout) it. Returns the epoch.
    ///
    /// # Errors
    /// The server is unavailable, or a newer version changed the layout.
    pub async fn refresh_layout(&self) -> Result<u64, ConnectError> {
        let refreshed = self.try_refresh_layout().await;
        match &refreshed {
            Ok(_) => self.layout.record_success(),
            Err(_) => self.layout.record_failure(MAX_LAYOUT_AGE),
        }
        refreshed
    }

    async fn try_refresh_layout(&self) -> Result<u64, ConnectError> {
        let started = Instant::now();
        let (current, mut connection) = (self.layout(), self.reads());
        let epoch = StoredLayout::stored_epoch(&mut connection, &self.keys).await?;
        if epoch == current.epoch {
            self.layout.confirm(started);
            return Ok(epoch);
        }
        match current.reload(&mut connection, &self.keys).await? {
            Some(layout) => {
                self.check_columns(&layout)?;
                let epoch = layout.epoch;
                self.layout.replace(layout, started).await;
                Ok(epoch)
            }
            // All data was deleted. This process goes on with the layout that it knows.
            None => {
                self.layout.confirm(started);
                Ok(current.epoch)
            }
        }
    }

    /// Checks that the counters of all types are still in the columns that this process uses. They are not if its configuration named the
    /// new schema of a type before the migration of the old one began, or if the data was replaced by older data.
    fn check_columns(&self, layout: &StoredLayout) -> Result<(), ConnectError> {
        let mut all = self.columns.iter();
        let is_other = |(etype, (schema, used)): &(&Name, &(Name, Name))| {
            layout.columns_of(etype, schema) != used
        };
        match all.find(is_other) {
            None => Ok(()),
            Some((etype, (schema, _))) => {
                self.is_outdated.store(true, Ordering::Release);
                Err(ConnectError::Columns {
                    etype: etype.clone(),
                    schema: schema.clone(),
                })
            }
        }
    }

    /// A configuration in which the schema of each type is the one that has the columns of its counters.
    pub fn with_columns(&self, config: &Config) -> Config {
        let mut config = config.clone();
        for (etype, entity) in &mut config.entities {
            if let Some((_, columns)) = self.columns.get(etype) {
                entity.schema.clone_from(columns);
            }
        }
        config
    }

    /// Records in the layout that an event of a *once* metric without a fact is going to be counted.
    ///
    /// # Errors
    /// The server is unavailable, or a newer version changed the layout.
    pub async fn record_external(&self, metric: &Name) -> Result<(), StoreError> {
        StoredLayout::record_external(&mut self.commands(), &self.keys, metric).await?;
        let refreshed = self.refresh_layout().await;
        refreshed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
        Ok(())
    }

    /// Records in the layout that a partition of the topic ended before a position: no process appends to the topic from then on.
    ///
    /// # Errors
    /// The server is unavailable, or a newer version changed the layout.
    pub async fn record_truncation(&self, truncation: Truncation) -> Result<(), StoreError> {
        StoredLayout::record_truncation(&mut self.commands(), &self.keys, truncation).await?;
        let refreshed = self.refresh_layout().await;
        refreshed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
        Ok(())
    }

    /// Forgets the partitions of a former topic that ended before a position.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn forget_truncations(&self) -> Result<(), StoreError> {
        let (layout, mut commands) = (self.layout(), self.commands());
        Ok(layout.forget_truncations(&mut commands, &self.keys).await?)
    }

    /// Records in the layout how counters of facts change.
    ///
    /// # Errors
    /// The server is unavailable, or a newer version changed the layout.
    pub async fn record_counting(&self, counting: &str) -> Result<u64, ConnectError> {
        StoredLayout::record_counting(&mut self.commands(), &self.keys, counting).await?;
        self.refresh_layout().await
    }

    /// Whether the layout is known: it was confirmed within `MAX_LAYOUT_AGE`, or no migration and no backfill can change it and this process
    /// was not suspended meanwhile. While it was, the first entity of all may have been split.
    pub fn knows_layout(&self) -> bool {
        !self.is_outdated.load(Ordering::Acquire) && self.has_recent_layout()
    }

    fn has_recent_layout(&self) -> bool {
        let is_fixed = || !self.layout.load().can_change(&self.reverse);
        self.layout.age() < MAX_LAYOUT_AGE || self.layout.since_try() < MAX_LAYOUT_AGE && is_fixed()
    }

    /// Checks that this process [knows the layout](Self::knows_layout). Without it, a write could use counters that were moved.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the layout could not be checked for `MAX_LAYOUT_AGE`.
    pub fn check_layout(&self) -> Result<(), StoreError> {
        if self.knows_layout() {
            return Ok(());
        }
        let seconds = MAX_LAYOUT_AGE.as_secs();
        let reason = format!("the layout of the data could not be checked for {seconds} seconds");
        let error = io::Error::new(io::ErrorKind::TimedOut, reason);
        Err(StoreError::Unavailable(error.into()))
    }
}
