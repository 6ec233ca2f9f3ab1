//! Fills the filters: a scan of all facts, which follows the log meanwhile.
//!
//! A fact that existed when the feed began, and still exists, is found by the scan: `SCAN` returns each key that exists throughout, and `RBM.SCAN` each
//! member. A fact that was added later has an event in the log. Facts may not move between keys or servers meanwhile: no entity is being split or
//! merged, and no slot moves.

use super::error::FeedError;
use super::feed::Feed;
use super::filters::{EntityHash, Filters};
use crate::domain::config::{Config, PrefilterConfig};
use crate::domain::ids::Name;
use crate::domain::keys::KeyName;
use crate::domain::split::SplitPhase;
use crate::redis::layout::StoredLayout;
use crate::redis::store::Store;
use redis::RedisError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Commands that this file sends. The fact store requires those on its keys, too.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0", "RBM.SCAN {ids} 0"];

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// The number of users that are read of a key at once.
const USERS: usize = 5_000;
/// The prefix of the keys of facts.
const PREFIX: &[u8] = b"rbm:";
/// What follows the ID of a split entity in the keys of its facts.
const SPLIT: u8 = b'~';
/// The interval at which the log is read meanwhile, so that no entries are trimmed before.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(20);

/// A reply of `RBM.SCAN`: the next cursor, and members.
type Page = Result<(String, Vec<u64>), RedisError>;

/// A key of facts that is being read.
struct FactKey<'a> {
    key: &'a [u8],
    metric: Name,
    entity: EntityHash,
    /// Whether it may be a String that refuses changes.
    may_be_fence: bool,
    cursor: String,
}

/// Filters that are being filled.
pub(super) struct Build {
    store: Store,
    settings: PrefilterConfig,
    layout: Arc<StoredLayout>,
    filters: Filters,
    feed: Feed,
    followed: Instant,
}

/// The current layout.
///
/// # Errors
/// An entity is being split or merged, or Redis is unavailable.
async fn stable_layout(store: &Store) -> Result<Arc<StoredLayout>, FeedError> {
    store.refresh_layout().await?;
    let layout = store.layout();
    let mut splits = layout.splits().values();
    match splits.all(|split| split.phase == SplitPhase::Split) {
        true => Ok(layout),
        false => Err(FeedError::Layout),
    }
}

impl Build {
    /// Begins to follow the log.
    ///
    /// # Errors
    /// See [`Feed::start`]. An entity is being split or merged.
    pub async fn new(config: &Config, store: &Store) -> Result<Build, FeedError> {
        Ok(Build {
            layout: stable_layout(store).await?,
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
    /// Redis is unavailable, a key of facts holds another type, facts may have moved, or they are too many.
    pub async fn scan(&mut self) -> Result<(), FeedError> {
        for mut server in self.feed.connections() {
            let mut cursor = 0;
            loop {
                let begun = Instant::now();
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg("rbm:*");
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut server).await?;
                self.add_keys(&keys).await?;
                self.pause(begun).await?;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The filters, and the feed from which they continue.
    ///
    /// # Errors
    /// Redis is unavailable, or facts may have moved.
    pub async fn finish(mut self) -> Result<(Filters, Feed), FeedError> {
        self.feed.check_slots().await?;
        match stable_layout(&self.store).await?.epoch == self.layout.epoch {
            true => Ok((self.filters, self.feed)),
            false => Err(FeedError::Layout),
        }
    }

    /// What a key of facts is about.
    fn fact_key<'a>(&self, key: &'a [u8]) -> Option<FactKey<'a>> {
        let (layout, name) = (self.store.keys(), whole(key));
        let Some(KeyName::Facts { metric, entity }) = KeyName::parse(&layout, &name) else {
            return None;
        };
        let is_split = key.contains(&SPLIT) || self.layout.split_of(&entity).is_some();
        self.filters.has(&metric).then(|| FactKey {
            key,
            metric,
            entity: EntityHash::new(&entity),
            may_be_fence: is_split,
            cursor: "0".to_owned(),
        })
    }

    async fn add_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), FeedError> {
        let found = keys.iter().filter(|key| key.starts_with(PREFIX));
        let mut found: Vec<FactKey<'_>> = found.filter_map(|key| self.fact_key(key)).collect();
        while !found.is_empty() {
            let begun = Instant::now();
            // Large sets are read alone, so that a reply is never large.
            let count = found.len().clamp(1, USERS / 10);
            let mut pipeline = redis::pipe();
            for fact in found.iter().take(count) {
                pipeline.cmd("RBM.SCAN").arg(fact.key).arg(&fact.cursor);
                pipeline.arg("COUNT").arg(USERS / count);
            }
            pipeline.ignore_errors();
            let pages: Vec<Page> = pipeline.query_async(&mut self.store.reads()).await?;
            let mut unread = Vec::new();
            for (mut fact, page) in found.drain(..count).zip(pages) {
                let (next, uids) = match page {
                    Ok(page) => page,
                    Err(error) if fact.may_be_fence && error.code() == Some("WRONGTYPE") => {
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                };
                self.filters.add(&fact.metric, fact.entity, uids);
                if next != "0" {
                    fact.cursor = next;
                    unread.push(fact);
                }
            }
            unread.append(&mut found);
            found = unread;
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
            // A slot that begins to move and stays changes no epoch.
            self.feed.check_slots().await?;
            self.followed = Instant::now();
        }
        tokio::time::sleep(begun.elapsed().min(FOLLOW_INTERVAL)).await;
        Ok(())
    }
}

/// The name of a key of facts without what a split has added: the facts of a split entity are at several keys, and move between them without events.
fn whole(key: &[u8]) -> Vec<u8> {
    let Some(at) = key.iter().position(|byte| *byte == SPLIT) else {
        return key.to_vec();
    };
    let (before, rest) = key.split_at(at);
    let tag = rest.iter().position(|byte| *byte == b':');
    [before, tag.map_or(&[], |tag| &rest[tag..])].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::testing::{entity, name};
    use crate::domain::keys::{Keys, PartitionHash};
    use crate::domain::split::Shard;

    #[test]
    fn all_keys_of_a_split_entity_have_the_facts_of_its_base() {
        let (note, like) = (entity("note", "a.7"), name("like"));
        let shard = Shard {
            generation: 12,
            number: 3,
        };
        for tagged in [false, true] {
            let keys = Keys::new(1024, tagged, PartitionHash::Murmur2);
            let base = keys.base_of_split(&like, &note, 12);
            for key in [
                base.whole,
                base.frozen,
                base.former,
                keys.facts(&like, &shard.of(&note)),
                keys.fenced_facts(&like, &note, shard),
            ] {
                let parsed = KeyName::parse(&keys, &whole(key.as_bytes()));
                let facts = KeyName::Facts {
                    metric: like.clone(),
                    entity: note.clone(),
                };
                assert_eq!(parsed, Some(facts), "{key}");
            }
        }
    }
}
