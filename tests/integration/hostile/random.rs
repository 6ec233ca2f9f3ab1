//! Pseudo-random numbers, the same in every run.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// The sequence of a seed. Prints the seed for failed tests.
    pub fn new(seed: u64) -> Random {
        println!("seed {seed:#x}");
        Random(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number less than `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// `count` distinct numbers less than `bound`, ascending.
    pub fn ascending(&mut self, count: usize, bound: u64) -> Vec<u64> {
        let mut all = std::collections::BTreeSet::new();
        while all.len() < count {
            all.insert(self.next() % bound);
        }
        all.into_iter().collect()
    }
}
