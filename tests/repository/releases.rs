//! Each release has files that later versions must load.

use countint_tests::env::workspace;
use std::collections::BTreeSet;
use std::fs;

/// The largest size of the fixtures of a release in bytes.
const MAX_BYTES: u64 = 300_000;

/// The versions with a heading in the changelog, such as `## [0.1.0]`.
fn released() -> BTreeSet<String> {
    let text = fs::read_to_string(workspace().join("CHANGELOG.md")).expect("a changelog");
    let headings = text.lines().filter_map(|line| line.strip_prefix("## ["));
    let versions = headings.filter_map(|line| line.split(']').next());
    let versions = versions.filter(|version| *version != "Unreleased");
    versions.map(str::to_owned).collect()
}

/// The bytes of all files in a directory.
fn bytes(dir: &std::path::Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory");
    let sizes = entries.map(|entry| {
        let entry = entry.expect("it can be read");
        let data = entry.metadata().expect("it can be read");
        if data.is_dir() {
            bytes(&entry.path())
        } else {
            data.len()
        }
    });
    sizes.sum()
}

#[test]
fn every_release_has_fixtures() {
    let dir = workspace().join("tests/fixtures");
    for version in released()
        .iter()
        .map(String::as_str)
        .chain([env!("CARGO_PKG_VERSION")])
    {
        let dir = dir.join(version);
        for part in ["module", "countd"] {
            let help = "run scripts/release-fixtures";
            assert!(dir.join(part).is_dir(), "{version} has no {part}: {help}");
        }
        let size = bytes(&dir);
        assert!(
            size <= MAX_BYTES,
            "the fixtures of {version} have {size} bytes"
        );
    }
}
