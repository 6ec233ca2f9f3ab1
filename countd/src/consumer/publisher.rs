//! Copies the events of streams to the topic, for other consumers, and trims the streams.
//!
//! The publisher follows the positions: what was counted is copied, in order, with the partition and the offset of its entry in headers. A
//! crash between the copy and the record of it copies again, so consumers have to drop what they have seen. While no broker is reachable, the
//! streams grow and counting goes on.

use super::assignment::AssignedPartitions;
use super::backoff::Backoff;
use super::copied_outcomes::CopiedOutcomes;
use super::position::load_next_offsets;
use super::server_history;
use super::untrimmed::UntrimmedLogs;
use crate::domain::config::Config;
use crate::domain::config::USER;
use crate::domain::error::StoreError;
use crate::domain::event::GroupEvent;
use crate::domain::event::{Cause, Journal};
use crate::domain::keys::Partition;
use crate::log::archive::{self, Outcome};
use crate::log::kafka::{
    HISTORY, INDEX, KIND, OUTCOME, OutgoingRecord, Producer, SEQUENCE, SOURCE, Topic, TopicError,
    Watermarks, short_history,
};
use crate::log::{EntryKind, EventLog, LogEntry, Streams, published};
use crate::redis::store::Store;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use std::borrow::Cow;
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
    /// The offset after them.
    next: u64,
    /// Whether that is the position.
    is_all: bool,
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
        let mut records = Vec::new();
        // The number of records of each entry.
        let mut counts = Vec::new();
        // What was counted has its outcome.
        let offsets = pages.iter().map(|page| {
            let offsets = page.entries.iter().map(|entry| entry.offset);
            (page.partition, offsets.collect())
        });
        let outcomes = self.outcomes.load(&offsets.collect()).await?;
        for page in &pages {
            for entry in &page.entries {
                let before = records.len();
                let outcome = outcomes.get(&(page.partition, entry.offset)).copied();
                self.add_records(page, entry, outcome, &mut records);
                counts.push(records.len() - before);
            }
        }
        let results = self.send(assigned, &records).await;
        let mut results = results.into_iter();
        let mut counts = counts.into_iter();
        let mut failed = None;
        for page in pages {
            let (mut next, mut copied) = (page.next, 0);
            let (mut entries, mut bytes) = (0, 0);
            let mut is_stopped = false;
            for entry in &page.entries {
                let of_entry = results.by_ref().take(counts.next().unwrap_or(0));
                for result in of_entry {
                    match result {
                        Ok(()) => copied += 1,
                        // It would fail again and again.
                        Err(error @ TopicError::TooLarge(_)) => {
                            tracing::error!(partition = page.partition, offset = entry.offset, %error, "an event is not copied to the topic");
                        }
                        Err(error) => {
                            if !is_stopped {
                                (is_stopped, next) = (true, entry.offset);
                            }
                            failed = Some(error);
                        }
                    }
                }
                if !is_stopped {
                    entries += 1;
                    bytes += entry.size as u64;
                }
            }
            metrics::counter!("countd_kafka_published_total").increment(copied);
            let partition = page.partition;
            let advanced = {
                let history = (&*page.history, short_history(&page.history));
                published::advance(&self.store, partition, next, history).await?
            };
            if !advanced {
                // What was copied is lost in Redis. Its offsets will have other entries.
                self.untrimmed.remove(partition);
                is_complete = false;
                continue;
            }
            self.untrimmed.add(partition, next, (entries, bytes));
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

    /// Adds the records of an entry: one for an event or a change of an entity's counters without an event, one for each user of a group,
    /// and none for what countd writes for itself.
    fn add_records(
        &self,
        page: &Page,
        entry: &LogEntry,
        outcome: Option<Outcome>,
        records: &mut Vec<OutgoingRecord>,
    ) {
        let partition = page.partition;
        let mut add = |key: String, value: Vec<u8>, index: Option<usize>| {
            let mut headers = vec![
                (SOURCE, partition.to_string()),
                (SEQUENCE, entry.offset.to_string()),
                (HISTORY, short_history(&page.history).to_owned()),
            ];
            headers.extend(index.map(|index| (INDEX, index.to_string())));
            headers.extend(outcome.map(|outcome| (OUTCOME, outcome.name().to_owned())));
            if entry.kind == EntryKind::Journal {
                headers.push((KIND, entry.kind.field().to_owned()));
            }
            records.push(OutgoingRecord {
                partition: self.topic.identity().partition_of(partition),
                key,
                value,
                headers,
            });
        };
        match entry.kind {
            EntryKind::Event | EntryKind::Envelope if entry.is_whole => {
                // Without an entity it has become a dead letter.
                if let Some(key) = key_of(&entry.payload) {
                    add(key, entry.payload.clone(), None);
                }
            }
            EntryKind::Group => {
                let group = serde_json::from_slice::<GroupEvent>(&entry.payload);
                let events = group.map(GroupEvent::into_events).unwrap_or_default();
                for (index, event) in events.into_iter().enumerate() {
                    let key = format!("{}:{}", event.entity.etype, event.entity.eid);
                    add(key, event.to_json().into_bytes(), Some(index));
                }
            }
            EntryKind::Journal if entry.is_whole => {
                let journal = serde_json::from_slice::<Journal>(&entry.payload);
                if let Ok(journal) = journal
                    && journal.etype.as_str() != USER
                    && journal.why != Cause::Repair
                {
                    let key = format!("{}:{}", journal.etype, journal.eid);
                    add(key, entry.payload.clone(), None);
                }
            }
            _ => {}
        }
    }

    /// Trims streams up to what was copied.
    async fn trim(&mut self) -> Result<(), StoreError> {
        let mut trimmed = self.untrimmed.take_due();
        if trimmed.is_empty() {
            return Ok(());
        }
        // Read after the offsets of the copies were recorded, at which the holds of rebuilds begin.
        let partitions: Vec<Partition> = trimmed.iter().map(|log| log.partition).collect();
        let holds = archive::holds(&self.store, &partitions).await?;
        for (log, hold) in trimmed.iter_mut().zip(holds) {
            log.next = hold.map_or(log.next, |hold| log.next.min(hold));
        }
        self.log.acknowledge(&trimmed).await
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
        is_all: next == until,
        next,
    })
}

/// The key of the record of an event or an envelope. `None` if it names no entity.
fn key_of(payload: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, alias = "aggregate_type")]
        etype: Cow<'a, str>,
        #[serde(borrow, alias = "aggregate_id")]
        eid: IdText<'a>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum IdText<'a> {
        Text(#[serde(borrow)] Cow<'a, str>),
        Number(u64),
    }
    let named: Named<'_> = serde_json::from_slice(payload).ok()?;
    Some(match named.eid {
        IdText::Text(eid) => format!("{}:{eid}", named.etype),
        IdText::Number(eid) => format!("{}:{eid}", named.etype),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_key_of_the_entity() {
        for (payload, key) in [
            (
                r#"{"etype":"note","eid":"7","metric":"like"}"#,
                Some("note:7"),
            ),
            (r#"{"etype":"note","eid":7}"#, Some("note:7")),
            (
                r#"{"event_id":"a","aggregate_type":"note","aggregate_id":"x-1","payload":{"etype":"note"}}"#,
                Some("note:x-1"),
            ),
            (r#"{"etype":"note"}"#, None),
            ("not JSON", None),
        ] {
            assert_eq!(key_of(payload.as_bytes()).as_deref(), key, "{payload}");
        }
    }
}
