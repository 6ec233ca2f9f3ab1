//! The requests of the last minute, by entity, in bounded memory.
//!
//! Segments of 10 seconds rotate. Each counts the most frequent entities by the Space-Saving algorithm (`domain::space_saving`), reads and
//! writes apart. An entity with more than 1 / [`CAPACITY`] of the reads of a segment is among them.

use super::reports::HotEntity;
use crate::domain::ids::Entity;
use crate::domain::space_saving::SpaceSaving;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The length of a segment.
const SEGMENT: Duration = Duration::from_secs(10);
/// The number of segments.
const SEGMENTS: u64 = 6;
/// The number of entities that a segment counts. All segments together take at most 1.5 MB.
const CAPACITY: usize = 500;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// How often an entity was read and written, at least.
pub(super) type Count = (Entity, Access, u64);

struct Segment {
    /// The number of segments before it.
    number: u64,
    reads: SpaceSaving<Entity>,
    writes: SpaceSaving<Entity>,
}

/// The last segments.
pub(super) struct Window {
    since: Instant,
    /// From the oldest one on. Segments without requests are missing.
    segments: VecDeque<Segment>,
}

impl Window {
    /// A window without requests.
    pub fn new(now: Instant) -> Window {
        Window {
            since: now,
            segments: VecDeque::new(),
        }
    }

    /// The number of the segment at a time, and of the first one of the window. Older ones are removed.
    fn rotate(&mut self, now: Instant) -> (u64, u64) {
        let number = now.saturating_duration_since(self.since).as_secs() / SEGMENT.as_secs();
        let first = number.saturating_sub(SEGMENTS - 1);
        while (self.segments.front()).is_some_and(|segment| segment.number < first) {
            self.segments.pop_front();
        }
        (number, first)
    }

    /// Counts this many requests.
    pub fn add(&mut self, entity: &Entity, access: Access, times: u64, now: Instant) {
        let (number, _) = self.rotate(now);
        // Threads read the clock before they get the lock, so a request may belong to the segment before the last one.
        if (self.segments.back()).is_none_or(|last| last.number < number) {
            self.segments.push_back(Segment {
                number,
                reads: SpaceSaving::new(CAPACITY),
                writes: SpaceSaving::new(CAPACITY),
            });
        }
        let Some(segment) = self.segments.back_mut() else {
            return;
        };
        match access {
            Access::Read => segment.reads.add_many(entity, times),
            Access::Write => segment.writes.add_many(entity, times),
        }
    }

    /// The counts of all segments, and the length of the window in seconds: that of a segment at least, a minute at most.
    pub fn counts(&mut self, now: Instant) -> (Vec<Count>, f64) {
        let (_, first) = self.rotate(now);
        let elapsed = now.saturating_duration_since(self.since);
        let seconds = elapsed.as_secs_f64() - (first * SEGMENT.as_secs()) as f64;
        let mut counts = Vec::new();
        for segment in &self.segments {
            for (of, access) in [
                (&segment.reads, Access::Read),
                (&segment.writes, Access::Write),
            ] {
                let items = of.minimum_counts();
                counts.extend(items.map(|(entity, count)| (entity.clone(), access, count)));
            }
        }
        (counts, seconds.max(SEGMENT.as_secs_f64()))
    }
}

/// The requests per second of each entity.
pub(super) fn rates(counts: Vec<Count>, seconds: f64) -> Vec<HotEntity> {
    let mut sums: HashMap<Entity, (u64, u64)> = HashMap::with_capacity(counts.len());
    for (entity, access, count) in counts {
        let (reads, writes) = sums.entry(entity).or_default();
        match access {
            Access::Read => *reads += count,
            Access::Write => *writes += count,
        }
    }
    let sums = sums.into_iter();
    sums.map(|(entity, (reads, writes))| HotEntity {
        entity,
        reads: reads as f64 / seconds,
        writes: writes as f64 / seconds,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::testing::entity;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    fn rates_at(window: &mut Window, now: Instant) -> Vec<(String, f64, f64)> {
        let (counts, seconds) = window.counts(now);
        let mut rates: Vec<(String, f64, f64)> = rates(counts, seconds)
            .into_iter()
            .map(|hot| (hot.entity.eid.to_string(), hot.reads, hot.writes))
            .collect();
        rates.sort_by(|a, b| a.0.cmp(&b.0));
        rates
    }

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let start = Instant::now();
        let mut window = Window::new(start);
        let (a, b) = (entity("note", "a"), entity("note", "b"));
        window.add(&a, Access::Read, 640, at(start, 1));
        window.add(&a, Access::Write, 64, at(start, 2));
        // A window is never shorter than a segment.
        let expected = vec![("a".to_owned(), 64.0, 6.4)];
        assert_eq!(rates_at(&mut window, at(start, 3)), expected);
        window.add(&b, Access::Read, 600, at(start, 25));
        let expected = [("a".to_owned(), 16.0, 1.6), ("b".to_owned(), 15.0, 0.0)];
        assert_eq!(rates_at(&mut window, at(start, 40)), expected);
        // The first segment has left the window, which begins at 10 seconds.
        let expected = [("b".to_owned(), 12.0, 0.0)];
        assert_eq!(rates_at(&mut window, at(start, 60)), expected);
        assert!(rates_at(&mut window, at(start, 600)).is_empty());
    }

    #[test]
    fn a_hot_entity_is_found_among_many_others() {
        let start = Instant::now();
        let mut window = Window::new(start);
        let hot = entity("note", "hot");
        for number in 0..100_000_u64 {
            let now = start + Duration::from_micros(number * 100);
            let other = entity("note", &number.to_string());
            let of = if number % 100 == 0 { &hot } else { &other };
            window.add(of, Access::Read, 1, now);
        }
        let rates = rates_at(&mut window, at(start, 10));
        let (_, reads, _) = rates.iter().find(|(eid, ..)| eid == "hot").expect("found");
        // 1,000 reads in 10 seconds, without those that it may have inherited.
        assert!((80.0..=100.0).contains(reads), "{reads}");
        let others = rates.iter().filter(|(eid, ..)| eid != "hot");
        assert!(others.into_iter().all(|(_, reads, _)| *reads <= 1.0));
    }
}
