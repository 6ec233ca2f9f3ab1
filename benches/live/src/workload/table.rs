//! The rows of tables: their ids and counts.

use crate::driver::connection::BulkWriter;
use crate::error::Result;
use crate::workload::counts::{FIELD_NAMES, heavy_tail, log_uniform, mix, uniform};
use crate::workload::ids::{Arrival, Distribution, FIRST_ROW, FIRST_SET};

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

/// The number of tables of [`Tables`]: one for each of countd's partitions.
pub const TABLES: u64 = 1_024;

/// Rows of [`TABLES`] tables, assigned by a hash of their ids, with heavy-tailed counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tables {
    /// The ids, in the order in which the rows are inserted.
    pub ids: Distribution,
    /// The number of rows of all tables.
    pub rows: u64,
}

impl Tables {
    /// Rows inserted in the order of their ids, as a service creates them.
    pub fn ascending(rows: u64) -> Tables {
        let ids = Distribution::Snowflakes3y(Arrival::Ascending(rows));
        Tables { ids, rows }
    }

    /// Rows inserted in random order.
    pub fn random(rows: u64) -> Tables {
        let ids = Distribution::Snowflakes3y(Arrival::Random);
        Tables { ids, rows }
    }

    /// The number of the table of an id: seven digits, as those of sets.
    pub fn table_of(id: u64) -> u64 {
        FIRST_SET + mix(id) % TABLES
    }

    /// The command that creates row `i`.
    fn row(self, i: u64) -> Vec<String> {
        let id = self.ids.nth(i);
        let key = format!("{TABLE}:{}", Tables::table_of(id));
        let words = vec!["CTAB.SET".into(), key, id.to_string()];
        Tables::with_counts(words, i)
    }

    /// The command that creates a CountInt with the counts of row `i`.
    fn object(self, i: u64) -> Vec<String> {
        let key = format!("cnt:v1:note:{}", self.ids.nth(i));
        Tables::with_counts(vec!["CINT.SET".into(), key], i)
    }

    fn with_counts(mut words: Vec<String>, i: u64) -> Vec<String> {
        words.extend(["LEN", "5"].map(String::from));
        for field in 0..FIELD_NAMES.len() as u64 {
            words.extend([field.to_string(), heavy_tail(i, field).to_string()]);
        }
        words
    }

    /// Sends the commands that create the rows.
    pub fn load(self, writer: &mut BulkWriter) -> Result<()> {
        (0..self.rows).try_for_each(|i| writer.push(&self.row(i)))
    }

    /// Sends the commands that create a CountInt for each row.
    pub fn load_objects(self, writer: &mut BulkWriter) -> Result<()> {
        (0..self.rows).try_for_each(|i| writer.push(&self.object(i)))
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

    #[test]
    fn rows_are_spread_over_all_tables() {
        for tables in [Tables::ascending(50_000), Tables::random(50_000)] {
            let mut sizes = [0; TABLES as usize];
            for i in 0..tables.rows {
                sizes[(Tables::table_of(tables.ids.nth(i)) - FIRST_SET) as usize] += 1;
            }
            assert!(sizes.iter().all(|size| (15..95).contains(size)));
        }
        let row = Tables::random(9).row(3);
        assert_eq!(row[1].len(), "tab:note:1000000".len());
        let object = Tables::random(9).object(3);
        assert_eq!(object[1], format!("cnt:v1:note:{}", row[2]));
        assert_eq!(object[2..], row[3..]);
    }
}
