//! Writes a small corpus for each target: valid inputs of every kind, as seeds for mutation.

use std::path::Path;
use std::{fs, io};

use countd::log::archive::{Chunk, OffsetRange, Outcome, Record};
use countd::log::{EntryKind, LogEntry};
use countint_core::counttab::CountTab;
use countint_core::idset::{IdSet, SetOp};

/// Sets with few members, arrays, bitmaps, runs, several high halves, far-apart ids.
fn sets() -> Vec<IdSet> {
    let plain: [IdSet; 6] = [
        [0, 5, 65_536, 1 << 32, u64::MAX].into_iter().collect(),
        (0..200).map(|i| i * 7).collect(),
        (0..5_000).map(|i| i * 3).collect(),
        (0..300).chain(70_000..70_300).collect(),
        (0..150).map(|i| i << 22).collect(),
        (0..200).map(|i| (i % 5) << 32 | i).collect(),
    ];
    let smallest: Vec<IdSet> = plain
        .iter()
        .map(|set| IdSet::combine(SetOp::Or, &[set]))
        .collect();
    plain.into_iter().chain(smallest).collect()
}

/// The input of `set_blobs`: no claimed cardinality (the first byte), then blobs with length prefixes.
fn blobs(set: &IdSet) -> Vec<u8> {
    let mut bytes = Vec::new();
    set.save_blobs(&mut |blob| {
        bytes.extend_from_slice(&(blob.len() as u16).to_le_bytes());
        bytes.extend_from_slice(blob);
    });
    [vec![0], bytes].concat()
}

/// The inputs of `table_import`: an id, then the bytes between the version and the checksum of an export.
fn tables() -> Vec<Vec<u8>> {
    let ids: [Vec<u64>; 3] = [
        (0..90).collect(),
        (0..70).map(|i| (i << 22) | (i % 7)).collect(),
        vec![0, 9, u64::MAX],
    ];
    let table = |(i, ids): (usize, Vec<u64>)| {
        let len = [5, 2, 70][i];
        let mut table = CountTab::new(len).expect("a valid length");
        for id in ids {
            let fields = [(id as usize % len, id & 0xffff), (0, 3)];
            table.set(id, &fields).expect("indexes of the table");
        }
        table.set_fence(3, 9);
        let export = table
            .export(0, u64::MAX, usize::MAX)
            .expect("an export without limit");
        [&[0; 8], &export[5..export.len() - 4]].concat()
    };
    ids.into_iter().enumerate().map(table).collect()
}

/// A chunk as it is in a segment: entries of two partitions.
fn chunk() -> Vec<u8> {
    let ranges = [(3, 7), (9, 1)].map(|(partition, from)| OffsetRange {
        partition,
        from,
        next: from + 3,
    });
    let kinds = [EntryKind::Event, EntryKind::Envelope, EntryKind::Derived];
    let records = ranges.iter().flat_map(|range| {
        (range.from..range.next).zip(kinds).map(|(offset, kind)| {
            let payload = br#"{"etype":"note","eid":"7","metric":"read","delta":1}"#.to_vec();
            Record {
                partition: range.partition,
                outcome: Outcome::Counted,
                entry: LogEntry {
                    offset,
                    kind,
                    size: payload.len() + 1,
                    payload,
                    is_whole: true,
                },
            }
        })
    });
    let records = records.collect();
    let ranges = ranges.to_vec();
    let chunk = Chunk { ranges, records };
    chunk.encode(3).expect("a chunk can be compressed")
}

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let write = |target: &str, name: usize, bytes: &[u8]| {
        fs::create_dir_all(corpus.join(target))?;
        fs::write(corpus.join(target).join(format!("seed-{name}")), bytes)
    };
    for (i, set) in sets().iter().enumerate() {
        write("set_portable", i, &set.export())?;
        write("set_blobs", i, &blobs(set))?;
    }
    for (i, export) in tables().iter().enumerate() {
        write("table_import", i, export)?;
    }
    let numbers = [
        "0",
        "-1",
        "-0",
        "007",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
    ];
    for (i, text) in numbers.iter().enumerate() {
        write("decimal", i, text.as_bytes())?;
    }
    // A number from 2^31 on, little-endian, selects the bytes of a segment instead of the content of frames.
    write("archive_chunk", 0, &[vec![0, 0, 0, 0x80], chunk()].concat())?;
    write("countint_payload", 0, &[0; 64])?;
    write("set_runs", 0, &(0..=255).rev().collect::<Vec<u8>>())?;
    write("set_ops", 0, &(0..=255).collect::<Vec<u8>>())
}
