//! Files that are read again when they have changed, and SIGHUP.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The interval at which files are checked for changes.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time of the last change and the length of a file; `None` if it cannot be read.
pub type FileVersion = Option<(SystemTime, u64)>;

/// The version of a file.
pub fn version(file: &Path) -> FileVersion {
    let metadata = file.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Waits for changes of files, and for SIGHUP.
pub struct Watch {
    files: Vec<PathBuf>,
    versions: Vec<FileVersion>,
    hangup: Signal,
}

impl Watch {
    /// Watches files. Their first check is a change, because they may have changed since they were read. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// The process cannot handle signals.
    pub fn start(files: Vec<PathBuf>) -> io::Result<Watch> {
        Ok(Watch {
            files,
            versions: Vec::new(),
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until a file has changed, or the process receives SIGHUP.
    pub async fn changed(&mut self) {
        loop {
            let is_signal = tokio::select! {
                () = tokio::time::sleep(CHECK_INTERVAL) => false,
                _ = self.hangup.recv() => true,
            };
            // Taken before the caller reads: a change during the read is noticed by the next check.
            let versions: Vec<_> = self.files.iter().map(|file| version(file)).collect();
            if is_signal || versions != self.versions {
                self.versions = versions;
                return;
            }
        }
    }
}
