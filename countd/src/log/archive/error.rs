//! Errors of the archive.

use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use std::io;
use std::path::{Path, PathBuf};

/// Why the archive cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A file is damaged.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// Offsets between two ranges are missing.
    #[error("the archive lacks the offsets {from} to {} of partition {partition}", next - 1)]
    Gap {
        /// The partition.
        partition: Partition,
        /// The first missing offset.
        from: u64,
        /// The offset after the last missing one.
        next: u64,
    },
    /// The archive belongs to other data.
    #[error(
        "the archive {} belongs to other data than that in Redis: set log.archive.dir to another directory, or run `countd restore` if the data is from a snapshot",
        .0.display()
    )]
    Foreign(PathBuf),
    /// Redis has older data than the archive.
    #[error(
        "the archive {} has entries that were archived {seconds} seconds after the data in Redis was last in use (partition {partition}: up to offset {end}, Redis: {archived}). If Redis was started from a snapshot, start it from the snapshot again and run `countd restore`. `countd archive accept-loss` gives these entries up",
        dir.display()
    )]
    Ahead {
        /// The directory of the archive.
        dir: PathBuf,
        /// A partition of which it has more than Redis.
        partition: Partition,
        /// The last archived offset.
        end: u64,
        /// The last offset that Redis knows to be archived.
        archived: u64,
        /// How much later it was archived, in seconds.
        seconds: u64,
    },
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ArchiveError {
    /// An error of a file.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> ArchiveError {
        let path = path.to_owned();
        |error| ArchiveError::File { path, error }
    }

    /// A damaged file.
    pub(super) fn damaged(path: &Path, reason: impl Into<String>) -> ArchiveError {
        ArchiveError::Damaged {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}
