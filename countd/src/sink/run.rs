//! A sink: waits until it leads, and then follows the logs until the process stops.

use super::changes::Changes;
use super::columns;
use super::error::SinkError;
use super::leadership::Leadership;
use super::pass::Pass;
use super::state::{Stored, offset_state, topic_offset_state};
use super::statements::{ORIGIN, PASS};
use super::tables::fingerprint;
use super::tail;
use super::topic_tail::{TopicEntries, TopicTail};
use super::truth::Truth;
use super::writer::{States, Writer};
use crate::consumer::Backoff;
use crate::database::Session;
use crate::domain::config::{Config, SinkConfig};
use crate::domain::ids::Entity;
use crate::domain::keys::Partition;
use crate::log::kafka::Topic;
use crate::log::{CountedLog, Streams, hold_for_sink, trim_counted};
use crate::redis::layout::StoredLayout;
use crate::redis::processes::{is_anyone_behind, live_processes};
use crate::redis::run_id::run_ids;
use crate::redis::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The interval of signs of life without transactions, and between two looks at the process that leads.
const SIGN_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which holds are renewed and logs are trimmed.
const HOLD_INTERVAL: Duration = Duration::from_secs(2);

/// A process of a sink.
struct Sink {
    config: Arc<Config>,
    truth: Truth,
    log: Streams,
    /// The topic, with Kafka as the log.
    topic: Option<TopicTail>,
    writer: Writer,
    /// The offset of the next entry of each partition.
    offsets: BTreeMap<Partition, u64>,
    /// The settings and the servers of the rows.
    origin: String,
    /// Whether a pass is needed.
    needs_pass: bool,
    pass: Option<Pass>,
    /// The partition that is read first.
    first: Partition,
    /// The partitions whose logs may be trimmed.
    advanced: BTreeSet<Partition>,
    held: Option<Instant>,
}

/// Runs the sink until `stopping` turns true. The transaction under way is finished. `topic` is the log in Kafka, if it is there.
///
/// # Errors
/// No database is configured, or its tables cannot be used. Other errors are retried.
pub async fn run(
    config: Arc<Config>,
    (store, topic): (Store, Option<Topic>),
    mut stopping: watch::Receiver<bool>,
) -> Result<(), SinkError> {
    let mut backoff = Backoff::new();
    let name = Leadership::new_name();
    loop {
        let claim = Leadership::of(name.clone());
        let data = (&config, &store, topic.as_ref());
        let ended = Sink::run(data, claim, &mut stopping, &mut backoff).await;
        metrics::gauge!("countd_sink_leads").set(0.0);
        match ended {
            Ok(()) => return Ok(()),
            Err(error @ (SinkError::Table { .. } | SinkError::NoDatabase)) => return Err(error),
            Err(SinkError::Database(error)) if error.is_configuration() => {
                return Err(error.into());
            }
            Err(SinkError::Replaced) => tracing::info!("another process of the sink leads"),
            Err(error) => {
                tracing::warn!(%error, "the sink failed and will retry");
                metrics::counter!("countd_sink_retries_total").increment(1);
                metrics::gauge!("countd_sink_failed").set(1.0);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            _ = stopping.wait_for(|stop| *stop) => return Ok(()),
        }
    }
}

/// Checks that the tables can be used.
///
/// # Errors
/// No database is configured, it is unavailable, or its tables cannot be used.
pub async fn check(config: &SinkConfig) -> Result<(), SinkError> {
    let kind = config.url.kind().ok_or(SinkError::NoDatabase)?;
    let mut session = Session::open(kind, &config.url, "countd sink", config.timeout()).await?;
    columns::load(&mut session, kind, config).await.map(drop)
}

impl Sink {
    /// Connects, waits until this process leads, and follows the logs. Returns when the process stops.
    async fn run(
        data: (&Arc<Config>, &Store, Option<&Topic>),
        claim: Leadership,
        stopping: &mut watch::Receiver<bool>,
        backoff: &mut Backoff,
    ) -> Result<(), SinkError> {
        let mut sink = tokio::select! {
            started = Sink::start(data, claim, backoff) => started?,
            _ = stopping.wait_for(|stop| *stop) => return Ok(()),
        };
        metrics::gauge!("countd_sink_leads").set(1.0);
        tracing::info!(database = ?sink.writer.tables.kind, partitions = sink.offsets.len(), "the sink leads");
        while !*stopping.borrow() {
            let is_busy = sink.step().await?;
            backoff.reset();
            metrics::gauge!("countd_sink_failed").set(0.0);
            if !is_busy {
                tokio::select! {
                    () = tokio::time::sleep(sink.config.sink.poll()) => {}
                    _ = stopping.wait_for(|stop| *stop) => {}
                }
            }
        }
        sink.writer.give_up().await
    }

    /// Connects, waits until this process leads, and reads the states.
    async fn start(
        (config, store, topic): (&Arc<Config>, &Store, Option<&Topic>),
        mut leadership: Leadership,
        backoff: &mut Backoff,
    ) -> Result<Sink, SinkError> {
        let settings = &config.sink;
        let kind = settings.url.kind().ok_or(SinkError::NoDatabase)?;
        let name = "countd sink";
        let mut session = Session::open(kind, &settings.url, name, settings.timeout()).await?;
        let tables = columns::load(&mut session, kind, settings).await?;
        let takeover = settings.takeover();
        while !leadership.take(&mut session, &tables, takeover).await? {
            backoff.reset();
            metrics::gauge!("countd_sink_failed").set(0.0);
            tokio::time::sleep(SIGN_INTERVAL.min(takeover / 4)).await;
        }
        let stored = Stored::load(&mut session, &tables).await?;
        let of_topic = |topic: &Topic| {
            let data = (store.clone(), topic.clone());
            TopicTail::new(Arc::clone(config), data, &stored.topic_offsets)
        };
        let topic = topic.map(of_topic).transpose()?;
        let is_complete = topic.as_ref().is_none_or(TopicTail::is_complete);
        Ok(Sink {
            config: Arc::clone(config),
            truth: Truth::new(config, store.clone()),
            log: Streams::new(store.clone(), config),
            topic,
            writer: Writer {
                session,
                tables,
                leadership,
                written: Instant::now(),
            },
            offsets: stored.offsets,
            origin: stored.origin,
            needs_pass: stored.needs_pass || !is_complete,
            pass: None,
            first: 0,
            advanced: BTreeSet::new(),
            held: None,
        })
    }

    /// Writes what the next entries name, and the next page of a pass. Returns whether there is more to do at once.
    async fn step(&mut self) -> Result<bool, SinkError> {
        let store = self.truth.store.clone();
        // What a restore changes is not in the logs.
        if !store.knows_layout() || store.layout().is_restoring {
            return Err(SinkError::UnknownLayout);
        }
        let origin = self.current_origin().await?;
        if origin != self.origin || self.needs_pass && self.pass.is_none() {
            self.begin_pass(origin).await?;
        }
        let (tables, limit) = (&self.writer.tables, self.config.sink.batch);
        let from = (self.first, limit);
        let mut read = tail::read(&self.log, &store, tables, &self.offsets, from).await?;
        let of_topic = match &mut self.topic {
            Some(topic) => topic.read(tables, limit, &mut read.changes).await?,
            None => TopicEntries::default(),
        };
        metrics::gauge!("countd_sink_lag").set((read.lag + of_topic.lag) as f64);
        if of_topic.has_lost {
            tracing::warn!(
                "records of the topic are missing: they were removed before the sink has read them"
            );
        }
        if !read.lost.is_empty() || of_topic.has_lost {
            self.note_loss(&read.lost).await?;
        }
        let has_read = !read.next.is_empty() || !of_topic.next.is_empty();
        if has_read {
            let next = (read.next, of_topic.next);
            self.advance(read.changes, next).await?;
        }
        if let Some(pass) = &mut self.pass {
            let Writer {
                session, tables, ..
            } = &mut self.writer;
            match pass.next(&self.truth, tables, session).await? {
                Some(found) => self.write(found, States::default()).await?,
                None => self.end_pass().await?,
            }
        } else if self.writer.written.elapsed() >= SIGN_INTERVAL {
            let nothing = Changes::default();
            let Sink { writer, truth, .. } = self;
            writer.write(truth, nothing, States::default()).await?;
        }
        self.hold().await?;
        Ok(has_read || self.pass.is_some())
    }

    async fn write(&mut self, changes: Changes, states: States) -> Result<(), SinkError> {
        let is_sign = self.writer.written.elapsed() >= SIGN_INTERVAL;
        if changes.is_empty() && states.set.is_empty() && states.deleted.is_none() && !is_sign {
            return Ok(());
        }
        self.writer.write(&self.truth, changes, states).await
    }

    /// Writes what entries and records name, and the offsets after them: those in the logs, and those in the topic.
    async fn advance(
        &mut self,
        changes: Changes,
        (next, of_topic): (BTreeMap<Partition, u64>, BTreeMap<u16, u64>),
    ) -> Result<(), SinkError> {
        let in_topic = of_topic
            .iter()
            .map(|(p, next)| topic_offset_state((*p, *next)));
        let set = next.iter().map(offset_state).chain(in_topic).collect();
        let deleted = None;
        self.write(changes, States { set, deleted }).await?;
        if let Some(topic) = &mut self.topic {
            topic.advance(&of_topic);
        }
        let last = next.keys().next_back().copied().unwrap_or_default();
        self.first = last.wrapping_add(1);
        self.advanced.extend(next.keys());
        self.offsets.extend(next);
        Ok(())
    }

    /// The settings, the servers and the topic now. A server that was restarted or replaced has another ID, and may have lost what was read from it.
    async fn current_origin(&self) -> Result<String, SinkError> {
        let mut servers = run_ids(&self.truth.store).await?.concat();
        if let Some(topic) = &self.topic {
            servers += &topic.name();
        }
        let servers = xxhash_rust::xxh3::xxh3_64(servers.as_bytes());
        Ok(format!("{}/{servers:016x}", fingerprint(&self.config.sink)))
    }

    /// Begins a pass. All changes after this are in the logs, and the logs keep them.
    async fn begin_pass(&mut self, origin: String) -> Result<(), SinkError> {
        let store = self.truth.store.clone();
        if let Some(Entity { etype, eid }) = store.layout().splits().keys().next() {
            return Err(SinkError::Split(format!("{etype}:{eid}")));
        }
        if !store.layout().sinks {
            StoredLayout::record_sink(&mut store.commands(), &store.keys(), true).await?;
            store.refresh_layout().await?;
        }
        // Processes that do not know of the sink change counters without an entry.
        let epoch = store.layout().epoch;
        while is_anyone_behind(&live_processes(&store).await?, epoch) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for (partition, position) in tail::positions(&store).await? {
            self.offsets.entry(partition).or_insert(position);
        }
        self.held = None;
        self.hold().await?;
        let mut set: Vec<(String, String)> = self.offsets.iter().map(offset_state).collect();
        if let Some(topic) = &mut self.topic {
            topic.restart().await?;
            set.extend(topic.offsets().map(topic_offset_state));
        }
        set.push((ORIGIN.to_owned(), origin.clone()));
        set.push((PASS.to_owned(), "needed".to_owned()));
        let deleted = None;
        self.write(Changes::default(), States { set, deleted })
            .await?;
        self.pass = Some(Pass::new(&self.truth, &self.writer.tables)?);
        (self.needs_pass, self.origin) = (true, origin);
        tracing::info!("comparing all rows with Redis");
        Ok(())
    }

    async fn end_pass(&mut self) -> Result<(), SinkError> {
        // A restart meanwhile has ended the scan early, or lost what was found.
        if self.current_origin().await? != self.origin {
            return Ok(());
        }
        let (set, deleted) = (Vec::new(), Some(PASS));
        self.write(Changes::default(), States { set, deleted })
            .await?;
        (self.needs_pass, self.pass) = (false, None);
        metrics::counter!("countd_sink_passes_total").increment(1);
        tracing::info!("all rows were compared with Redis");
        Ok(())
    }

    /// Continues after entries that are missing. What they have changed is found by a pass.
    async fn note_loss(&mut self, lost: &BTreeMap<Partition, u64>) -> Result<(), SinkError> {
        if !lost.is_empty() {
            let partitions = lost.len();
            tracing::warn!(
                partitions,
                "entries of the log are missing: they were trimmed before the sink has read them, or Redis has lost them"
            );
        }
        let mut set: Vec<(String, String)> = lost.iter().map(offset_state).collect();
        set.push((PASS.to_owned(), "needed".to_owned()));
        let deleted = None;
        self.write(Changes::default(), States { set, deleted })
            .await?;
        self.offsets.extend(lost);
        (self.needs_pass, self.pass) = (true, None);
        Ok(())
    }

    /// Renews the holds, and trims what was read, at an interval.
    async fn hold(&mut self) -> Result<(), SinkError> {
        let interval = HOLD_INTERVAL.min(self.config.sink.hold() / 4);
        if self.held.is_some_and(|at| at.elapsed() < interval) {
            return Ok(());
        }
        let store = &self.truth.store;
        let offsets: Vec<(Partition, u64)> = self.offsets.iter().map(|(p, at)| (*p, *at)).collect();
        hold_for_sink(store, &offsets, self.config.sink.hold()).await?;
        // Archived logs are trimmed by the archiver, forwarded ones by the publisher.
        if !store.layout().archives && self.topic.is_none() {
            let retain = self.config.log.retain;
            let logs = std::mem::take(&mut self.advanced).into_iter();
            let logs = logs.map(|partition| CountedLog { partition, retain });
            trim_counted(store, &logs.collect::<Vec<_>>()).await?;
        }
        self.held = Some(Instant::now());
        Ok(())
    }
}
