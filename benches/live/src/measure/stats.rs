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
}
