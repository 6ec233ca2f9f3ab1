//! Adds up what the topic has: the records that count from it, and the copies of the entries of streams.
//!
//! The reading begins with a *cut*: one script reads up to which entry and which record a partition is counted, and up to which entry it was
//! copied; from there on the stream keeps its entries. What was counted by then is in the topic and in the streams, however long it takes to
//! read it, unless retention has removed it.

use super::changes::Change;
use super::copied::{SeenCopies, is_of_data};
use super::erased::{Erased, Place};
use super::error::RebuildError;
use super::observe_log::missing_entry;
use super::run::Run;
use super::shadow::{Additions, Reading};
use super::state::{self, Cut};
use super::topic::TopicSource;
use crate::domain::event::{Cause, Journal};
use crate::domain::keys::Partition;
use crate::domain::progress::Update;
use crate::log::EntryKind;
use crate::log::archive::{Outcome, Record, of_topic_outcome};
use crate::log::kafka::{Copied, Ends, Scanned, Topic, end_offsets, offsets_of};
use std::collections::{BTreeMap, BTreeSet};

/// The number of entities whose shadows change together.
const ENTITIES: usize = 2_000;
/// The number of partitions that an error names.
const NAMED: usize = 8;

/// One reading of the topic.
struct Pass {
    cuts: BTreeMap<Partition, Cut>,
    /// Of each partition: the first entry and the first record that the shadows do not have.
    from: BTreeMap<Partition, (u64, u64)>,
    /// By partition of the topic: the offsets after the last records.
    ends: BTreeMap<u16, u64>,
    /// By partition and offset: the records that were not counted.
    uncounted: BTreeSet<(Partition, u64)>,
    erased: Erased,
    seen: SeenCopies,
}

impl Run<'_> {
    /// Adds what was counted since the offsets of the shadows.
    ///
    /// # Errors
    /// The topic does not have what is needed.
    pub(super) async fn replay_topic(&mut self, topic: &Topic) -> Result<(), RebuildError> {
        // An earlier attempt of this process has failed.
        if self.shadows.are_incomplete() {
            return Err(RebuildError::Elsewhere);
        }
        let cuts = state::cut(&self.store, None).await?;
        self.observer.begin_after(&cuts);
        let (mut pass, begins) = self.plan(topic, cuts).await?;
        let mut source = TopicSource::new(topic)?;
        let deletions = self.find_erasures(&mut source, &mut pass, &begins).await?;
        let mut additions = Additions::default();
        for (partition, changes) in &deletions {
            let (_, shadow) = pass.from[partition];
            pass.erased
                .delete_shadows(changes.iter(), shadow, &mut additions);
        }
        source.begin(begins.clone())?;
        let total: u64 = pass
            .ends
            .iter()
            .map(|(q, end)| end - begins[q].min(*end))
            .sum();
        while !pass.is_read(&source) {
            for scanned in source.read().await? {
                self.add_scanned(&mut source, &mut pass, scanned, &mut additions)
                    .await?;
                if additions.entities.len() >= ENTITIES {
                    self.add_part(&mut additions).await?;
                }
            }
            let read = begins.iter().map(|(q, from)| source.next(*q) - from);
            let update = Update::new("reading the topic", read.sum::<u64>().min(total), "records");
            self.progress.update(&update.of(total));
            self.beat().await?;
        }
        self.add_uncopied(&pass, &mut additions).await?;
        for (partition, cut) in &pass.cuts {
            let (entry, record) = pass.from[partition];
            additions.next.insert(*partition, cut.position.max(entry));
            additions.topic.insert(*partition, cut.topic.max(record));
        }
        additions.reading = Reading::End;
        self.shadows.add(additions).await?;
        self.observer.topic = Some(source);
        Ok(())
    }

    /// Finds out what has to be read. Returns that, and the offsets at which reading begins.
    async fn plan(
        &self,
        topic: &Topic,
        cuts: BTreeMap<Partition, Cut>,
    ) -> Result<(Pass, BTreeMap<u16, u64>), RebuildError> {
        topic.verify().await?;
        let identity = topic.identity();
        // After the cuts: all copies before them are in the topic.
        let ends = end_offsets(topic).await?;
        let config = &self.catalog.config;
        let firsts = offsets_of(config, &identity.name, identity.partitions, Ends::First).await?;
        let mut pass = Pass {
            from: BTreeMap::new(),
            ends: (0..).zip(ends).collect(),
            uncounted: BTreeSet::new(),
            erased: Erased::default(),
            seen: SeenCopies::default(),
            cuts,
        };
        let mut begins: BTreeMap<u16, u64> = pass.ends.keys().map(|q| (*q, u64::MAX)).collect();
        let mut missing: BTreeMap<u16, u64> = BTreeMap::new();
        for (partition, cut) in &pass.cuts {
            let from = (
                self.shadows.next(*partition),
                self.shadows.next_topic(*partition),
            );
            let of_topic = identity.partition_of(*partition);
            let first = firsts.get(usize::from(of_topic)).copied().unwrap_or(0);
            if from.0 < cut.published && from.0 < cut.histories.complete_from() {
                return Err(RebuildError::Refused(format!(
                    "entries of partition {partition} before offset {} were not copied to the topic: a baseline that is younger is needed",
                    cut.histories.complete_from()
                )));
            }
            if first > from.1 && (from.0 < cut.published || from.1 < cut.topic) {
                let count = missing.entry(of_topic).or_default();
                *count = (*count).max(first - from.1);
            }
            if let Some(begin) = begins.get_mut(&of_topic) {
                *begin = (*begin).min(from.1.max(first));
            }
            pass.from.insert(*partition, from);
        }
        if !missing.is_empty() {
            return Err(removed(&missing));
        }
        for (partition, (_, record)) in &pass.from {
            let outcomes = self.observer.all_outcomes(*partition).await?.into_iter();
            let uncounted = outcomes.filter(|(_, outcome)| *outcome != Outcome::Counted);
            let offsets = uncounted.filter_map(|(field, _)| of_topic_outcome(&field));
            let offsets = offsets.filter(|offset| offset >= record);
            pass.uncounted
                .extend(offsets.map(|offset| (*partition, offset)));
        }
        Ok((pass, begins))
    }

    /// Finds the erasures that the shadows do not have, in the copies and in the streams. Returns their changes, by partition.
    async fn find_erasures(
        &mut self,
        source: &mut TopicSource,
        pass: &mut Pass,
        begins: &BTreeMap<u16, u64>,
    ) -> Result<Vec<(Partition, Vec<Change>)>, RebuildError> {
        let erased = pass.cuts.iter();
        let erased = erased.filter(|(partition, cut)| cut.erased >= pass.from[partition].0);
        let erased: BTreeSet<Partition> = erased.map(|(partition, _)| *partition).collect();
        let mut found = Vec::new();
        let of_topic: BTreeSet<u16> = erased.iter().map(|p| source.partition_of(*p)).collect();
        let of_topic = begins.iter().filter(|(q, _)| of_topic.contains(q));
        let of_topic: BTreeMap<u16, u64> = of_topic.map(|(q, from)| (*q, *from)).collect();
        source.begin(of_topic.clone())?;
        while of_topic.keys().any(|q| source.next(*q) < pass.ends[q]) {
            for scanned in source.read().await? {
                if let Some(record) = pass.erasure(&scanned) {
                    let changes = self.observer.changes.of(&record).await?;
                    found.push((record.partition, record.entry.offset, changes));
                }
            }
            self.beat().await?;
        }
        for partition in erased {
            let mut from = pass.cuts[&partition].published.max(pass.from[&partition].0);
            loop {
                let (entries, is_end) = self.observer.entries(partition, from).await?;
                from = entries.last().map_or(from, |entry| entry.offset + 1);
                let is_last = is_end || entries.is_empty();
                for entry in entries.into_iter().filter(|e| e.kind == EntryKind::Journal) {
                    let (offset, outcome) = (entry.offset, Outcome::Counted);
                    let record = Record {
                        partition,
                        outcome,
                        entry,
                    };
                    let changes = self.observer.changes.of(&record).await?;
                    found.push((partition, offset, changes));
                }
                if is_last {
                    break;
                }
            }
        }
        for (_, offset, changes) in &found {
            pass.erased.find(*offset, changes);
        }
        let found = found.into_iter();
        Ok(found
            .map(|(partition, _, changes)| (partition, changes))
            .collect())
    }

    /// Adds what a record has changed, or keeps it for later if it was not counted at the cut.
    async fn add_scanned(
        &mut self,
        source: &mut TopicSource,
        pass: &mut Pass,
        scanned: Scanned,
        additions: &mut Additions,
    ) -> Result<(), RebuildError> {
        if let Some(copied) = &scanned.copied {
            if !pass.accepts(copied) {
                return Ok(());
            }
            let entry = Place::Entry(copied.sequence);
            let record = record_of(copied.clone(), scanned);
            let changes = self.observer.changes.of(&record).await?;
            self.report.replayed += 1;
            pass.add(entry, changes, additions);
            return Ok(());
        }
        let offset = scanned.record.offset;
        let Some((partition, changes)) = source
            .changes_of(&mut self.observer.changes, scanned.clone())
            .await?
        else {
            return Ok(());
        };
        let Some((_, from)) = pass.from.get(&partition) else {
            return Ok(());
        };
        if offset >= pass.cuts[&partition].topic {
            return source
                .add_to_tail(&mut self.observer.changes, scanned)
                .await;
        }
        if offset >= *from && !pass.uncounted.contains(&(partition, offset)) {
            self.report.replayed += 1;
            pass.add(Place::Record(offset), changes, additions);
        }
        Ok(())
    }

    /// Adds counted entries that only the streams have.
    async fn add_uncopied(
        &mut self,
        pass: &Pass,
        additions: &mut Additions,
    ) -> Result<(), RebuildError> {
        for (partition, cut) in &pass.cuts {
            let mut from = cut.published.max(pass.from[partition].0);
            if from >= cut.position {
                continue;
            }
            let outcomes = self.observer.outcomes(*partition).await?;
            while from < cut.position {
                let (records, is_end) = self.observer.records(*partition, from, &outcomes).await?;
                let last = records
                    .last()
                    .map_or(from - 1, |record| record.entry.offset);
                for record in records.iter().filter(|of| of.entry.offset < cut.position) {
                    let changes = self.observer.changes.of(record).await?;
                    self.report.replayed += 1;
                    pass.add(Place::Entry(record.entry.offset), changes, additions);
                }
                if is_end && last + 1 < cut.position {
                    return Err(missing_entry(*partition, last + 1));
                }
                from = if is_end { cut.position } else { last + 1 };
                if additions.entities.len() >= ENTITIES {
                    self.add_part(additions).await?;
                }
            }
            self.beat().await?;
        }
        Ok(())
    }

    async fn add_part(&mut self, additions: &mut Additions) -> Result<(), RebuildError> {
        let mut part = std::mem::take(additions);
        part.reading = Reading::Part;
        self.shadows.add(part).await
    }
}

impl Pass {
    /// Whether the topic was read to the end that it had after the cuts.
    fn is_read(&self, source: &TopicSource) -> bool {
        self.ends.iter().all(|(q, end)| source.next(*q) >= *end)
    }

    /// Whether a copy is the first one of its event, and of an entry of this data that the shadows do not have.
    fn accepts(&mut self, copied: &Copied) -> bool {
        is_of_data(&self.cuts, &self.from, copied) && self.seen.insert(copied)
    }

    /// The entry of which a record is a copy, if that is an erasure.
    fn erasure(&self, scanned: &Scanned) -> Option<Record> {
        let copied = scanned.copied.as_ref().filter(|copied| copied.is_journal)?;
        let value = scanned.record.value.as_deref()?;
        let journal: Journal = serde_json::from_slice(value).ok()?;
        let is_erasure = journal.why == Cause::Erase && is_of_data(&self.cuts, &self.from, copied);
        is_erasure.then(|| record_of(copied.clone(), scanned.clone()))
    }

    /// Adds changes that no later erasure has deleted.
    fn add(&self, place: Place, changes: Vec<Change>, additions: &mut Additions) {
        let kept = changes.into_iter();
        kept.filter(|change| self.erased.keeps(place, change))
            .for_each(|change| additions.add(change));
    }
}

/// The entry of which a record is a copy.
fn record_of(copied: Copied, scanned: Scanned) -> Record {
    let mut entry = scanned.record.into_entry();
    entry.offset = copied.sequence;
    if copied.is_journal {
        entry.kind = EntryKind::Journal;
    }
    Record {
        partition: copied.source,
        outcome: copied.outcome,
        entry,
    }
}

/// Says how many records are missing.
fn removed(missing: &BTreeMap<u16, u64>) -> RebuildError {
    let named = missing.iter().take(NAMED);
    let named = named.map(|(partition, count)| format!("{count} of partition {partition}"));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and some of {more} other partitions"),
    };
    let total: u64 = missing.values().sum();
    RebuildError::Refused(format!(
        "the topic has removed {total} records that are needed ({named}{more}): only a baseline that is younger can help (--from BASELINE); for the next time, raise its retention or take baselines more often"
    ))
}
