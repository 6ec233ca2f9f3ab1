//! Tables: which rows they have and what is in them.

use crate::Result;
use crate::dataset::Sender;
use crate::distribution::Distribution;
use crate::numbers::{count, mix};
use crate::template::FIELD_NAMES;

/// The key of the table.
pub const TABLE: &str = "tab:note";
/// The smallest id: all have eight digits then, and can be patched into commands in place.
pub const FIRST_ROW: u64 = 10_000_000;
/// The largest count.
const COUNT_MAX: u64 = (1 << 40) - 1;

/// The kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows {
    /// Ids one after the other, and the counts that objects have too.
    Plain,
    /// Ids one after the other, and counts as posts have them.
    Posts,
    /// Ids one after the other, and any of the counts that there are.
    Random,
    /// Snowflakes in random order, and counts as posts have them.
    Snowflakes,
}

impl Rows {
    /// What they are, for the report.
    pub fn label(self) -> &'static str {
        match self {
            Rows::Plain => "ids in sequence, log-uniform counts",
            Rows::Posts => "ids in sequence, a heavy tail of counts",
            Rows::Random => "ids in sequence, counts random up to 2^40-1",
            Rows::Snowflakes => "snowflake ids, a heavy tail of counts",
        }
    }

    fn id(self, i: u64) -> u64 {
        match self {
            Rows::Snowflakes => Distribution::Snowflake.nth(i),
            _ => FIRST_ROW + i,
        }
    }

    fn count(self, i: u64, field: u64) -> u64 {
        match self {
            Rows::Plain => count(i, field),
            Rows::Random => mix(i * 8 + field) >> 24,
            Rows::Posts | Rows::Snowflakes => post(i, field),
        }
    }

    /// The command that creates row `i`.
    fn row(self, i: u64) -> Vec<String> {
        let id = self.id(i).to_string();
        let mut words = ["CTAB.SET", TABLE, &id, "LEN", "5"]
            .map(String::from)
            .to_vec();
        for field in 0..FIELD_NAMES.len() as u64 {
            words.extend([field.to_string(), self.count(i, field).to_string()]);
        }
        words
    }

    /// Sends what creates so many rows.
    pub fn load(self, rows: u64, sender: &mut Sender) -> Result<()> {
        (0..rows).try_for_each(|i| sender.push(&self.row(i)))
    }
}

/// The counts of post `i`: reads are log-normal (median 150, one of a hundred beyond 70,000), the others shares of them,
/// rounded down, in the order of [`FIELD_NAMES`].
fn post(i: u64, field: u64) -> u64 {
    const MEDIAN: f64 = 150.0;
    const NEXT_TO_LAST_PERCENTILE: f64 = 70_000.0;
    /// The quantile of the normal distribution at 0.99.
    const AT_99: f64 = 2.326_347_874;
    const SHARES: [f64; FIELD_NAMES.len()] = [1.0, 0.07, 0.01, 0.02, 0.007];
    let uniform = |salt: u64| ((mix(2 * i + salt) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    // Box and Muller's transform.
    let normal = (-2.0 * uniform(0).ln()).sqrt() * (std::f64::consts::TAU * uniform(1)).cos();
    let sigma = (NEXT_TO_LAST_PERCENTILE / MEDIAN).ln() / AT_99;
    let reads = (MEDIAN.ln() + sigma * normal).exp().floor();
    ((reads * SHARES[field as usize]) as u64).min(COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_are_read_as_the_tail_says() {
        let mut reads: Vec<u64> = (0..100_000).map(|i| post(i, 0)).collect();
        reads.sort_unstable();
        assert!((140..160).contains(&reads[50_000]), "{}", reads[50_000]);
        assert!(
            (62_000..79_000).contains(&reads[99_000]),
            "{}",
            reads[99_000]
        );
        assert!((0..1000).all(|i| post(i, 1) == (post(i, 0) as f64 * 0.07) as u64));
    }

    #[test]
    fn a_row_is_one_command() {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|field| count(7, field));
        assert_eq!(
            Rows::Plain.row(7).join(" "),
            format!("CTAB.SET tab:note 10000007 LEN 5 0 {a} 1 {b} 2 {c} 3 {d} 4 {e}")
        );
        assert!((0..1000).all(|i| Rows::Random.count(i, 3) <= COUNT_MAX));
        assert!((0..1000).any(|i| Rows::Random.count(i, 3) > COUNT_MAX / 2));
    }
}
