//! Disks that lose what was not synced.

use crate::env::TempDir;
use crate::shim::Shim;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::OnceLock;

/// The disk of servers that are started with [`Builder::disk`](crate::Builder::disk): it knows how much of each file they have synced.
pub struct Disk {
    dir: TempDir,
}

impl Disk {
    /// A disk on which nothing was synced.
    pub fn new() -> Disk {
        Disk {
            dir: TempDir::new(),
        }
    }

    /// The environment variables of a process that uses the disk.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        static SHIM: OnceLock<Shim> = OnceLock::new();
        let shim = SHIM.get_or_init(|| Shim::build("disk", include_str!("disk.c")));
        shim.environment("COUNTINT_DISK", self.dir.path().to_owned())
    }

    /// Cuts a file where it was last synced, as a failure of the machine does at worst. The process that wrote it must have ended. Returns
    /// the number of bytes that are lost.
    pub fn lose_unsynced(&self, file: &Path) -> u64 {
        let name = file.file_name().expect("a file");
        let synced = match fs::read_to_string(self.dir.path().join(name)) {
            Ok(size) => size.parse().expect("a size"),
            Err(_) => 0,
        };
        let opened = OpenOptions::new().write(true).open(file).expect("a file");
        let size = opened.metadata().expect("a size").len();
        opened.set_len(size.min(synced)).expect("cut");
        size.saturating_sub(synced)
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}
