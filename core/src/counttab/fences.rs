//! The next offset of each of the logs that feed a table.

/// The largest slot.
pub const MAX_SLOT: usize = 65_534;

/// A sparse map from slots to offsets; those at 0 take no room.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fences(Vec<Fence>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fence {
    slot: u16,
    /// The upper and the lower half of a number below 2^40: 8 bytes for an entry.
    high: u16,
    low: u32,
}

impl Fence {
    fn next(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

impl Fences {
    fn position(&self, slot: u16) -> Result<usize, usize> {
        self.0.binary_search_by_key(&slot, |fence| fence.slot)
    }

    /// The offset of a slot.
    pub fn get(&self, slot: u16) -> u64 {
        self.position(slot).map_or(0, |at| self.0[at].next())
    }

    /// Sets the offset of a slot, below 2^40.
    pub fn set(&mut self, slot: u16, next: u64) {
        let fence = Fence {
            slot,
            high: (next >> 32) as u16,
            low: next as u32,
        };
        match self.position(slot) {
            Ok(at) if next == 0 => {
                self.0.remove(at);
            }
            Ok(at) => self.0[at] = fence,
            Err(_) if next == 0 => {}
            Err(at) => {
                if self.0.len() == self.0.capacity() {
                    self.0.reserve_exact(self.0.len().clamp(1, 1024));
                }
                self.0.insert(at, fence);
            }
        }
    }

    /// Whether no slot is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Slots and offsets, by slot.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u16, u64)> {
        self.0.iter().map(|fence| (fence.slot, fence.next()))
    }
}
