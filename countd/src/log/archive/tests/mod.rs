mod prune;

use super::*;
use crate::domain::keys::Partition;
use crate::log::{EntryKind, LogEntry};
use std::path::{Path, PathBuf};

/// A directory that is deleted at the end of a test.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let name = format!(
            "countd-archive-{}-{:016x}",
            std::process::id(),
            fastrand::u64(..)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn record(partition: Partition, offset: u64, payload: &str) -> Record {
    Record {
        partition,
        outcome: Outcome::Counted,
        entry: LogEntry {
            offset,
            kind: EntryKind::Event,
            payload: payload.as_bytes().to_vec(),
            size: payload.len() + 1,
            is_whole: true,
        },
    }
}

/// A chunk with an entry at each offset of a partition.
fn chunk(partition: Partition, (from, next): (u64, u64), payload: &str) -> Chunk {
    Chunk {
        ranges: vec![OffsetRange {
            partition,
            from,
            next,
        }],
        records: (from..next)
            .map(|offset| record(partition, offset, payload))
            .collect(),
    }
}

fn archive_all(dir: &Path, chunks: &[Chunk]) -> Vec<IndexLine> {
    let index = Index::of(dir);
    let mut segment = Segment::create(dir).expect("a segment");
    let mut lines = Vec::new();
    for chunk in chunks {
        let line = segment.append(chunk, 3).expect("appended");
        let lock = index.lock().expect("locked");
        index.append(&lock, &line).expect("in the index");
        lines.push(line);
    }
    lines
}

/// Offset and payload of all records of a partition.
fn read_all(dir: &Path, partition: Partition) -> Vec<(u64, String)> {
    let archive = Archive::open(dir).expect("an archive");
    let mut all = Vec::new();
    for at in 0..archive.len() {
        let records = archive.read(at).expect("a chunk").into_iter();
        let records = records.filter(|record| record.partition == partition);
        all.extend(records.map(|record| {
            let payload = String::from_utf8(record.entry.payload).expect("text");
            (record.entry.offset, payload)
        }));
    }
    all
}

#[test]
fn records_are_read_back_as_they_were_archived() {
    let dir = Dir::new();
    let mut all = chunk(3, (5, 9), "a");
    all.records[1].outcome = Outcome::Dead;
    all.records[2].entry.kind = EntryKind::Unknown;
    all.records[3].entry.is_whole = false;
    // More than a frame.
    all.records
        .extend((9..12).map(|offset| record(3, offset, &"x".repeat(700_000))));
    all.ranges[0].next = 12;
    let expected = all.records.clone();
    archive_all(&dir.0, &[all]);
    let archive = Archive::open(&dir.0).expect("an archive");
    assert_eq!(archive.read(0).expect("a chunk"), expected);
    assert_eq!(archive.coverage[&3].ranges, [(5, 12)]);
    assert!(
        Archive::open(&dir.0.join("none"))
            .expect("empty")
            .is_empty()
    );
}

#[test]
fn reused_offsets_truncate_the_older_chunks() {
    let dir = Dir::new();
    archive_all(
        &dir.0,
        &[
            chunk(1, (1, 6), "old"),
            chunk(1, (6, 9), "old"),
            chunk(2, (1, 3), "other"),
            // Redis went back to offset 4.
            chunk(1, (4, 7), "new"),
            chunk(1, (7, 8), "newest"),
        ],
    );
    let read = read_all(&dir.0, 1);
    let expected = [
        (1, "old"),
        (2, "old"),
        (3, "old"),
        (4, "new"),
        (5, "new"),
        (6, "new"),
        (7, "newest"),
    ];
    let expected = expected.map(|(offset, text)| (offset, text.to_owned()));
    assert_eq!(read, expected);
    assert_eq!(read_all(&dir.0, 2).len(), 2);
    let archive = Archive::open(&dir.0).expect("an archive");
    assert_eq!(archive.coverage[&1].ranges, [(1, 8)]);
}

#[test]
fn a_chunk_that_was_archived_twice_is_read_once() {
    let dir = Dir::new();
    let twice = || chunk(1, (3, 6), "same");
    archive_all(&dir.0, &[chunk(1, (1, 3), "a"), twice()]);
    archive_all(&dir.0, &[twice(), chunk(1, (6, 7), "b")]);
    let offsets: Vec<u64> = read_all(&dir.0, 1).into_iter().map(|(o, _)| o).collect();
    assert_eq!(offsets, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_gap_is_refused() {
    let dir = Dir::new();
    archive_all(&dir.0, &[chunk(1, (3, 6), "a"), chunk(1, (8, 9), "b")]);
    let archive = Archive::open(&dir.0).expect("an archive");
    let coverage = &archive.coverage[&1];
    let error = coverage.check_from(1, 3).expect_err("a gap").to_string();
    assert_eq!(error, "the archive lacks the offsets 6 to 7 of partition 1");
    assert!(coverage.check_from(1, 8).is_ok() && coverage.check_from(1, 20).is_ok());
    let error = coverage
        .check_from(1, 1)
        .expect_err("its beginning")
        .to_string();
    assert_eq!(error, "the archive lacks the offsets 1 to 2 of partition 1");
}

#[test]
fn a_torn_frame_is_refused_with_its_file() {
    let dir = Dir::new();
    let lines = archive_all(&dir.0, &[chunk(1, (1, 50), "a"), chunk(1, (50, 90), "b")]);
    let path = dir.0.join(&lines[1].file);
    let whole = std::fs::read(&path).expect("a segment");
    std::fs::write(&path, &whole[..whole.len() - 1]).expect("cut");
    let archive = Archive::open(&dir.0).expect("an archive");
    assert_eq!(archive.read(0).expect("the first chunk").len(), 49);
    let error = archive.read(1).expect_err("cut off").to_string();
    assert!(
        error.contains(&lines[1].file) && error.contains("cut off"),
        "{error}"
    );
    let mut changed = whole.clone();
    *changed.last_mut().expect("bytes") ^= 1;
    std::fs::write(&path, changed).expect("changed");
    let error = archive.read(1).expect_err("changed").to_string();
    assert!(error.contains("checksum"), "{error}");
    std::fs::write(&path, &whole[..10]).expect("cut");
    assert!(Archive::open(&dir.0).is_err());
}

#[test]
fn what_a_killed_process_left_is_ignored() {
    let dir = Dir::new();
    let lines = archive_all(&dir.0, &[chunk(1, (1, 3), "a")]);
    // A chunk without a line, and half a line.
    let mut segment = Segment::create(&dir.0).expect("a segment");
    segment
        .append(&chunk(1, (3, 5), "lost"), 3)
        .expect("appended");
    let path = dir.0.join("index");
    let mut index = std::fs::read(&path).expect("an index");
    let line = serde_json::to_vec(&lines[0]).expect("a line");
    index.extend(&line[..line.len() / 2]);
    std::fs::write(&path, &index).expect("written");
    assert_eq!(read_all(&dir.0, 1).len(), 2);
    archive_all(&dir.0, &[chunk(1, (3, 4), "b")]);
    let read = read_all(&dir.0, 1);
    assert_eq!(read.last(), Some(&(3, "b".to_owned())));
    assert_eq!(read.len(), 3);
    // A damaged line between others is an error.
    let mut index = std::fs::read(&path).expect("an index");
    index[3] = b'!';
    std::fs::write(&path, &index).expect("written");
    let error = Index::of(&dir.0).load().expect_err("damaged").to_string();
    assert!(error.contains("line 1"), "{error}");
}

/// Bytes of a segment that was damaged in this way.
fn damage(whole: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let at = random.usize(..bytes.len());
    match random.u8(..5) {
        0 => bytes[at] ^= 1 << random.u8(..8),
        1 => bytes.truncate(at),
        // A length that is far too large.
        2 => {
            let end = (at + 4).min(bytes.len());
            bytes[at..end].fill(0xff);
        }
        3 => bytes.iter_mut().for_each(|byte| *byte = random.u8(..)),
        _ => drop(bytes.splice(at..at, std::iter::repeat_n(random.u8(..), 9))),
    }
    bytes
}

/// Whatever a segment contains, it is read or refused with its name and the offset of the chunk.
#[test]
fn damaged_segments_are_refused_with_file_and_offset() {
    let dir = Dir::new();
    let lines = archive_all(&dir.0, &[chunk(1, (1, 30), "a"), chunk(2, (1, 30), "b")]);
    let path = dir.0.join(&lines[0].file);
    let whole = std::fs::read(&path).expect("a segment");
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for _ in 0..3_000 {
        let bytes = damage(&whole, &mut random);
        std::fs::write(&path, &bytes).expect("written");
        let read = Archive::open(&dir.0).and_then(|archive| {
            for at in 0..archive.len() {
                archive.read(at)?;
            }
            Ok(())
        });
        if let Err(error) = read {
            refused += 1;
            let error = error.to_string();
            assert!(error.contains(&lines[0].file), "{error}");
            let is_located = error.contains("at byte")
                || error.contains("not a segment")
                || error.contains("failed to fill");
            assert!(is_located, "{error}");
        }
    }
    assert!(refused > 2_000, "{refused}");
}

/// A frame with a right checksum and wrong contents.
fn forged(compressed: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(compressed.len())
        .expect("short")
        .to_le_bytes()
        .to_vec();
    frame.extend(crc32c::crc32c(compressed).to_le_bytes());
    frame.extend(compressed);
    frame
}

/// Forged chunks whose checksums match are refused, and take no more memory than they have contents.
#[test]
fn forged_chunks_are_refused() {
    let mut random = fastrand::Rng::with_seed(9);
    let frame = |raw: &[u8]| forged(&zstd::bulk::compress(raw, 3).expect("compressed"));
    let ranges = {
        let mut raw = Vec::new();
        for value in [1, 1, 30] {
            codec::put_integer(&mut raw, value);
        }
        frame(&raw)
    };
    for _ in 0..3_000 {
        // Arbitrary records, and zstd frames that declare any size.
        let raw: Vec<u8> = (0..random.usize(..64)).map(|_| random.u8(..)).collect();
        let mut compressed = vec![0x28, 0xb5, 0x2f, 0xfd];
        compressed.extend(&raw);
        for second in [frame(&raw), forged(&raw), forged(&compressed)] {
            let _ = Chunk::decode(&[ranges.clone(), second.clone()].concat());
            let _ = Chunk::decode(&second);
        }
    }
    // It declares 2^62 bytes.
    let mut declared = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    declared.extend((1_u64 << 62).to_le_bytes());
    declared.extend([1, 0, 0]);
    let refused = Chunk::decode(&forged(&declared));
    assert!(refused.is_err());
    // Offsets that would overflow.
    let mut raw = Vec::new();
    for value in [1, 1, u64::MAX] {
        codec::put_integer(&mut raw, value);
    }
    assert!(Chunk::decode(&frame(&raw)).is_err());
    // A payload that is longer than the frame.
    let mut raw = Vec::new();
    for value in [1, 1] {
        codec::put_integer(&mut raw, value);
    }
    raw.push(b'e');
    for value in [1, 9, 1, u64::MAX] {
        codec::put_integer(&mut raw, value);
    }
    assert!(Chunk::decode(&[ranges, frame(&raw)].concat()).is_err());
}
