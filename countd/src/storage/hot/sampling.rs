//! Which accesses are counted. A hot entity has many, so a sample finds it, and the others cost a subtraction for each request.

use std::cell::Cell;

/// One of this many accesses is counted, on average.
pub(super) const INTERVAL: u64 = 64;

thread_local! {
    /// The number of accesses of this thread that are not counted before the next one.
    static SKIPPED: Cell<usize> = Cell::new(gap());
}

/// The number of accesses between two that are counted. It is random: clients may repeat requests at regular intervals.
fn gap() -> usize {
    fastrand::usize(..2 * INTERVAL as usize - 1)
}

/// Calls a function with the index of each of `len` accesses that is counted.
pub(super) fn sample(len: usize, mut count: impl FnMut(usize)) {
    let mut next = SKIPPED.get();
    while next < len {
        count(next);
        next += 1 + gap();
    }
    SKIPPED.set(next - len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_its_share_of_pages_of_every_length() {
        for len in [1, 7, 64, 500] {
            let (pages, mut counted) = (6_400_000 / len, 0);
            for _ in 0..pages {
                sample(len, |index| {
                    assert!(index < len);
                    counted += 1;
                });
            }
            // 100,000 are expected, with a standard deviation of about 180.
            assert!((98_000..102_000).contains(&counted), "{len}: {counted}");
        }
    }
}
