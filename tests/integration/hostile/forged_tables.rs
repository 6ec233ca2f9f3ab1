//! Tables with valid framing that are invalid in one way each, and unusual valid ones.
//!
//! A page is its first id, then: rows, id width, columns (2 bytes), a width for each column, rows of bits.

use super::forged::{Expect, Forged};
use countint_tests::payload::Body;

/// A page with its first id.
fn page(first: u64, head: [u8; 4], rest: &[u8]) -> Vec<u8> {
    [&first.to_le_bytes()[..], &head, rest].concat()
}

/// Rows `first` and the one after it: (1), (2).
fn pair(first: u64) -> Vec<u8> {
    page(first, [2, 0, 1, 0], &[2, 0b1001])
}

/// The rows 10, 12, 15 with 3 bits of id and a counter of 2 bits: (1), (2), (3).
fn triple() -> Vec<u8> {
    bits(
        10,
        [3, 3, 1, 0],
        &[2],
        &[(0, 3), (1, 2), (2, 3), (2, 2), (5, 3), (3, 2)],
    )
}

/// A page of (number, bits) pairs.
fn bits(first: u64, head: [u8; 4], widths: &[u8], numbers: &[(u64, u32)]) -> Vec<u8> {
    let ones = numbers
        .iter()
        .flat_map(|&(n, width)| (0..width).map(move |bit| n >> bit & 1));
    let ones: Vec<u64> = ones.collect();
    let bytes = ones.chunks(8).map(|byte| {
        byte.iter()
            .enumerate()
            .fold(0, |sum, (i, &bit)| sum | (bit as u8) << i)
    });
    let rest: Vec<u8> = widths.iter().copied().chain(bytes).collect();
    page(first, head, &rest)
}

/// A saved table.
fn saved(len: u64, rows: u64, fences: &[u8], blobs: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Body::module("CountTab5", 1)
        .unsigned(len)
        .unsigned(rows)
        .string(fences);
    for blob in blobs {
        body = body.string(blob);
    }
    body.string(&[]).end()
}

/// Appends the CRC-32 with which an export ends.
pub fn sealed(bytes: &[u8]) -> Vec<u8> {
    let crc = !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ ((crc & 1) * 0xedb8_8320)
        })
    });
    [bytes, &crc.to_le_bytes()].concat()
}

fn export(len: u16, fences: &[u8], pages: &[Vec<u8>]) -> Vec<u8> {
    let count = (fences.len() / 7) as u16;
    let head = [
        &b"CTAB\x01"[..],
        &len.to_le_bytes(),
        &count.to_le_bytes(),
        fences,
    ]
    .concat();
    sealed(&[head, pages.concat()].concat())
}

/// Invalid pages of one column: name, stated rows, pages.
fn invalid_pages() -> Vec<(&'static str, u64, Vec<Vec<u8>>)> {
    let id = |width: u32, offsets: &[u64]| {
        let numbers: Vec<(u64, u32)> = offsets.iter().map(|&offset| (offset, width)).collect();
        vec![bits(
            10,
            [offsets.len() as u8, width as u8, 1, 0],
            &[0],
            &numbers,
        )]
    };
    vec![
        ("no row", 0, vec![page(5, [0, 0, 1, 0], &[0])]),
        ("too many rows", 97, vec![page(5, [97, 0, 1, 0], &[0])]),
        (
            "too many rows for 400 columns",
            7,
            vec![page(5, [7, 0, 0x90, 1], &[0; 58])],
        ),
        ("no column", 2, vec![page(5, [2, 0, 0, 0], &[])]),
        (
            "a width of 41",
            2,
            vec![page(
                5,
                [2, 0, 1, 0],
                &[41, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            )],
        ),
        (
            "a width of 255",
            1,
            vec![page(5, [1, 0, 1, 0], &[[255; 33]].concat())],
        ),
        (
            "an id width of 65",
            2,
            vec![page(5, [2, 65, 1, 0], &[0; 18])],
        ),
        (
            "an id width of 255",
            2,
            vec![page(5, [2, 255, 1, 0], &[0; 66])],
        ),
        ("the first id is another", 2, id(3, &[1, 5])),
        ("an id twice", 3, id(3, &[0, 5, 5])),
        ("an id twice at the start", 3, id(3, &[0, 0, 5])),
        ("ids that go back", 3, id(3, &[0, 6, 5])),
        ("ids in sequence, written out", 3, id(2, &[0, 1, 2])),
        ("ids wider than they need be", 2, id(4, &[0, 5])),
        ("an id width of 0 for a row, written out", 1, id(1, &[0])),
        (
            "ids past 2^64-1",
            2,
            vec![page(u64::MAX, [2, 0, 1, 0], &[0])],
        ),
        (
            "offsets past 2^64-1",
            2,
            vec![bits(u64::MAX - 4, [2, 3, 1, 0], &[0], &[(0, 3), (5, 3)])],
        ),
        (
            "bits after the last row",
            2,
            vec![page(5, [2, 0, 1, 0], &[2, 0b1_1001])],
        ),
        ("a byte too many", 2, vec![[pair(5), vec![0]].concat()]),
        ("a byte too few", 2, vec![pair(5)[..13].to_vec()]),
        ("half a first id", 2, vec![pair(5)[..4].to_vec()]),
        ("a first id alone", 2, vec![pair(5)[..8].to_vec()]),
        ("a head cut off", 2, vec![pair(5)[..12].to_vec()]),
        ("a page twice", 4, vec![pair(5), pair(5)]),
        ("pages that overlap", 4, vec![pair(5), pair(6)]),
        ("pages out of order", 4, vec![pair(9), pair(5)]),
        (
            "a page between the ids of another",
            5,
            vec![triple(), pair(13)],
        ),
        ("a page after 2^64-1", 4, vec![pair(u64::MAX - 1), pair(0)]),
        (
            "a second column",
            1,
            vec![page(5, [1, 0, 2, 0], &[0, 1, 1])],
        ),
    ]
}

/// Invalid fences.
fn invalid_fences() -> Vec<(&'static str, Vec<u8>)> {
    let fence =
        |source: u16, next: u64| [&source.to_le_bytes()[..], &next.to_le_bytes()[..5]].concat();
    vec![
        ("source 65535", fence(65_535, 1)),
        ("a fence of 0", fence(3, 0)),
        ("a source twice", [fence(3, 1), fence(3, 2)].concat()),
        ("sources out of order", [fence(3, 1), fence(2, 2)].concat()),
    ]
}

/// Unusual valid pages of one column: name, rows, pages.
fn valid_pages() -> Vec<(&'static str, u64, Vec<Vec<u8>>)> {
    vec![
        ("two rows", 2, vec![pair(5)]),
        ("three rows", 3, vec![triple()]),
        ("no pages", 0, vec![]),
        ("pages side by side", 4, vec![pair(5), pair(7)]),
        ("up to the last id", 4, vec![pair(0), pair(u64::MAX - 1)]),
        (
            "the first and the last id",
            2,
            vec![bits(0, [2, 64, 1, 0], &[0], &[(0, 64), (u64::MAX, 64)])],
        ),
        (
            "wider than it need be",
            1,
            vec![page(5, [1, 0, 1, 0], &[40, 1, 0, 0, 0, 0])],
        ),
        (
            "as many rows as there may be",
            96,
            vec![page(5, [96, 0, 1, 0], &[0])],
        ),
        (
            "columns that the table has not, of zeros",
            1,
            vec![page(5, [1, 0, 3, 0], &[1, 0, 2, 1])],
        ),
        (
            "each row a page",
            300,
            (0..300).map(|id| page(id, [1, 0, 1, 0], &[1, 1])).collect(),
        ),
    ]
}

/// Invalid saved tables.
pub fn invalid_tables() -> Vec<Forged> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for (what, rows, pages) in invalid_pages() {
        all.push((what.into(), saved(1, rows, &[], &pages)));
        all.push((
            format!("{what}, in one blob"),
            saved(1, rows, &[], &[pages.concat()]),
        ));
    }
    for (what, fences) in invalid_fences() {
        all.push((what.into(), saved(1, 2, &fences, &[pair(5)])));
    }
    for bytes in [1, 6, 8] {
        all.push((
            format!("{bytes} bytes of fences"),
            saved(1, 2, &vec![1; bytes], &[pair(5)]),
        ));
    }
    for len in [0, 65_536, 1 << 32, u64::MAX] {
        all.push((format!("a length of {len}"), saved(len, 2, &[], &[pair(5)])));
    }
    for rows in [0, 1, 3, 1 << 32, u64::MAX] {
        all.push((
            format!("2 rows, claimed {rows}"),
            saved(1, rows, &[], &[pair(5)]),
        ));
    }
    let head = || Body::module("CountTab5", 1);
    all.extend([
        ("nothing".into(), head().end()),
        (
            "no rows and no more".into(),
            head().unsigned(1).unsigned(0).end(),
        ),
        (
            "no last blob".into(),
            head()
                .unsigned(1)
                .unsigned(2)
                .string(&[])
                .string(&pair(5))
                .end(),
        ),
        (
            "no fences".into(),
            head()
                .unsigned(1)
                .unsigned(2)
                .string(&pair(5))
                .string(&[])
                .end(),
        ),
        (
            "a signed length".into(),
            head().signed(1).unsigned(0).string(&[]).string(&[]).end(),
        ),
    ]);
    for version in [0, 2, 3, 1023] {
        let body = Body::module("CountTab5", version)
            .unsigned(1)
            .unsigned(2)
            .string(&[]);
        all.push((
            format!("encoding {version}"),
            body.string(&pair(5)).string(&[]).end(),
        ));
    }
    forge(all, Expect::Refusal)
}

/// Invalid exports.
pub fn invalid_exports() -> Vec<Forged> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for (what, _, pages) in invalid_pages()
        .into_iter()
        .filter(|(what, ..)| *what != "a page twice")
    {
        all.push((what.into(), export(1, &[], &pages)));
    }
    for (what, fences) in invalid_fences() {
        all.push((what.into(), export(1, &fences, &[pair(5)])));
    }
    let good = export(1, &[], &[pair(5)]);
    let end = good.len() - 4;
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        all.push((format!("a bit of byte {at}"), damaged));
        all.push((format!("cut at {at}"), good[..at].to_vec()));
    }
    for (at, value) in [
        (0, b'c'),
        (3, b'P'),
        (4, 0),
        (4, 2),
        (5, 0),
        (7, 1),
        (8, 255),
    ] {
        let mut damaged = good[..end].to_vec();
        damaged[at] = value;
        all.push((format!("byte {at} is {value}"), sealed(&damaged)));
    }
    all.push(("fences cut off".into(), sealed(b"CTAB\x01\x01\0\xff\xff")));
    forge(all, Expect::Refusal)
}

/// Unusual valid saved tables.
pub fn valid_tables() -> Vec<Forged> {
    let all = valid_pages()
        .into_iter()
        .map(|(what, rows, pages)| (what.to_owned(), saved(1, rows, &[], &pages)));
    let fences: Vec<u8> = (0..65_535u16)
        .flat_map(|source| [&source.to_le_bytes()[..], &[9, 0, 0, 0, 1]].concat())
        .collect();
    let all_fences = ("every fence".to_owned(), saved(65_535, 0, &fences, &[]));
    forge(all.chain([all_fences]).collect(), Expect::Load)
}

/// Unusual valid exports.
pub fn valid_exports() -> Vec<Forged> {
    let all = valid_pages().into_iter();
    forge(
        all.map(|(what, _, pages)| (what.to_owned(), export(1, &[], &pages)))
            .collect(),
        Expect::Load,
    )
}

fn forge(all: Vec<(String, Vec<u8>)>, expect: Expect) -> Vec<Forged> {
    all.into_iter()
        .map(|(what, bytes)| Forged::new(what, bytes, expect))
        .collect()
}
