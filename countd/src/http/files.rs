//! Files that are read again when they have changed, and at SIGHUP.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The interval at which files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time of the last change and the length of a file; `None` if it cannot be read.
type FileVersion = Option<(SystemTime, u64)>;

fn version(file: &Path) -> FileVersion {
    let metadata = file.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Calls `reload` in a background task when one of the files has changed, and at SIGHUP, until the value is dropped. It is also called at the first check,
/// because the files may have changed since they were read. Must be called in a Tokio runtime.
///
/// # Errors
/// The process cannot handle signals.
pub fn watch<T: Send + Sync + 'static>(
    files: Vec<PathBuf>,
    value: &Arc<T>,
    reload: impl Fn(&T) + Send + 'static,
) -> io::Result<()> {
    let mut watch = Watch {
        files,
        versions: Vec::new(),
        hangup: signal(SignalKind::hangup())?,
    };
    let value = Arc::downgrade(value);
    tokio::spawn(async move {
        loop {
            watch.changed().await;
            match value.upgrade() {
                Some(value) => reload(&value),
                None => return,
            }
        }
    });
    Ok(())
}

/// Waits for changes of files, and for SIGHUP.
struct Watch {
    files: Vec<PathBuf>,
    versions: Vec<FileVersion>,
    hangup: Signal,
}

impl Watch {
    /// Waits until a file has changed, or the process receives SIGHUP.
    async fn changed(&mut self) {
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
