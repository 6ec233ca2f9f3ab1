//! The rows of tables: their ids and counts.

use crate::driver::connection::BulkWriter;
use crate::error::Result;
use crate::workload::counts::{FIELD_NAMES, heavy_tail, log_uniform, uniform};
use crate::workload::ids::{Distribution, FIRST_ROW};

/// The key of the table.
pub const TABLE: &str = "tab:note";

/// The kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows {
    /// Sequential ids and log-uniform counts, the same counts as those of objects.
    Plain,
    /// Sequential ids, heavy-tailed counts.
    HeavyTail,
    /// Sequential ids, uniform counts.
    Random,
    /// Snowflake ids in random order, heavy-tailed counts.
    Snowflakes,
}

impl Rows {
    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            Rows::Plain => "ids in sequence, log-uniform counts",
            Rows::HeavyTail => "ids in sequence, a heavy tail of counts",
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
            Rows::Plain => log_uniform(i, field),
            Rows::Random => uniform(i, field),
            Rows::HeavyTail | Rows::Snowflakes => heavy_tail(i, field),
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

    /// Sends the commands that create the first `rows` rows.
    pub fn load(self, rows: u64, writer: &mut BulkWriter) -> Result<()> {
        (0..rows).try_for_each(|i| writer.push(&self.row(i)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_command() {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|field| log_uniform(7, field));
        assert_eq!(
            Rows::Plain.row(7).join(" "),
            format!("CTAB.SET tab:note 10000007 LEN 5 0 {a} 1 {b} 2 {c} 3 {d} 4 {e}")
        );
    }
}
