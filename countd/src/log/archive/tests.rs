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
