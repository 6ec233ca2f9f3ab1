//! Memory of a row of a table, by ids and counts.

use crate::driver::programs::Programs;
use crate::error::Result;
use crate::measure::entities::WARM_UP;
use crate::measure::memory::bytes_each;
use crate::workload::dataset::{DataSet, ObjectKind};
use crate::workload::scale::Scale;
use crate::workload::table::{Rows, Tables};

/// The kinds of rows.
pub const KINDS: [Rows; 3] = [Rows::HeavyTail, Rows::Random, Rows::Snowflakes];

/// The orders in which the rows of many tables are inserted.
pub fn orders(rows: u64) -> [Tables; 2] {
    [Tables::ascending(rows), Tables::random(rows)]
}

/// Bytes per row, and per key of the alternatives.
pub struct RowBytes {
    /// Bytes per row for each of [`KINDS`].
    pub rows: [f64; KINDS.len()],
    /// Bytes per row of many tables with their keys, for each of [`orders`].
    pub tables: [f64; 2],
    /// Bytes per CountInt with its key.
    pub countint: f64,
    /// Bytes per Hash with its key.
    pub hash: f64,
}

/// Loads each kind into a separate server.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<RowBytes> {
    let mut rows = [0.0; KINDS.len()];
    for (kind, bytes) in KINDS.into_iter().zip(&mut rows) {
        let data = |rows| DataSet::Rows(kind, rows);
        *bytes = bytes_each(programs, data(WARM_UP), data(scale.rows), scale.rows)?;
    }
    let mut tables = [0.0; 2];
    for (data, bytes) in orders(scale.rows).into_iter().zip(&mut tables) {
        let warm_up = Tables {
            rows: WARM_UP,
            ..data
        };
        let [warm_up, data] = [warm_up, data].map(DataSet::Tables);
        *bytes = bytes_each(programs, warm_up, data, scale.rows)?;
    }
    let object = |kind| {
        let data = |objects| DataSet::Objects(kind, objects);
        bytes_each(programs, data(WARM_UP), data(scale.objects), scale.objects)
    };
    Ok(RowBytes {
        rows,
        tables,
        countint: object(ObjectKind::CountInt)?,
        hash: object(ObjectKind::Hash)?,
    })
}
