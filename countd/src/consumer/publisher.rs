//! Copies the events of streams to the topic, for other consumers, and trims the streams.
//!
//! The publisher follows the positions: what was counted is copied, in order, with the partition and the offset of its entry in headers. A
//! crash between the copy and the record of it copies again, so consumers have to drop what they have seen. While no broker is reachable, the
//! streams grow and counting goes on.

use super::assignment::AssignedPartitions;
use super::backoff::Backoff;
use super::copied_outcomes::CopiedOutcomes;
use super::copies::Copies;
use super::position::load_next_offsets;
use super::server_history;
use super::untrimmed::UntrimmedLogs;
use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::kafka::{OutgoingRecord, Producer, Topic, TopicError, Watermarks, short_history};
use crate::log::{LogEntry, Streams, published};
use crate::redis::store::Store;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The interval between two looks at the positions.
const INTERVAL: Duration = Duration::from_millis(200);
/// The interval between two reports while no broker is reachable.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum number of partitions that are copied at once.
const MAX_PARTITIONS: usize = 64;
/// The maximum number of entries, and of bytes, of a read of a partition.
const MAX_READ: (usize, usize) = (1_000, 256 * 1024);
/// The number of reads and records in flight.
const MAX_IN_FLIGHT: usize = 16;

/// The publisher of a process.
pub(super) struct Publisher {
    store: Store,
    topic: Topic,
    producer: Producer,
    log: Streams,
    untrimmed: UntrimmedLogs,
    outcomes: CopiedOutcomes,
}

/// Counted entries of a partition that are not copied.
struct Waiting {
    partition: Partition,
    from: u64,
    /// Its position.
    until: u64,
    /// The history of its server.
    history: Arc<str>,
}

/// Entries of a partition as they were read.
struct Page {
    partition: Partition,
    history: Arc<str>,
    entries: Vec<LogEntry>,
    /// The first offset that was read.
    from: u64,
    /// The offset after them.
    next: u64,
    /// Whether that is the position.
    is_all: bool,
}

/// An entry whose copies are sent.
struct SentEntry {
    /// The number of copies.
    records: usize,
    /// Whether it was counted.
    is_counted: bool,
    /// Whether it has all copies that a rebuild needs.
    has_copies: bool,
}

/// What became of the copies of a page.
struct CopiedPage {
    /// The offset of the first entry that is not copied.
    next: u64,
    /// The offset after the last counted entry before `next` that has no copy and will have none: it is too large, or it was trimmed, as by a
    /// process with `log.kind = "streams"`.
    gap: Option<u64>,
    /// The entries before `next`.
    entries: u64,
    /// Their size.
    bytes: u64,
    /// The number of copies that were appended.
    records: u64,
    /// Why the rest is copied again.
    error: Option<TopicError>,
}

impl Page {
    /// Takes what was sent of this page, and the results.
    fn copied(
        &self,
        sent: &mut impl Iterator<Item = SentEntry>,
        results: &mut impl Iterator<Item = Result<(), TopicError>>,
    ) -> CopiedPage {
        let mut copied = CopiedPage {
            next: self.next,
            gap: None,
            entries: 0,
            bytes: 0,
            records: 0,
            error: None,
        };
        let mut expected = self.from;
        for (entry, sent) in self.entries.iter().zip(sent) {
            let mut has_copies = sent.has_copies;
            if entry.offset > expected && copied.error.is_none() {
                copied.gap = Some(entry.offset);
            }
            expected = entry.offset + 1;
            for result in results.by_ref().take(sent.records) {
                match result {
                    Ok(()) => copied.records += 1,
                    // It would fail again and again.
                    Err(error @ TopicError::TooLarge(_)) => {
                        tracing::error!(partition = self.partition, offset = entry.offset, %error, "an event is not copied to the topic");
                        has_copies &= !sent.is_counted;
                    }
                    Err(error) => {
                        if copied.error.is_none() {
                            copied.next = entry.offset;
                        }
                        copied.error = Some(error);
                    }
                }
            }
            if copied.error.is_none() {
                copied.entries += 1;
                copied.bytes += entry.size as u64;
                if !has_copies {
                    copied.gap = Some(entry.offset + 1);
                }
            }
        }
        if copied.error.is_none() && expected < self.next {
            copied.gap = Some(self.next);
        }
        copied
    }
}

impl Publisher {
    /// A publisher.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub(super) fn new(
        store: Store,
        config: &Config,
        (topic, watermarks): (Topic, watch::Receiver<Watermarks>),
    ) -> Result<Publisher, TopicError> {
        Ok(Publisher {
            producer: topic.patient_producer()?,
            log: Streams::new(store.clone(), config),
            untrimmed: UntrimmedLogs::new(config),
            outcomes: CopiedOutcomes::new(store.clone(), watermarks),
            store,
            topic,
        })
    }

    /// Copies until `stop` turns true. What is left is copied by the next owners.
    pub(super) async fn run(
        mut self,
        assigned: AssignedPartitions,
        mut stop: watch::Receiver<bool>,
    ) {
        let copying = async {
            let mut backoff = Backoff::new();
            loop {
                let partitions = Arc::clone(&assigned.borrow());
                self.untrimmed.retain(&partitions);
                let delay = match self.copy(&partitions).await {
                    Ok(true) => INTERVAL,
                    Ok(false) => Duration::ZERO,
                    Err(error) => {
                        tracing::debug!(%error, "streams are not copied to the topic; will retry");
                        backoff.next_delay()
                    }
                };
                if delay <= INTERVAL {
                    backoff.reset();
                }
                tokio::time::sleep(delay).await;
            }
        };
        tokio::select! {
            () = copying => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// Copies what was counted. Returns whether nothing is left.
    async fn copy(&mut self, partitions: &[Partition]) -> Result<bool, TopicError> {
        let waiting = self.waiting(partitions).await?;
        report(&waiting);
        if let Some(refusal) = self.topic.refusal(&self.store.layout()) {
            return Err(refusal);
        }
        let mut is_complete = true;
        for chunk in waiting.chunks(MAX_PARTITIONS) {
            is_complete &= self.copy_chunk(partitions, chunk).await?;
        }
        self.trim().await?;
        self.outcomes.forget(partitions, &self.topic).await?;
        Ok(is_complete)
    }

    /// Copies entries of some of the assigned partitions. Returns whether nothing is left.
    async fn copy_chunk(
        &mut self,
        assigned: &[Partition],
        chunk: &[(Partition, u64, u64)],
    ) -> Result<bool, TopicError> {
        let partitions: Vec<Partition> = chunk.iter().map(|(partition, ..)| *partition).collect();
        // Before the entries are read.
        let histories = server_history::load(&self.store, &partitions).await?;
        let waiting = chunk.iter().zip(histories);
        let waiting = waiting.map(|((partition, from, until), history)| Waiting {
            partition: *partition,
            from: *from,
            until: *until,
            history,
        });
        let waiting: Vec<Waiting> = waiting.collect();
        let log = &self.log;
        let reads = waiting.into_iter().map(|waiting| read(log, waiting));
        let reads: Vec<_> = reads.collect();
        let reads = stream::iter(reads).buffered(MAX_IN_FLIGHT);
        let pages: Vec<Page> = reads.try_collect().await?;
        let mut is_complete = pages.iter().all(|page| page.is_all);
        // What was counted has its outcome.
        let offsets = pages.iter().map(|page| {
            let offsets = page.entries.iter().map(|entry| entry.offset);
            (page.partition, offsets.collect())
        });
        let outcomes = self.outcomes.load(&offsets.collect()).await?;
        published::confirm(&self.store, &partitions).await?;
        let (mut records, mut sent) = (Vec::new(), Vec::new());
        for page in &pages {
            let copies = Copies {
                source: page.partition,
                history: &page.history,
                of_topic: self.topic.identity().partition_of(page.partition),
            };
            for entry in &page.entries {
                let before = records.len();
                let outcome = outcomes.get(&(page.partition, entry.offset)).copied();
                let has_copies = copies.add(entry, outcome, &mut records);
                sent.push(SentEntry {
                    records: records.len() - before,
                    is_counted: outcome.is_none(),
                    has_copies,
                });
            }
        }
        let mut results = self.send(assigned, &records).await.into_iter();
        let mut sent = sent.into_iter();
        let mut failed = None;
        for page in pages {
            let copied = page.copied(&mut sent, &mut results);
            metrics::counter!("countd_kafka_published_total").increment(copied.records);
            failed = copied.error.or(failed);
            let (partition, next) = (page.partition, copied.next);
            let history = (&*page.history, short_history(&page.history));
            let range = (next, copied.gap);
            if !published::advance(&self.store, partition, range, history).await? {
                // What was copied is lost in Redis. Its offsets will have other entries.
                self.untrimmed.remove(partition);
                is_complete = false;
                continue;
            }
            self.untrimmed
                .add(partition, next, (copied.entries, copied.bytes));
        }
        failed.map_or(Ok(is_complete), Err)
    }

    /// Appends records, however long no broker is reachable, and reports meanwhile what is not copied.
    async fn send(
        &self,
        assigned: &[Partition],
        records: &[OutgoingRecord],
    ) -> Vec<Result<(), TopicError>> {
        let sending = self.producer.send(records);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                results = &mut sending => return results,
                () = tokio::time::sleep(REPORT_INTERVAL) => {
                    if let Ok(waiting) = self.waiting(assigned).await {
                        report(&waiting);
                    }
                }
            }
        }
    }

    /// The partitions with counted entries that are not copied: the first such offset, and the position.
    async fn waiting(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<(Partition, u64, u64)>, StoreError> {
        let stored = published::load(&self.store, partitions).await?;
        let positions = load_next_offsets(&self.store, partitions).await?;
        let waiting = partitions.iter().zip(stored).zip(positions);
        Ok(waiting
            .filter_map(|((partition, from), until)| Some((*partition, from, until?)))
            .filter(|(_, from, until)| from < until)
            .collect())
    }

    /// Trims streams up to what was copied.
    async fn trim(&mut self) -> Result<(), StoreError> {
        self.untrimmed.trim(&self.store, &self.log).await
    }
}

/// Reports how much is not copied.
fn report(waiting: &[(Partition, u64, u64)]) {
    let entries = waiting.iter().map(|(_, from, until)| until - from);
    metrics::gauge!("countd_kafka_unpublished_events").set(entries.sum::<u64>() as f64);
}

/// Reads counted entries of a partition.
async fn read(log: &Streams, waiting: Waiting) -> Result<Page, StoreError> {
    let Waiting {
        partition,
        from,
        until,
        history,
    } = waiting;
    let (mut entries, mut is_end) = log.read_counted(partition, from, MAX_READ).await?;
    if entries.is_empty() && !is_end {
        // The next entry is longer.
        (entries, is_end) = log.read_counted(partition, from, (1, usize::MAX)).await?;
    }
    is_end |= entries.last().is_some_and(|entry| entry.offset >= until);
    entries.retain(|entry| entry.offset < until);
    let next = match entries.last() {
        Some(last) if !is_end => last.offset + 1,
        _ => until,
    };
    Ok(Page {
        partition,
        history,
        entries,
        from,
        is_all: next == until,
        next,
    })
}
