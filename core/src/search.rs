//! Interpolation search in sorted lists of ids, with a logarithmic worst case (interpolation, then galloping; Bentley and Yao
//! 1976).

use std::ops::Range;

/// Lists of at most this length use binary search.
const SHORT: usize = 16;

/// The index of the last item of `sorted` whose start is at most `m`; 0 when there is none. `sorted` is in ascending order
/// of `start`.
///
/// The search begins at the position that an even distribution predicts, which is close for ids that were assigned over
/// time. It gallops from there and ends with a binary search, so the worst case is O(log n).
#[inline]
pub fn last_from<T>(sorted: &[T], start: impl Fn(&T) -> u64, m: u64) -> usize {
    let [first, .., last] = sorted else { return 0 };
    let (first, last) = (start(first), start(last));
    if m >= last || m < first {
        return if m < first { 0 } else { sorted.len() - 1 };
    }
    if sorted.len() <= SHORT {
        return sorted
            .partition_point(|item| start(item) <= m)
            .saturating_sub(1);
    }
    let fraction = (m - first) as f64 / (last - first) as f64;
    let guess = (fraction * (sorted.len() - 1) as f64) as usize;
    last_near(guess, sorted, start, m)
}

/// [`last_from`] for a list whose first start is `span.start` and whose starts are all below `span.end`. It does not read
/// the ends of the list.
#[inline]
pub fn last_between<T>(span: Range<u64>, sorted: &[T], start: impl Fn(&T) -> u64, m: u64) -> usize {
    let fraction = m.saturating_sub(span.start) as f64 / (span.end - span.start) as f64;
    let guess = (fraction * sorted.len() as f64) as usize;
    last_near(guess, sorted, start, m)
}

/// The galloping search, beginning at `guess`.
#[inline]
fn last_near<T>(guess: usize, sorted: &[T], start: impl Fn(&T) -> u64, m: u64) -> usize {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0;
    };
    let early = |i: usize| start(&sorted[i]) <= m;
    let guess = guess.min(last);
    // The result is in `low..high`.
    let (mut low, mut high) = (guess, sorted.len());
    let mut step = 1;
    while low > 0 && !early(low) {
        high = low;
        low = low.saturating_sub(step);
        step *= 2;
    }
    let mut above = low + 1;
    while above < high && early(above) {
        low = above;
        above += step;
        step *= 2;
    }
    high = high.min(above);
    while high - low > 1 {
        let middle = low.midpoint(high);
        (low, high) = if early(middle) {
            (middle, high)
        } else {
            (low, middle)
        };
    }
    low
}

#[cfg(test)]
mod tests {
    use super::{last_between, last_from, last_near};
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    fn agrees(sorted: &[u64], m: u64) {
        let expected = sorted.partition_point(|&s| s <= m).saturating_sub(1);
        assert_eq!(last_from(sorted, |&s| s, m), expected, "{m} in {sorted:?}");
        for guess in [0, sorted.len() / 2, usize::MAX] {
            assert_eq!(last_near(guess, sorted, |&s| s, m), expected, "{guess}");
        }
        if let [first, .., last] = *sorted {
            let end = last.saturating_add(1);
            let found = last_between(first..end, sorted, |&s| s, m);
            assert_eq!(found, expected, "{m} between the ends of {sorted:?}");
        }
    }

    fn agrees_around_all(sorted: &[u64]) {
        for &s in sorted {
            for m in [s.saturating_sub(1), s, s.saturating_add(1)] {
                agrees(sorted, m);
            }
        }
        for m in [0, 1, u64::MAX / 2, u64::MAX] {
            agrees(sorted, m);
        }
    }

    #[test]
    fn any_distribution_is_searched_correctly() {
        let powers: Vec<u64> = (0..64).map(|bit| 1 << bit).collect();
        let mirrored: Vec<u64> = powers.iter().rev().map(|power| u64::MAX - power).collect();
        let ends: Vec<u64> = (0..100).chain(u64::MAX - 99..=u64::MAX).collect();
        let late: Vec<u64> = [0].into_iter().chain(u64::MAX - 200..u64::MAX).collect();
        let early: Vec<u64> = (0..200).chain([u64::MAX]).collect();
        let even: Vec<u64> = (0..500).map(|i| i * 64).collect();
        for sorted in [powers, mirrored, ends, late, early, even] {
            for len in [1, 2, 3, 16, 17, 18, 50, sorted.len()] {
                agrees_around_all(&sorted[..len.min(sorted.len())]);
            }
        }
        agrees(&[], 7);
    }

    proptest! {
        #[test]
        fn results_equal_those_of_binary_search(sorted in btree_set(any::<u64>(), 0..300), shift in 0..60u32) {
            let sorted: Vec<u64> = sorted.into_iter().map(|s| s >> shift).collect();
            agrees_around_all(&sorted);
        }
    }
}
