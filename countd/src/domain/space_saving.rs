//! The most frequent items of a stream, in bounded memory: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005).
//!
//! An item that is not counted yet replaces the one with the smallest count, and inherits its count. So each item that makes up more than
//! 1 / capacity of the stream is among the items, and a count is too high by at most the count that it inherited.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// The most frequent items of a stream.
#[derive(Debug)]
pub struct SpaceSaving<T> {
    capacity: usize,
    slots: Vec<Slot<T>>,
    places: HashMap<T, usize>,
    /// Count and place of each item, from the smallest count on.
    by_count: BTreeSet<(u64, usize)>,
}

#[derive(Debug)]
struct Slot<T> {
    item: T,
    count: u64,
    /// The part of the count that belongs to items that this one has replaced, at most.
    inherited: u64,
}

impl<T: Clone + Eq + Hash> SpaceSaving<T> {
    /// Counts up to this many items, at least 1.
    pub fn new(capacity: usize) -> SpaceSaving<T> {
        SpaceSaving {
            capacity: capacity.max(1),
            slots: Vec::new(),
            places: HashMap::new(),
            by_count: BTreeSet::new(),
        }
    }

    /// Counts an item.
    pub fn add(&mut self, item: &T) {
        self.add_many(item, 1);
    }

    /// Counts an item this many times.
    pub fn add_many(&mut self, item: &T, times: u64) {
        let place = match self.places.get(item) {
            Some(place) => *place,
            None if self.slots.len() < self.capacity => {
                self.slots.push(Slot {
                    item: item.clone(),
                    count: 0,
                    inherited: 0,
                });
                self.places.insert(item.clone(), self.slots.len() - 1);
                self.slots.len() - 1
            }
            None => {
                let Some((_, place)) = self.by_count.first().copied() else {
                    return;
                };
                let slot = &mut self.slots[place];
                self.places.remove(&slot.item);
                self.places.insert(item.clone(), place);
                slot.item = item.clone();
                slot.inherited = slot.count;
                place
            }
        };
        let count = &mut self.slots[place].count;
        self.by_count.remove(&(*count, place));
        *count += times;
        self.by_count.insert((*count, place));
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The items, from the most frequent one on.
    pub fn top(&self) -> impl Iterator<Item = &T> {
        let places = self.by_count.iter().rev();
        places.map(|(_, place)| &self.slots[*place].item)
    }

    /// Each item, and how often it was counted at least.
    pub fn minimum_counts(&self) -> impl Iterator<Item = (&T, u64)> {
        let slots = self.slots.iter();
        slots.map(|slot| (&slot.item, slot.count - slot.inherited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_items_are_kept_among_many_others() {
        let mut items = SpaceSaving::new(20);
        for number in 0..100_000_u64 {
            // Each of 0 to 9 makes up 1 / 16 of the stream, more than 1 / 20.
            let hot = number % 16;
            items.add(&if hot < 10 { hot } else { 1_000 + number });
        }
        assert_eq!(items.len(), 20);
        let mut top: Vec<u64> = items.top().copied().take(10).collect();
        top.sort_unstable();
        assert_eq!(top, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn the_most_frequent_item_comes_first() {
        let mut items = SpaceSaving::new(2);
        assert!(items.is_empty());
        for item in ["a", "b", "b", "b", "c", "c", "b"] {
            items.add(&item);
        }
        assert_eq!(items.top().next(), Some(&"b"));
        assert_eq!(items.len(), 2);
    }

    #[test]
    fn minimum_counts_do_not_include_those_of_replaced_items() {
        let mut items = SpaceSaving::new(2);
        items.add_many(&"a", 10);
        items.add_many(&"b", 3);
        items.add_many(&"c", 2);
        let mut counts: Vec<(&str, u64)> =
            items.minimum_counts().map(|(item, n)| (*item, n)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [("a", 10), ("c", 2)]);
    }
}
