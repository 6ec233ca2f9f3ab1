//! Counts the steps of operations, for tests of their cost. Other builds count nothing.
//!
//! A step is a number read or written, a word of bits copied or searched, or a group of columns visited.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts one step.
#[inline(always)]
pub fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// The number of steps that `work` takes.
#[cfg(test)]
pub fn steps(work: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}

#[cfg(test)]
mod tests {
    use super::steps;
    use crate::countint::{MAX_LEN, Overflow};
    use crate::counttab::{BlobLoader, CountTab, RowIncrement};

    const ROWS: u64 = 300;

    /// The maximum number of steps of an operation on a row that uses two or three columns of 65,535: a fiftieth of its
    /// width. A row has 64 groups of 1,024 columns, and each group has the width of its largest value.
    const PER_ROW: u64 = MAX_LEN as u64 / 50;

    /// Columns spread irregularly over the whole row.
    fn column(i: u64) -> usize {
        (i * 48_271 % MAX_LEN as u64) as usize
    }

    fn add(table: &mut CountTab, id: u64, idx: usize, delta: i64) {
        let step = table.incr(id, idx, delta, Overflow::Saturate);
        step.expect("a valid index");
    }

    /// A table of the widest rows, with two columns used in each.
    fn table() -> CountTab {
        let mut table = CountTab::new(MAX_LEN).expect("a valid length");
        for id in 0..ROWS {
            add(&mut table, id, column(id), 1);
            add(&mut table, id, column(id + 777), 1);
        }
        table
    }

    #[track_caller]
    fn cheap(what: &str, rows: u64, work: impl FnOnce()) {
        let each = steps(work) / rows;
        println!("{what}: {each} steps a row");
        assert!(each < PER_ROW, "{what}: {each} steps a row");
    }

    #[test]
    fn cost_of_a_new_row_does_not_depend_on_its_width() {
        let mut wide = CountTab::new(MAX_LEN).expect("a valid length");
        cheap("rows in sequence", ROWS, || {
            (0..ROWS).for_each(|id| add(&mut wide, id, column(id), 1));
        });
        cheap("rows before them", ROWS, || {
            let ids = (0..ROWS).map(|i| u64::MAX - i);
            ids.for_each(|id| add(&mut wide, id, column(id % 1000), 1));
        });
        let ops: Vec<RowIncrement> = (0..ROWS)
            .map(|i| RowIncrement {
                id: (1 << 40) + i * 7919 % 1009,
                idx: column(i),
                delta: 1,
            })
            .collect();
        cheap("a batch of rows", ROWS, || {
            let done = wide.incr_all(&ops, Overflow::Fail, &mut Vec::new());
            assert!(done.is_ok());
        });
        cheap("a row with columns set", ROWS, || {
            for id in 0..ROWS {
                let done = wide.set(
                    (1 << 50) + id * 3,
                    &[(column(id), 5), (7, 1), (MAX_LEN - 1, 0)],
                );
                assert_eq!(done, Ok(true));
            }
        });
        wide.validate().expect("a valid table");
    }

    /// The page is split, whatever the width of the new row.
    #[test]
    fn cost_of_a_wide_row_between_narrow_rows_does_not_depend_on_its_width() {
        let mut table = CountTab::new(MAX_LEN).expect("a valid length");
        (0..ROWS).for_each(|id| add(&mut table, id * 2, 0, 1));
        let pages = table.pages();
        cheap("a row between others", 1, || {
            add(&mut table, 101, MAX_LEN - 1, 1)
        });
        cheap("a counter among narrow rows", 1, || {
            add(&mut table, 300, MAX_LEN - 1, 1)
        });
        // At most two pages were split, into two or three.
        assert!(table.pages() <= pages + 4, "{} pages", table.pages());
        table.validate().expect("a valid table");
    }

    #[test]
    fn cost_of_an_increment_does_not_depend_on_the_width_of_the_row() {
        let mut table = table();
        cheap("another column", ROWS, || {
            (0..ROWS).for_each(|id| add(&mut table, id, column(id + 5), 1));
        });
        cheap("a wider value", ROWS, || {
            (0..ROWS).for_each(|id| add(&mut table, id, column(id), 1000));
        });
        cheap("back to 0", ROWS, || {
            for id in 0..ROWS {
                add(&mut table, id, column(id), -1001);
                add(&mut table, id, column(id + 5), -1);
            }
        });
        table.validate().expect("a valid table");
    }

    #[test]
    fn cost_of_reading_does_not_depend_on_the_width_of_the_rows() {
        let table = table();
        let ids: Vec<u64> = (0..ROWS).chain(1 << 30..(1 << 30) + ROWS).collect();
        cheap("packed rows", ROWS, || {
            let mut out = Vec::new();
            table.read_packed(&ids, MAX_LEN, &mut out);
            assert_eq!(out.iter().filter(|&&byte| byte > 0).count(), 2 * 300);
        });
        cheap("all rows", ROWS, || {
            let mut values = 0;
            table.for_each_row(|_, fields| values += fields.len());
            assert_eq!(values, 600);
        });
        cheap("comparing tables", 2 * ROWS, || {
            assert!(table.clone() == table);
        });
    }

    #[test]
    fn cost_of_removing_moving_and_loading_does_not_depend_on_the_width_of_the_rows() {
        let mut table = table();
        cheap("a smaller length", ROWS, || {
            assert!(table.resize(MAX_LEN - 1).is_ok());
        });
        let mut last = CountTab::new(MAX_LEN).expect("a valid length");
        (0..ROWS).for_each(|id| add(&mut last, id, MAX_LEN - 2, 1));
        cheap("a length without a group's last column", ROWS, || {
            assert_eq!(last.resize(MAX_LEN - 1), Ok(true));
        });
        cheap("saving and loading", ROWS, || {
            let head = BlobLoader::new(MAX_LEN as u64 - 1, ROWS, &[]);
            let mut loader = head.expect("a valid header");
            table.save_blobs(&mut |blob| loader.push(blob).expect("a valid blob"));
            assert!(loader.finish().is_ok());
        });
        let bytes = table
            .export(1, ROWS / 2, usize::MAX)
            .expect("no size limit");
        cheap("removing", ROWS / 2, || {
            assert!((1..=ROWS / 2).all(|id| table.remove(id)));
        });
        cheap("importing", ROWS / 2, || {
            let part = CountTab::from_export(&bytes).expect("a valid export");
            assert_eq!(table.absorb(part), Ok(true));
        });
        // Rows of a hundred columns share pages, so they are moved one by one and pages are merged.
        let mut pairs = CountTab::new(MAX_LEN).expect("a valid length");
        let mut singles = pairs.clone();
        for id in 0..ROWS {
            let half = if id % 2 == 0 {
                &mut pairs
            } else {
                &mut singles
            };
            add(half, id, id as usize % 100, 1);
        }
        cheap("importing rows between others", ROWS, || {
            assert_eq!(pairs.absorb(singles), Ok(true));
        });
        cheap("removing rows of shared pages", ROWS, || {
            assert!((0..ROWS).all(|id| pairs.remove(id * 7 % ROWS)));
        });
        assert!(pairs.is_empty());
        table.validate().expect("a valid table");
    }
}
