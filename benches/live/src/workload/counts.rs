//! The values of the counters: deterministic functions of an entity's index, equal in every data set.

/// The names of the five counters, used as Hash fields and in keys.
pub const FIELD_NAMES: [&str; 5] = ["read", "like", "fav", "comment", "repost"];

/// The largest value of a counter.
pub const COUNT_MAX: u64 = (1 << 40) - 1;

/// The increment of SplitMix64's state.
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A pseudorandom generator: SplitMix64.
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        let value = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        value
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// SplitMix64's output for state `x`.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN_GAMMA);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Log-uniform below 2^20: most counts are small.
pub fn log_uniform(entity: u64, field: u64) -> u64 {
    let r = mix(entity * 8 + field);
    (r >> 44) >> (r % 20)
}

/// Uniform over all values of a counter.
pub fn uniform(entity: u64, field: u64) -> u64 {
    mix(entity * 8 + field) >> 24
}

/// Heavy-tailed: reads are log-normal (median 150, 99th percentile 70,000), the other counters are fixed shares of them,
/// rounded down, in the order of [`FIELD_NAMES`].
pub fn heavy_tail(entity: u64, field: u64) -> u64 {
    const MEDIAN: f64 = 150.0;
    const P99: f64 = 70_000.0;
    /// The quantile of the standard normal distribution at 0.99.
    const Z99: f64 = 2.326_347_874;
    const SHARES: [f64; FIELD_NAMES.len()] = [1.0, 0.07, 0.01, 0.02, 0.007];
    let uniform = |salt: u64| ((mix(2 * entity + salt) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    // The Box-Muller transform.
    let normal = (-2.0 * uniform(0).ln()).sqrt() * (std::f64::consts::TAU * uniform(1)).cos();
    let sigma = (P99 / MEDIAN).ln() / Z99;
    let reads = (MEDIAN.ln() + sigma * normal).exp().floor();
    ((reads * SHARES[field as usize]) as u64).min(COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_uniform_counts_are_mostly_small() {
        let counts: Vec<u64> = (0..10_000).map(|i| log_uniform(i, 2)).collect();
        assert!(counts.iter().all(|&c| c < 1 << 20));
        assert!(counts.iter().any(|&c| c > 1 << 18) && counts.iter().any(|&c| c < 4));
    }

    #[test]
    fn uniform_counts_use_the_whole_range() {
        assert!((0..1000).all(|i| uniform(i, 3) <= COUNT_MAX));
        assert!((0..1000).any(|i| uniform(i, 3) > COUNT_MAX / 2));
    }

    #[test]
    fn heavy_tailed_counts_have_the_stated_quantiles() {
        let mut reads: Vec<u64> = (0..100_000).map(|i| heavy_tail(i, 0)).collect();
        reads.sort_unstable();
        assert!((140..160).contains(&reads[50_000]), "{}", reads[50_000]);
        assert!(
            (62_000..79_000).contains(&reads[99_000]),
            "{}",
            reads[99_000]
        );
        assert!((0..1000).all(|i| heavy_tail(i, 1) == (heavy_tail(i, 0) as f64 * 0.07) as u64));
    }
}
