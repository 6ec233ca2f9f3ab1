//! Finding where an id belongs among sorted ones.

/// So few are searched by halving alone.
const FEW: usize = 16;

/// The last of `sorted`, which ascend by `start`, that does not start after `m`; 0 where there is none.
///
/// Begins where it would be if the starts were spread evenly, as those of ids given out over time mostly are, and goes on
/// by doubling its steps and then halving them: O(log n) whatever they are.
#[inline]
pub fn last_from<T>(sorted: &[T], start: impl Fn(&T) -> u64, m: u64) -> usize {
    let smaller = |i: usize| start(&sorted[i]) <= m;
    let [first, .., last] = sorted else { return 0 };
    let (first, last) = (start(first), start(last));
    if m >= last || m < first {
        return if m < first { 0 } else { sorted.len() - 1 };
    }
    if sorted.len() <= FEW {
        return sorted
            .partition_point(|item| start(item) <= m)
            .saturating_sub(1);
    }
    let share = (m - first) as f64 / (last - first) as f64;
    // At `low` one is that starts early enough, at `high` none.
    let (mut low, mut high) = (0, sorted.len() - 1);
    let guess = (share * high as f64) as usize;
    let mut step = 2;
    let (mut below, mut above) = (guess.saturating_sub(1), guess + 1);
    while below > low && !smaller(below) {
        (high, above) = (below, below);
        below = below.saturating_sub(step);
        step *= 2;
    }
    low = below;
    while above < high && smaller(above) {
        low = above;
        above += step;
        step *= 2;
    }
    high = high.min(above);
    while high - low > 1 {
        let middle = low.midpoint(high);
        (low, high) = if smaller(middle) {
            (middle, high)
        } else {
            (low, middle)
        };
    }
    low
}

#[cfg(test)]
mod tests {
    use super::last_from;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    fn agrees(sorted: &[u64], m: u64) {
        let expected = sorted.partition_point(|&s| s <= m).saturating_sub(1);
        assert_eq!(last_from(sorted, |&s| s, m), expected, "{m} in {sorted:?}");
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
    fn however_unevenly_they_are_spread() {
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
        fn as_halving_finds_it(sorted in btree_set(any::<u64>(), 0..300), shift in 0..60u32) {
            let sorted: Vec<u64> = sorted.into_iter().map(|s| s >> shift).collect();
            agrees_around_all(&sorted);
        }
    }
}
