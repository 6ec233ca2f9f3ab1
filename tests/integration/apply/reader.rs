//! A consumer of a log that crashes and repeats batches often.

use super::log::{Event, Source};
use super::store::{Batch, ConnectionLost, Store};
use crate::traffic::Random;
use std::collections::BTreeMap;

/// Reads a log in batches of random sizes and applies one batch to each key.
pub struct Reader<S> {
    source: S,
    fence: usize,
    random: Random,
    /// The next offset; all events before it were applied.
    pub next: u64,
    /// The highest offset that it has reached.
    pub furthest: u64,
    /// The highest offset that it has tried to apply: some keys may contain events up to here.
    pub attempted: u64,
    /// The remaining number of crashes.
    pub crashes: u64,
    /// Batches below the highest offset that were new, because the server had lost them.
    pub recovered: u64,
    /// Batches that were applied in part before.
    pub partial: u64,
    first: u64,
}

impl<S: Source> Reader<S> {
    /// A reader at the start of a log.
    pub fn new(source: S, fence: usize, first: u64, seed: u64) -> Reader<S> {
        Reader {
            source,
            fence,
            random: Random(seed),
            next: first,
            furthest: first,
            attempted: first,
            crashes: 0,
            recovered: 0,
            partial: 0,
            first,
        }
    }

    /// Reads a batch and applies it, or only a part of it in a crash. Returns false at the end of the log.
    pub fn step(&mut self, store: &mut impl Store) -> Result<bool, ConnectionLost> {
        let max_events = if self.random.below(4) == 0 { 100 } else { 10 };
        let count = 1 + self.random.below(max_events);
        self.step_of(store, count as usize)
    }

    /// The same with at most `count` events.
    pub fn step_of(
        &mut self,
        store: &mut impl Store,
        count: usize,
    ) -> Result<bool, ConnectionLost> {
        let events = self.source.read(self.next, count);
        let Some(last) = events.last().map(|event| event.offset) else {
            return Ok(false);
        };
        self.attempted = self.attempted.max(last + 1);
        let mut keys: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
        // In a different order of keys each time.
        let order = self.random.next();
        for event in events {
            let place = Random(order ^ event.key as u64).next();
            keys.entry(place).or_default().push(event);
        }
        for events in keys.values() {
            if self.crashes() {
                self.rewind();
                return Ok(true);
            }
            self.deliver(store, events)?;
        }
        self.next = last + 1;
        self.furthest = self.furthest.max(self.next);
        if self.crashes() {
            self.rewind();
        }
        Ok(true)
    }

    fn crashes(&mut self) -> bool {
        let now = self.crashes > 0 && self.random.below(12) == 0;
        self.crashes -= u64::from(now);
        now
    }

    /// Rewinds to a random earlier offset.
    fn rewind(&mut self) {
        self.next = self.first + self.random.below(self.next - self.first + 1);
    }

    /// Applies the events of one key.
    fn deliver(
        &mut self,
        store: &mut impl Store,
        mut events: &[Event],
    ) -> Result<(), ConnectionLost> {
        loop {
            let batch = self.aggregate(events);
            let next = store.apply(&batch)?;
            if next <= batch.from {
                self.recovered += u64::from(batch.to < self.furthest);
                return Ok(());
            }
            if next > batch.to {
                return Ok(());
            }
            self.partial += 1;
            let seen = events.partition_point(|event| event.offset < next);
            events = &events[seen..];
        }
    }

    fn aggregate(&mut self, events: &[Event]) -> Batch {
        let (first, last) = (events[0], events[events.len() - 1]);
        let mut deltas: Vec<(usize, i64)> = events
            .iter()
            .map(|event| (event.idx, event.delta))
            .collect();
        // One sum for each field, or one increment for each event.
        if self.random.below(2) == 0 {
            let mut sums = BTreeMap::new();
            for (idx, delta) in deltas {
                *sums.entry(idx).or_insert(0) += delta;
            }
            deltas = sums.into_iter().collect();
        }
        Batch {
            key: first.key,
            fence: self.fence,
            from: first.offset,
            to: last.offset,
            deltas,
        }
    }
}
