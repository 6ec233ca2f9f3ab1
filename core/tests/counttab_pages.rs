//! The pages of a table: full for consecutive ids, few after removals, narrow after large values are removed.

use countint_core::countint::{CountError, FIELD_MAX, MAX_LEN, Overflow};
use countint_core::counttab::{BlobLoader, CountTab, ImportError, RowIncrement};

const ALL: (u64, u64) = (0, u64::MAX);

/// The bytes of all pages in an export, with 8 bytes for the first id of each.
fn page_bytes(table: &CountTab) -> usize {
    let empty = CountTab::new(table.len()).expect("a valid length");
    let bytes = |table: &CountTab| {
        let export = table.export(ALL.0, ALL.1, usize::MAX);
        export.expect("no size limit").len()
    };
    bytes(table) - bytes(&empty)
}

fn assert_valid(table: &CountTab) {
    table.validate().expect("a valid table");
}

fn add(table: &mut CountTab, id: u64, idx: usize, delta: i64) {
    table
        .incr(id, idx, delta, Overflow::Saturate)
        .expect("a valid index");
}

/// The numbers below `n` in pseudorandom order.
fn shuffled(n: u64) -> impl Iterator<Item = u64> {
    (0..n).map(move |i| i * 7919 % n)
}

#[test]
fn consecutive_ids_fill_pages_and_take_no_bits() {
    const ROWS: u64 = 20_000;
    let orders: [Box<dyn Iterator<Item = u64>>; 2] = [Box::new(0..ROWS), Box::new((0..ROWS).rev())];
    for (ids, min_rows) in orders.into_iter().zip([64, 50]) {
        let mut table = CountTab::new(1).expect("a valid length");
        ids.for_each(|id| add(&mut table, id, 0, 1));
        assert_valid(&table);
        assert!(
            table.pages() as u64 <= ROWS / min_rows,
            "{} pages",
            table.pages()
        );
        // One bit for each counter, and a header of 13 bytes for each page.
        let bytes = ROWS as usize / 8 + table.pages() * 14;
        assert!(page_bytes(&table) <= bytes, "{}", page_bytes(&table));
    }
}

#[test]
fn pages_are_at_least_half_full_for_ids_in_any_order() {
    let mut table = CountTab::new(1).expect("a valid length");
    shuffled(50_000).for_each(|id| add(&mut table, id, 0, 1));
    assert_valid(&table);
    assert!(table.pages() < 50_000 / 32, "{} pages", table.pages());
    // All ids are consecutive now, so they take no bits.
    assert!(page_bytes(&table) < 50_000 / 8 + table.pages() * 15);
}

#[test]
fn column_is_wide_only_while_it_has_a_large_value() {
    let mut table = CountTab::new(5).expect("a valid length");
    (0..6400).for_each(|id| add(&mut table, id, 0, 3));
    let narrow = page_bytes(&table);
    add(&mut table, 3000, 0, FIELD_MAX as i64);
    let wide = page_bytes(&table);
    assert!(
        (200..460).contains(&(wide - narrow)),
        "{} bytes more",
        wide - narrow
    );
    // A decrement that leaves less than 4 bits unused keeps the width.
    table
        .set(3000, &[(0, FIELD_MAX >> 3)])
        .expect("a valid index");
    assert_eq!(page_bytes(&table), wide);
    table.set(3000, &[(0, 1)]).expect("a valid index");
    assert_eq!(page_bytes(&table), narrow);
    add(&mut table, 3000, 4, 1 << 30);
    assert!(page_bytes(&table) > narrow);
    assert!(table.remove(3000));
    assert!(
        page_bytes(&table) < narrow + 110,
        "ids with a gap take a byte each"
    );
    assert_valid(&table);
}

#[test]
fn removals_merge_pages() {
    const ROWS: u64 = 40_000;
    let mut table = CountTab::new(2).expect("a valid length");
    for every in [2, 10, 100] {
        (0..ROWS).for_each(|id| add(&mut table, id, 1, id as i64));
        let full = table.pages();
        for id in shuffled(ROWS).filter(|id| id % every != 0) {
            assert!(table.remove(id));
        }
        assert_valid(&table);
        assert_eq!(table.rows(), ROWS / every);
        // Pages below a quarter of a full page are merged.
        let max_pages = (ROWS / every).div_ceil(16) as usize + 1;
        assert!(
            table.pages() <= max_pages.min(full),
            "{} pages of {full}",
            table.pages()
        );
        let mut ids = Vec::new();
        table.scan(0, usize::MAX >> 1, &mut ids);
        assert!(
            ids.iter()
                .copied()
                .eq((0..ROWS).filter(|id| id % every == 0))
        );
    }
    for id in (0..ROWS).filter(|id| id % 100 == 0) {
        assert!(table.remove(id));
    }
    assert_eq!((table.pages(), table.rows()), (0, 0));
    add(&mut table, 7, 1, 1);
    assert_valid(&table);
}

#[test]
fn new_columns_cost_nothing_until_they_are_used() {
    let mut table = CountTab::new(5).expect("a valid length");
    (0..1000).for_each(|id| add(&mut table, id, 4, 9));
    let before = page_bytes(&table);
    assert_eq!(table.resize(MAX_LEN), Ok(true));
    assert_eq!(page_bytes(&table), before);
    // A row with many columns does not widen other pages.
    add(&mut table, 500, MAX_LEN - 1, 1);
    assert_valid(&table);
    assert_eq!(table.get(500, MAX_LEN - 1), Ok(Some(1)));
    assert_eq!(table.get(501, MAX_LEN - 1), Ok(Some(0)));
    assert!((0..1000).all(|id| table.get(id, 4) == Ok(Some(9))));
    assert!(table.resize(MAX_LEN - 1).is_err());
    add(&mut table, 500, MAX_LEN - 1, -1);
    assert_eq!(table.resize(5), Ok(true));
    add(&mut table, 500, 0, 1);
    assert!((0..1000).all(|id| table.get(id, 4) == Ok(Some(9))));
    assert_valid(&table);
}

#[test]
fn length_is_restored_when_the_change_fails() {
    let mut table = CountTab::new(2).expect("a valid length");
    let failed = table.at_least(9, |table| {
        assert_eq!(table.len(), 9);
        table.incr(1, 9, 1, Overflow::Saturate)
    });
    assert!(failed.is_err());
    assert_eq!((table.len(), table.rows()), (2, 0));
    let done = table.at_least(9, |table| table.incr(1, 8, 1, Overflow::Saturate));
    assert!(done.is_ok());
    assert_eq!((table.len(), table.rows()), (9, 1));
}

#[test]
fn batch_over_thousands_of_rows_is_atomic() {
    let mut table = CountTab::new(3).expect("a valid length");
    let ops = |delta| {
        let ops = shuffled(9000).map(move |id| RowIncrement {
            id,
            idx: id as usize % 3,
            delta,
        });
        ops.collect::<Vec<_>>()
    };
    let mut out = Vec::new();
    let done = table
        .incr_all(&ops(5), Overflow::Fail, &mut out)
        .expect("enough memory");
    assert!(done.changed && out.len() == 9000 && out.iter().all(|&value| value == 5));
    let copy = table.clone();
    let mut refused = ops(-5);
    refused.push(RowIncrement {
        id: 10_000,
        idx: 0,
        delta: -1,
    });
    assert!(table.incr_all(&refused, Overflow::Fail, &mut out).is_err());
    assert!(table == copy && out.is_empty());
    assert_valid(&table);
}

#[test]
fn blobs_and_exported_chunks_are_at_most_a_megabyte() {
    let mut table = CountTab::new(5).expect("a valid length");
    for id in shuffled(70_000) {
        let wide = FIELD_MAX - id;
        table
            .set(
                id << 20,
                &[(0, wide), (1, wide), (2, wide), (3, wide), (4, wide)],
            )
            .expect("valid indexes");
    }
    for source in 0..=65_534 {
        table.set_fence(source, FIELD_MAX);
    }
    let mut loader =
        BlobLoader::new(5, table.rows(), &table.save_fences()).expect("a valid header");
    let mut blobs = 0;
    table.save_blobs(&mut |blob| {
        assert!((1..=1 << 20).contains(&blob.len()));
        loader.push(blob).expect("a valid blob");
        blobs += 1;
    });
    assert!(blobs >= 2);
    assert!(loader.finish().expect("the claimed number of rows") == table);

    let mut joined: Option<CountTab> = None;
    table.export_chunks(1 << 20, &mut |chunk| {
        assert!(chunk.len() <= 1 << 20);
        let part = CountTab::from_export(chunk).expect("a valid export");
        match &mut joined {
            None => joined = Some(part),
            Some(table) => assert_eq!(table.absorb(part), Ok(true)),
        }
    });
    let joined = joined.expect("a chunk at least");
    assert_valid(&joined);
    assert!(joined == table);
}

#[test]
fn unused_columns_cost_nothing() {
    let fill = |table: &mut CountTab| {
        (0..6400).for_each(|id| (0..5).for_each(|idx| add(table, id, idx, 3)));
        assert_valid(table);
    };
    let mut five = CountTab::new(5).expect("a valid length");
    fill(&mut five);
    for len in [64, 200, 1000, MAX_LEN] {
        let mut born = CountTab::new(len).expect("a valid length");
        fill(&mut born);
        let mut grown = CountTab::new(5).expect("a valid length");
        grown.resize(len).expect("a valid length");
        fill(&mut grown);
        for table in [born, grown] {
            assert!(table.pages() < five.pages() * 11 / 10, "{len}");
            // Three spare columns for each page, and the headers of a few more pages.
            let spare = 5 * table.pages();
            assert!(page_bytes(&table) <= page_bytes(&five) + spare, "{len}");
        }
    }
}

#[test]
fn table_that_was_wide_is_as_small_as_one_that_never_was() {
    let mut table = CountTab::new(1000).expect("a valid length");
    for id in 0..2000 {
        add(&mut table, id, 999, 1);
        add(&mut table, id, 2, 7);
    }
    assert_eq!(table.pages(), 2000);
    assert!(table.resize(5).is_err());
    (0..2000).for_each(|id| add(&mut table, id, 999, -1));
    table.resize(5).expect("the dropped counters are 0");
    assert_valid(&table);
    assert_eq!(table.rows(), 2000);
    assert!(table.pages() < 2000 / 32, "{} pages", table.pages());
    assert!((0..2000).all(|id| table.get(id, 2) == Ok(Some(7))));
}

/// Rows before other rows, after a gap that follows a full page.
#[test]
fn descending_ids_after_a_full_page_share_pages() {
    for before in 60..100 {
        let mut table = CountTab::new(5).expect("a valid length");
        (0..before).for_each(|id| add(&mut table, id, 0, 1));
        (0..2000).for_each(|id| add(&mut table, 5_000_000 - id, 0, 1));
        assert_valid(&table);
        assert!(table.pages() < 80, "{before}: {} pages", table.pages());
    }
}

/// In one operation, and counter by counter.
#[test]
fn long_row_becomes_narrow_when_its_counters_become_small() {
    const LEN: usize = 5000;
    let all = |value: u64| (0..LEN).map(|idx| (idx, value)).collect::<Vec<_>>();
    let mut table = CountTab::new(LEN).expect("a valid length");
    table.set(1, &all(1 << 39)).expect("valid values");
    let wide = page_bytes(&table);
    table.set(1, &all(1)).expect("valid values");
    assert_valid(&table);
    assert!(page_bytes(&table) * 20 < wide, "{}", page_bytes(&table));
    table.set(1, &all(1 << 39)).expect("valid values");
    (0..LEN).for_each(|idx| add(&mut table, 1, idx, 1 - (1 << 39)));
    assert_valid(&table);
    assert!(page_bytes(&table) * 20 < wide, "{}", page_bytes(&table));
    assert!((0..LEN).all(|idx| table.get(1, idx) == Ok(Some(1))));
}

/// A page can have more rows than a full page if its allocation has room, and can gain columns after that.
#[test]
fn overfull_page_that_gains_columns_can_be_loaded() {
    for (len, more) in [(25, 32), (25, MAX_LEN), (60, 100), (33, 40), (50, 64)] {
        let mut table = CountTab::new(len).expect("a valid length");
        for wide in 0..len {
            let mut table = table.clone();
            for id in 0..200 {
                let fields = (0..len).map(|idx| (idx, if idx < wide { 3 } else { 1 }));
                let fields: Vec<_> = fields.collect();
                assert_eq!(table.set(id, &fields), Ok(true));
            }
            assert_eq!(table.resize(more), Ok(true));
            for id in (40..200).step_by(40) {
                assert!(table.remove(id));
            }
            assert_valid(&table);
            let mut loader =
                BlobLoader::new(more as u64, table.rows(), &[]).expect("a valid header");
            table.save_blobs(&mut |blob| loader.push(blob).expect("a valid blob"));
            assert!(loader.finish().expect("the claimed number of rows") == table);
            let export = table
                .export(ALL.0, ALL.1, usize::MAX)
                .expect("no size limit");
            assert!(CountTab::from_export(&export).expect("a valid export") == table);
        }
        assert_eq!(table.resize(more), Ok(true));
    }
}

/// The other rows of the page stay together.
#[test]
fn row_that_becomes_wide_is_split_from_its_page() {
    let mut table = CountTab::new(MAX_LEN).expect("a valid length");
    (0..640).for_each(|id| add(&mut table, id, 4, 9));
    let (pages, bytes) = (table.pages(), page_bytes(&table));
    add(&mut table, 333, MAX_LEN - 1, 1);
    assert_valid(&table);
    assert_eq!(table.pages(), pages + 2);
    // Groups of 1,024 columns of 4 bits and of 1 bit, and the headers of three pages instead of one.
    assert!(page_bytes(&table) < bytes + 800, "{}", page_bytes(&table));
    assert!((0..640).all(|id| table.get(id, 4) == Ok(Some(9))));
    assert_eq!(table.get(333, MAX_LEN - 1), Ok(Some(1)));
}

/// CRC-32 (IEEE 802.3), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

/// Also with a valid checksum.
#[test]
fn truncated_exports_fences_and_blobs_are_errors() {
    let mut table = CountTab::new(5).expect("a valid length");
    for id in 0..200 {
        add(&mut table, id * id, (id % 5) as usize, 1 << (id % 40));
    }
    for source in [0, 7, 65_534] {
        table.set_fence(source, FIELD_MAX - u64::from(source));
    }
    let export = table
        .export(0, u64::MAX, usize::MAX)
        .expect("no size limit");
    let body = &export[..export.len() - 4];
    // A truncation at the end of the fences or of a page is a shorter table.
    let mut shorter = 0;
    for n in 0..body.len() {
        assert!(CountTab::from_export(&export[..n]).is_err(), "{n}");
        let sealed = [&body[..n], &crc32(&body[..n]).to_le_bytes()].concat();
        match CountTab::from_export(&sealed) {
            Ok(part) => {
                assert_valid(&part);
                assert!(part.rows() < table.rows());
                shorter += 1;
            }
            Err(error) => assert_eq!(error, ImportError::Payload, "{n}"),
        }
    }
    assert_eq!(shorter, table.pages());
    let fences = table.save_fences();
    for n in (0..fences.len()).filter(|n| n % 7 != 0) {
        let error = BlobLoader::new(5, 0, &fences[..n]).err();
        assert_eq!(error, Some(CountError::Payload), "{n}");
    }
    let mut blob = Vec::new();
    table.save_blobs(&mut |bytes| blob.extend_from_slice(bytes));
    for n in 0..blob.len() {
        let mut loader = BlobLoader::new(5, table.rows(), &fences).expect("valid fences");
        assert!(
            loader.push(&blob[..n]).is_err() || loader.finish().is_err(),
            "{n}"
        );
    }
}
