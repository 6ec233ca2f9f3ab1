//! What pages a table has: full ones for ids in sequence, few after removals, narrow ones after large values went.

use countint_core::countint::{FIELD_MAX, MAX_LEN, Overflow};
use countint_core::counttab::{BlobLoader, CountTab, Op};

const ALL: (u64, u64) = (0, u64::MAX);

/// The bytes of an export, without its frame: those of all pages, with 8 for the first id of each.
fn page_bytes(table: &CountTab) -> usize {
    let empty = CountTab::new(table.len()).expect("a length");
    let bytes = |table: &CountTab| {
        let export = table.export(ALL.0, ALL.1, usize::MAX);
        export.expect("no limit").len()
    };
    bytes(table) - bytes(&empty)
}

fn sound(table: &CountTab) {
    table.validate().expect("a sound table");
}

fn add(table: &mut CountTab, id: u64, idx: usize, delta: i64) {
    table
        .incr(id, idx, delta, Overflow::Saturate)
        .expect("an index of the table");
}

/// Numbers below `n`, each once, in an order without a pattern.
fn shuffled(n: u64) -> impl Iterator<Item = u64> {
    (0..n).map(move |i| i * 7919 % n)
}

#[test]
fn ids_in_sequence_fill_their_pages_and_take_no_bits() {
    const ROWS: u64 = 20_000;
    let orders: [Box<dyn Iterator<Item = u64>>; 2] = [Box::new(0..ROWS), Box::new((0..ROWS).rev())];
    for (ids, least) in orders.into_iter().zip([64, 50]) {
        let mut table = CountTab::new(1).expect("a length");
        ids.for_each(|id| add(&mut table, id, 0, 1));
        sound(&table);
        assert!(
            table.pages() as u64 <= ROWS / least,
            "{} pages",
            table.pages()
        );
        // A bit for a counter, and a head of 13 bytes for each page.
        let bytes = ROWS as usize / 8 + table.pages() * 14;
        assert!(page_bytes(&table) <= bytes, "{}", page_bytes(&table));
    }
}

#[test]
fn pages_of_ids_in_any_order_are_half_full_at_least() {
    let mut table = CountTab::new(1).expect("a length");
    shuffled(50_000).for_each(|id| add(&mut table, id, 0, 1));
    sound(&table);
    assert!(table.pages() < 50_000 / 32, "{} pages", table.pages());
    // All gaps are closed: no id takes a bit.
    assert!(page_bytes(&table) < 50_000 / 8 + table.pages() * 15);
}

#[test]
fn a_large_value_widens_a_column_of_a_page_until_it_goes() {
    let mut table = CountTab::new(5).expect("a length");
    (0..6400).for_each(|id| add(&mut table, id, 0, 3));
    let narrow = page_bytes(&table);
    add(&mut table, 3000, 0, FIELD_MAX as i64);
    let wide = page_bytes(&table);
    assert!(
        (200..460).contains(&(wide - narrow)),
        "{} bytes more",
        wide - narrow
    );
    // A step back that leaves less than 4 bits unused changes nothing; the rest does.
    table.set(3000, &[(0, FIELD_MAX >> 3)]).expect("an index");
    assert_eq!(page_bytes(&table), wide);
    table.set(3000, &[(0, 1)]).expect("an index");
    assert_eq!(page_bytes(&table), narrow);
    add(&mut table, 3000, 4, 1 << 30);
    assert!(page_bytes(&table) > narrow);
    assert!(table.remove(3000));
    assert!(
        page_bytes(&table) < narrow + 110,
        "ids with a gap take a byte each"
    );
    sound(&table);
}

#[test]
fn removals_leave_few_pages_behind() {
    const ROWS: u64 = 40_000;
    let mut table = CountTab::new(2).expect("a length");
    for every in [2, 10, 100] {
        (0..ROWS).for_each(|id| add(&mut table, id, 1, id as i64));
        let full = table.pages();
        for id in shuffled(ROWS).filter(|id| id % every != 0) {
            assert!(table.remove(id));
        }
        sound(&table);
        assert_eq!(table.rows(), ROWS / every);
        // A page is merged once it has less than a quarter of the rows that fill it.
        let most = (ROWS / every).div_ceil(16) as usize + 1;
        assert!(
            table.pages() <= most.min(full),
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
    sound(&table);
}

#[test]
fn more_columns_cost_nothing_until_they_are_used() {
    let mut table = CountTab::new(5).expect("a length");
    (0..1000).for_each(|id| add(&mut table, id, 4, 9));
    let before = page_bytes(&table);
    assert_eq!(table.resize(MAX_LEN), Ok(true));
    assert_eq!(page_bytes(&table), before);
    // A row of many columns leaves the others where they are.
    add(&mut table, 500, MAX_LEN - 1, 1);
    sound(&table);
    assert_eq!(table.get(500, MAX_LEN - 1), Ok(Some(1)));
    assert_eq!(table.get(501, MAX_LEN - 1), Ok(Some(0)));
    assert!((0..1000).all(|id| table.get(id, 4) == Ok(Some(9))));
    assert!(table.resize(MAX_LEN - 1).is_err());
    add(&mut table, 500, MAX_LEN - 1, -1);
    assert_eq!(table.resize(5), Ok(true));
    add(&mut table, 500, 0, 1);
    assert!((0..1000).all(|id| table.get(id, 4) == Ok(Some(9))));
    sound(&table);
}

#[test]
fn a_length_that_a_failed_change_would_have_grown_stays() {
    let mut table = CountTab::new(2).expect("a length");
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
fn a_batch_over_thousands_of_rows_is_one_step() {
    let mut table = CountTab::new(3).expect("a length");
    let ops = |delta| {
        let ops = shuffled(9000).map(move |id| Op {
            id,
            idx: id as usize % 3,
            delta,
        });
        ops.collect::<Vec<_>>()
    };
    let mut out = Vec::new();
    let done = table
        .incr_all(&ops(5), Overflow::Fail, &mut out)
        .expect("room");
    assert!(done.changed && out.len() == 9000 && out.iter().all(|&value| value == 5));
    let copy = table.clone();
    let mut refused = ops(-5);
    refused.push(Op {
        id: 10_000,
        idx: 0,
        delta: -1,
    });
    assert!(table.incr_all(&refused, Overflow::Fail, &mut out).is_err());
    assert!(table == copy && out.is_empty());
    sound(&table);
}

/// Blobs and chunks are cut where they are full.
#[test]
fn what_is_saved_comes_in_pieces_of_a_megabyte() {
    let mut table = CountTab::new(5).expect("a length");
    for id in shuffled(70_000) {
        let wide = FIELD_MAX - id;
        table
            .set(
                id << 20,
                &[(0, wide), (1, wide), (2, wide), (3, wide), (4, wide)],
            )
            .expect("indexes");
    }
    for slot in 0..=65_534 {
        table.set_fence(slot, FIELD_MAX);
    }
    let mut loader = BlobLoader::new(5, table.rows(), &table.save_fences()).expect("a head");
    let mut blobs = 0;
    table.save_blobs(&mut |blob| {
        assert!((1..=1 << 20).contains(&blob.len()));
        loader.push(blob).expect("a blob");
        blobs += 1;
    });
    assert!(blobs >= 2);
    assert!(loader.finish().expect("all rows") == table);

    let mut joined: Option<CountTab> = None;
    table.export_chunks(1 << 20, &mut |chunk| {
        assert!(chunk.len() <= 1 << 20);
        let part = CountTab::from_export(chunk).expect("an export");
        match &mut joined {
            None => joined = Some(part),
            Some(table) => assert_eq!(table.absorb(part), Ok(true)),
        }
    });
    let joined = joined.expect("a chunk at least");
    sound(&joined);
    assert!(joined == table);
}
