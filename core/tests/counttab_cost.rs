//! The allocations of operations on wide tables depend on the used counters of a row, not on its width.

mod counting_allocator;

use counting_allocator::*;
use countint_core::countint::{MAX_LEN, Overflow};
use countint_core::counttab::{CountTab, RowIncrement, read_pairs};

/// Columns spread irregularly over the whole row.
fn column(i: u64) -> usize {
    (i * 48_271 % MAX_LEN as u64) as usize
}

/// A counter of 1 makes its group of 1,024 columns one bit wide, so a row with two of them takes 256 bytes and the widths.
const ROW: usize = 512;

#[test]
fn change_of_a_wide_row_allocates_for_its_used_counters() {
    let mut table = CountTab::new(MAX_LEN).expect("a valid length");
    let add = |table: &mut CountTab, id: u64, idx: usize, delta: i64| {
        let (done, _, peak) = measure(|| table.incr(id, idx, delta, Overflow::Saturate));
        assert!(done.is_ok());
        // The old and the new page, the plan for copying, and sometimes a list of pages.
        assert!(peak < 5 * ROW + 128 * 32, "{peak} bytes for row {id}");
    };
    for id in 0..2_000 {
        add(&mut table, id, column(id), 1);
    }
    for id in 0..2_000 {
        add(&mut table, id, column(id + 5), 1);
        add(&mut table, id, column(id), -1);
    }
    let (removed, _, peak) = measure(|| (0..2_000).all(|id| table.remove(id)));
    assert!(removed && peak < 5 * ROW, "{peak}");
}

/// The rows of a batch, and the memory for sorting it.
#[test]
fn batch_of_wide_rows_allocates_for_their_used_counters() {
    let ops: Vec<RowIncrement> = (0..5_000)
        .map(|id| RowIncrement {
            id,
            idx: column(id),
            delta: 1,
        })
        .collect();
    let mut table = CountTab::new(MAX_LEN).expect("a valid length");
    let mut out = Vec::new();
    let (done, live, peak) = measure(|| table.incr_all(&ops, Overflow::Fail, &mut out));
    assert!(done.is_ok_and(|done| done.changed));
    let rows = ops.len();
    assert!(
        live < rows * ROW && peak < rows * (ROW + 64),
        "{live}, at most {peak}"
    );
}

#[test]
fn reading_packed_rows_allocates_only_the_output() {
    let mut table = CountTab::new(MAX_LEN).expect("a valid length");
    (0..20).for_each(|id| {
        let done = table.set(id, &[(column(id), 7)]);
        assert_eq!(done, Ok(true));
    });
    let ids: Vec<u64> = (0..40).collect();
    let total = ids.len() * MAX_LEN * 5;
    let (page, live, peak) = measure(|| {
        let mut page = Vec::new();
        page.try_reserve_exact(total).expect("memory");
        table.read_packed(&ids, MAX_LEN, &mut page);
        page
    });
    assert_eq!(
        (page.len(), live, peak),
        (total, size_class(total), size_class(total))
    );
    for (&id, row) in ids.iter().zip(page.chunks(MAX_LEN * 5)) {
        let at = column(id) * 5 + 4;
        let only = row
            .iter()
            .enumerate()
            .all(|(i, &byte)| (byte > 0) == (id < 20 && i == at));
        assert!(only, "row {id}");
    }
}

#[test]
fn reading_rows_of_several_tables_allocates_only_the_output() {
    let table = |rows: u64| {
        let mut table = CountTab::new(3).expect("a valid length");
        (0..rows).for_each(|id| assert_eq!(table.set(id, &[(1, 7 + id)]), Ok(true)));
        table
    };
    let tables = [0, 1, 40, 3_000].map(table);
    let ids: Vec<u64> = (0..500).map(|i| i * 7 % 3_100).collect();
    // Every fifth table is missing.
    let table = |i: usize| tables.get(i % 5);
    let pairs = || ids.iter().enumerate().map(|(i, &id)| (table(i), id));
    let total = ids.len() * 2 * 5;
    let (page, live, peak) = measure(|| {
        let mut page = Vec::new();
        page.try_reserve_exact(total).expect("memory");
        read_pairs(pairs(), 2, &mut page);
        page
    });
    assert_eq!(
        (page.len(), live, peak),
        (total, size_class(total), size_class(total))
    );
    for ((table, id), row) in pairs().zip(page.chunks(10)) {
        let value = table.and_then(|table| table.get(id, 1).expect("a column"));
        let value = value.unwrap_or(0).to_be_bytes();
        assert_eq!(row, [&[0; 5], &value[3..]].concat(), "row {id}");
    }
}
