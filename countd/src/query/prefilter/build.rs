//! Fills the filters: a scan of all facts, which follows the log meanwhile.
//!
//! A fact that existed when the feed began, and still exists, is found by the scan: `SCAN` returns each key that exists throughout, and `RBM.SCAN` each
//! member. A fact that was added later has an event in the log.

use super::error::FeedError;
use super::feed::Feed;
use super::filters::{EntityHash, Filters};
use crate::domain::config::{Config, PrefilterConfig};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::KeyName;
use crate::redis::store::Store;
use std::time::{Duration, Instant};

/// Commands that this file sends. The fact store requires those on its keys, too.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0", "RBM.SCAN {ids} 0"];

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// The number of users that are read of a key at once.
const USERS: usize = 5_000;
/// The prefix of the keys of facts.
const PREFIX: &[u8] = b"rbm:";
/// The interval at which the log is read meanwhile, so that no entries are trimmed before.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(20);

/// A reply of `RBM.SCAN`: the next cursor, and members.
type Page = (String, Vec<u64>);

/// Filters that are being filled.
pub(super) struct Build {
    store: Store,
    settings: PrefilterConfig,
    filters: Filters,
    feed: Feed,
    followed: Instant,
}

impl Build {
    /// Begins to follow the log.
    ///
    /// # Errors
    /// See [`Feed::start`].
    pub async fn new(config: &Config, store: &Store) -> Result<Build, FeedError> {
        Ok(Build {
            feed: Feed::start(store).await?,
            filters: Filters::new(config),
            settings: config.prefilter,
            store: store.clone(),
            followed: Instant::now(),
        })
    }

    /// Adds all facts.
    ///
    /// # Errors
    /// Redis is unavailable, a key of facts holds another type, or the facts are too many.
    pub async fn scan(&mut self) -> Result<(), FeedError> {
        let mut cursor = 0;
        loop {
            let begun = Instant::now();
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg("rbm:*");
            scan.arg("COUNT").arg(SCAN_COUNT);
            let (next, keys): (u64, Vec<Vec<u8>>) =
                scan.query_async(&mut self.store.reads()).await?;
            self.add_keys(&keys).await?;
            self.pause(begun).await?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// The filters, and the feed from which they continue.
    pub fn finish(self) -> (Filters, Feed) {
        (self.filters, self.feed)
    }

    async fn add_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), FeedError> {
        let layout = self.store.keys();
        let found = keys.iter().filter(|key| key.starts_with(PREFIX));
        let found = found.filter_map(|key| match KeyName::parse(&layout, key) {
            // No entity is split: what an earlier split has left are Strings.
            Some(KeyName::Facts { metric, entity }) if !key.contains(&b'~') => {
                Some((key, metric, entity))
            }
            _ => None,
        });
        let mut found: Vec<(&Vec<u8>, Name, Entity)> = found.collect();
        found.retain(|(_, metric, _)| self.filters.has(metric));
        let mut cursors = vec!["0".to_owned(); found.len()];
        while !found.is_empty() {
            let begun = Instant::now();
            // Large sets are read alone, so that a reply is never large.
            let count = found.len().clamp(1, USERS / 10);
            let mut pipeline = redis::pipe();
            for ((key, ..), cursor) in found.iter().zip(&cursors).take(count) {
                pipeline.cmd("RBM.SCAN").arg(key).arg(cursor);
                pipeline.arg("COUNT").arg(USERS / count);
            }
            let pages: Vec<Page> = pipeline.query_async(&mut self.store.reads()).await?;
            let (mut unread, mut at) = (Vec::new(), Vec::new());
            for ((key, metric, entity), (next, uids)) in found.drain(..count).zip(pages) {
                self.filters.add(&metric, EntityHash::new(&entity), uids);
                if next != "0" {
                    unread.push((key, metric, entity));
                    at.push(next);
                }
            }
            cursors.drain(..count);
            unread.append(&mut found);
            at.append(&mut cursors);
            (found, cursors) = (unread, at);
            self.filters.check_size(&self.settings)?;
            self.pause(begun).await?;
        }
        Ok(())
    }

    /// Follows the log, and leaves half of the time to other clients.
    async fn pause(&mut self, begun: Instant) -> Result<(), FeedError> {
        if self.followed.elapsed() >= FOLLOW_INTERVAL {
            let events = self.feed.new_facts().await?;
            self.filters.add_events(&events);
            self.followed = Instant::now();
        }
        tokio::time::sleep(begun.elapsed().min(FOLLOW_INTERVAL)).await;
        Ok(())
    }
}
