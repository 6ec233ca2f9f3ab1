//! Pruned archives.

use super::*;
use crate::domain::progress::Silent;

/// The number of chunks that a prune deletes before a time at which the chunk with this number was archived.
fn prune_before(dir: &Path, lines: &[IndexLine], chunk: usize) -> PruneReport {
    prune(dir, &Before::Time(lines[chunk].ms), &Silent).expect("pruned")
}

#[test]
fn pruned_entries_are_missing_and_not_forgotten() {
    let dir = Dir::new();
    let mut lines = Vec::new();
    // Each chunk has a segment. Partition 2 has nothing later.
    for chunks in [
        vec![chunk(1, (1, 6), "a"), chunk(2, (1, 4), "a")],
        vec![chunk(1, (6, 9), "b")],
        vec![chunk(1, (9, 12), "c")],
    ] {
        lines.extend(archive_all(&dir.0, &chunks));
        // Chunks of one millisecond are pruned together.
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    let first = &lines[0].file;
    assert_eq!(prune_before(&dir.0, &lines, 0), PruneReport::default());
    let report = prune_before(&dir.0, &lines, 2);
    assert_eq!((report.chunks, report.segments), (2, 1));
    assert!(!dir.0.join(first).exists() && dir.0.join(&lines[2].file).exists());
    let archive = Archive::open(&dir.0).expect("an archive");
    assert_eq!(archive.coverage[&1].ranges, [(6, 12)]);
    assert_eq!(archive.coverage[&2].ranges, [(4, 4)]);
    assert!(archive.coverage[&1].check_from(1, 6).is_ok());
    assert!(archive.coverage[&1].check_from(1, 5).is_err());
    assert!(archive.coverage[&2].check_from(2, 4).is_ok());
    let error = archive.coverage[&2].check_from(2, 1).expect_err("pruned");
    assert_eq!(
        error.to_string(),
        "the archive lacks the offsets 1 to 3 of partition 2"
    );
    // It goes on.
    archive_all(&dir.0, &[chunk(2, (4, 7), "d")]);
    let archive = Archive::open(&dir.0).expect("an archive");
    assert_eq!(archive.coverage[&2].ranges, [(4, 7)]);
    assert_eq!(read_all(&dir.0, 1).len(), 6);
    // A segment that a process had left without a line goes with the others.
    let orphan = Segment::create(&dir.0).expect("a segment");
    assert!(orphan.exists());
    std::thread::sleep(std::time::Duration::from_millis(3));
    archive_all(&dir.0, &[chunk(1, (12, 13), "e")]);
    let after = crate::domain::event::now_ms() + 1;
    let report = prune(&dir.0, &Before::Time(after), &Silent).expect("pruned");
    assert_eq!((report.chunks, report.segments), (4, 5));
    assert!(!orphan.exists());
    let archive = Archive::open(&dir.0).expect("an archive");
    assert!(archive.is_empty());
    assert_eq!(archive.coverage[&1].ranges, [(13, 13)]);
}

#[test]
fn a_baseline_keeps_what_follows_it() {
    let dir = Dir::new();
    archive_all(
        &dir.0,
        &[
            chunk(1, (1, 6), "a"),
            chunk(2, (1, 4), "a"),
            chunk(1, (6, 9), "b"),
            chunk(2, (4, 6), "b"),
        ],
    );
    let older = BaselineWriter::create(&dir.0, 3).expect("a baseline");
    let older = older
        .finish([(1, 2), (2, 2)].into(), None)
        .expect("written");
    std::thread::sleep(std::time::Duration::from_millis(3));
    let kept = BaselineWriter::create(&dir.0, 3).expect("a baseline");
    let kept = kept.finish([(1, 7), (2, 6)].into(), None).expect("written");
    let report = prune(&dir.0, &Before::Baseline(kept.clone()), &Silent).expect("pruned");
    assert_eq!(
        (report.chunks, report.segments, report.baselines),
        (2, 0, 1)
    );
    assert!(!dir.0.join(older).exists());
    let archive = Archive::open(&dir.0).expect("an archive");
    assert_eq!(archive.coverage[&1].ranges, [(6, 9)]);
    assert_eq!(archive.coverage[&2].ranges, [(4, 6)]);
    let missing = prune(
        &dir.0,
        &Before::Baseline("2-2.baseline".to_owned()),
        &Silent,
    );
    assert!(missing.is_err() && dir.0.join(kept).exists());
}

#[test]
fn the_last_lines_of_a_long_index_are_found() {
    let dir = Dir::new();
    let index = Index::of(&dir.0);
    assert!(index.load_since(0).expect("no index").is_empty());
    let line = |ms| IndexLine {
        file: "a.seg".to_owned(),
        at: 8,
        bytes: 100,
        crc: 1,
        entries: 10,
        ms,
    };
    let lines: Vec<IndexLine> = (0..5_000).map(line).collect();
    let lock = index.lock().expect("locked");
    index.rewrite(&lock, &lines).expect("written");
    assert_eq!(index.load().expect("lines"), lines);
    for since in [0, 1, 2_000, 4_999, 6_000] {
        let found = index.load_since(since).expect("lines");
        let expected = lines.iter().filter(|line| line.ms >= since);
        let newer = found.iter().filter(|line| line.ms >= since);
        assert!(newer.eq(expected), "{since}");
    }
    assert!(index.load_since(4_999).expect("lines").len() < 2_000);
}
