//! The fences of a table: for each source (a log that feeds the table), the next offset that was not applied yet.

/// The largest source.
pub const MAX_SOURCE: usize = 65_534;

/// A sparse map from sources to offsets. An offset of 0 is not stored.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fences(Vec<Fence>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fence {
    source: u16,
    /// The offset, split so that an entry takes 8 bytes.
    high: u16,
    low: u32,
}

impl Fence {
    fn next(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

impl Fences {
    fn position(&self, source: u16) -> Result<usize, usize> {
        self.0.binary_search_by_key(&source, |fence| fence.source)
    }

    /// The offset of a source.
    pub fn get(&self, source: u16) -> u64 {
        self.position(source).map_or(0, |at| self.0[at].next())
    }

    /// Sets the offset of a source, below 2^40.
    pub fn set(&mut self, source: u16, next: u64) {
        let fence = Fence {
            source,
            high: (next >> 32) as u16,
            low: next as u32,
        };
        match self.position(source) {
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

    /// Whether every offset is 0.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Pairs of source and offset, in the order of the sources.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u16, u64)> {
        self.0.iter().map(|fence| (fence.source, fence.next()))
    }
}
