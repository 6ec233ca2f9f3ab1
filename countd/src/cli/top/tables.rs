//! The tables of `countd top`: their columns, and the cells of their rows.

use super::view::View;
use indicatif::{HumanBytes, HumanCount};
use std::cmp::Ordering;

/// The tables, in the order of the Tab key.
pub const TABLES: [Table; 3] = [Table::Partitions, Table::Hot, Table::Nodes];

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Partitions with uncounted entries.
    Partitions,
    /// Hot entities.
    Hot,
    /// Nodes of Redis.
    Nodes,
}

/// A cell, which orders rows and is printed.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    Count(f64),
    /// A number each second.
    Rate(Option<f64>),
    Bytes(f64),
    /// A share of 1.
    Share(Option<f64>),
}

/// The cells of a row, one for each column.
pub type Row = Vec<Cell>;

impl Table {
    /// The title.
    pub fn title(self) -> &'static str {
        match self {
            Table::Partitions => "Lag by partition",
            Table::Hot => "Hot entities",
            Table::Nodes => "Redis",
        }
    }

    /// The headings of the columns, and their widths. The first column takes the rest of the width.
    pub fn columns(self) -> &'static [(&'static str, u16)] {
        match self {
            Table::Partitions => &[("Partition", 9), ("Lag", 10), ("Growth/s", 11)],
            Table::Hot => &[("Entity", 20), ("Reads/s", 11), ("Writes/s", 11)],
            Table::Nodes => &[
                ("Node", 16),
                ("Memory", 11),
                ("Limit", 11),
                ("Commands/s", 12),
                ("Core", 6),
                ("Clients", 8),
                ("Keys", 12),
            ],
        }
    }

    /// The index of the column that orders the table at first.
    pub fn first_order(self) -> usize {
        match self {
            Table::Partitions | Table::Hot | Table::Nodes => 1,
        }
    }

    /// What is printed instead of rows, if there are none.
    pub fn empty(self) -> &'static str {
        match self {
            Table::Partitions => "every event is counted",
            Table::Hot => "no entity is hot",
            Table::Nodes => "no node is known",
        }
    }

    /// The rows, in any order.
    pub fn rows(self, view: &View) -> Vec<Row> {
        match self {
            Table::Partitions => view
                .partitions
                .iter()
                .map(|one| {
                    vec![
                        Cell::Count(f64::from(one.partition)),
                        Cell::Count(one.lag as f64),
                        Cell::Rate(one.growth_per_second),
                    ]
                })
                .collect(),
            Table::Hot => view
                .hot
                .iter()
                .map(|one| {
                    vec![
                        Cell::Text(format!("{} {}", one.etype, one.eid)),
                        Cell::Rate(Some(one.reads)),
                        Cell::Rate(Some(one.writes)),
                    ]
                })
                .collect(),
            Table::Nodes => view
                .nodes
                .iter()
                .map(|one| {
                    let name = match one.up {
                        true => one.node.clone(),
                        false => format!("{} (down)", one.node),
                    };
                    vec![
                        Cell::Text(name),
                        Cell::Bytes(one.memory_bytes),
                        match one.memory_max_bytes > 0.0 {
                            true => Cell::Bytes(one.memory_max_bytes),
                            false => Cell::Text("none".to_owned()),
                        },
                        Cell::Rate(one.commands_per_second),
                        Cell::Share(one.main_thread),
                        Cell::Count(one.clients),
                        Cell::Count(one.keys),
                    ]
                })
                .collect(),
        }
    }
}

impl Cell {
    /// The text.
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => counted(*count),
            Cell::Rate(rate) => per_second(*rate),
            Cell::Bytes(bytes) => HumanBytes(*bytes as u64).to_string(),
            Cell::Share(share) => share.map_or("-".to_owned(), |share| {
                format!("{:.0} %", (share * 100.0).round())
            }),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Cell::Text(_) => None,
            Cell::Count(number) | Cell::Bytes(number) => Some(*number),
            Cell::Rate(number) | Cell::Share(number) => *number,
        }
    }

    /// Orders cells of a column: what is unknown comes first, then texts by their characters, and numbers by their values.
    pub fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            _ => {
                let number = |cell: &Cell| cell.number().unwrap_or(f64::NEG_INFINITY);
                number(self).total_cmp(&number(other))
            }
        }
    }
}

/// A number of things.
pub fn counted(count: f64) -> String {
    HumanCount(count as u64).to_string()
}

/// A rate with one decimal, and a dash if it is unknown.
pub fn per_second(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |rate| {
        let tenths = (rate.abs() * 10.0).round() as u64;
        let sign = if rate < 0.0 && tenths > 0 { "-" } else { "" };
        format!("{sign}{}.{}", HumanCount(tenths / 10), tenths % 10)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_printed_with_their_units() {
        let text = |cell: Cell| cell.text();
        assert_eq!(text(Cell::Count(1_234_567.0)), "1,234,567");
        assert_eq!(text(Cell::Rate(Some(1234.56))), "1,234.6");
        assert_eq!(text(Cell::Rate(Some(-0.25))), "-0.3");
        assert_eq!(text(Cell::Rate(Some(-0.01))), "0.0");
        assert_eq!(text(Cell::Rate(None)), "-");
        assert_eq!(text(Cell::Bytes(1.5 * 1024.0 * 1024.0)), "1.50 MiB");
        assert_eq!(text(Cell::Share(Some(0.254))), "25 %");
    }

    #[test]
    fn numbers_are_ordered_by_value_and_unknown_ones_first() {
        let mut cells = [Some(2.0), None, Some(10.0), Some(-1.0)].map(Cell::Rate);
        cells.sort_by(Cell::compare);
        let expected = [None, Some(-1.0), Some(2.0), Some(10.0)].map(Cell::Rate);
        assert_eq!(cells, expected);
        let (limit, none) = (Cell::Bytes(1.0), Cell::Text("none".to_owned()));
        assert_eq!(none.compare(&limit), Ordering::Less);
        let text = |text: &str| Cell::Text(text.to_owned());
        assert_eq!(text("a 2").compare(&text("a 10")), Ordering::Greater);
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        let view = super::super::screen::testing::view();
        for table in TABLES {
            let rows = table.rows(&view);
            assert!(!rows.is_empty(), "{table:?}");
            let columns = table.columns().len();
            assert!(rows.iter().all(|row| row.len() == columns), "{table:?}");
            assert!(table.first_order() < columns, "{table:?}");
        }
    }
}
