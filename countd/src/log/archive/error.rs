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
