//! Medians and quartiles.

/// Repeated measurements, sorted.
pub struct Spread(Vec<f64>);

impl Spread {
    /// The spread of at least one finite value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        assert!(!values.is_empty(), "nothing was measured");
        values.sort_by(f64::total_cmp);
        Spread(values)
    }

    /// The middle value, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The lower quartile.
    pub fn low(&self) -> f64 {
        self.quantile(0.25)
    }

    /// The upper quartile.
    pub fn high(&self) -> f64 {
        self.quantile(0.75)
    }

    /// The interval in which the median of all possible measurements lies with a confidence of at least 95 %, whatever their distribution, if they are
    /// independent and at least six: from one order statistic to another, by the normal approximation of the binomial distribution (Conover, *Practical Nonparametric
    /// Statistics*, 3.2).
    pub fn median_interval(&self) -> (f64, f64) {
        let n = self.0.len() as f64;
        let margin = 1.96 * n.sqrt() / 2.0;
        let first = ((n / 2.0 - margin).floor() - 1.0).max(0.0) as usize;
        (self.0[first], self.0[self.0.len() - 1 - first])
    }

    /// The quantile `q` (0 to 1), interpolated between the two nearest values.
    pub fn quantile(&self, q: f64) -> f64 {
        let rank = q * (self.0.len() - 1) as f64;
        let below = self.0[rank.floor() as usize];
        let above = self.0[rank.ceil() as usize];
        below + (above - below) * rank.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles() {
        let spread = Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(
            (spread.low(), spread.median(), spread.high()),
            (2.0, 3.0, 4.0)
        );
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_interpolated() {
        assert_eq!(Spread::of([1.0, 2.0, 10.0, 4.0]).median(), 3.0);
        assert_eq!(Spread::of([7.0]).high(), 7.0);
    }

    #[test]
    fn the_interval_of_a_median_narrows_with_more_values() {
        let of = |n: u32| Spread::of((1..=n).map(f64::from)).median_interval();
        assert_eq!(of(4), (1.0, 4.0));
        // The 40th and 61st of 100, as in tables.
        assert_eq!(of(100), (40.0, 61.0));
    }
}
