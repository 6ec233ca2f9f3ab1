//! The configuration of the event archive.

use super::error::{ConfigError, invalid};
use serde::Deserialize;
use std::path::Path;

/// `[log.archive]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveConfig {
    /// The directory of the archive. An empty string means that nothing is archived.
    pub dir: String,
    /// The size at which a process begins its next segment, in bytes.
    pub segment_bytes: u64,
    /// The interval between two writes, in milliseconds.
    pub flush_ms: u64,
    /// The compression level of zstd.
    pub level: i32,
}

impl ArchiveConfig {
    /// The directory; `None` if nothing is archived.
    pub fn dir(&self) -> Option<&Path> {
        (!self.dir.is_empty()).then(|| Path::new(&self.dir))
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=19).contains(&self.level) {
            return Err(invalid("log.archive.level", "must be 1 to 19"));
        }
        if !(10..=60_000).contains(&self.flush_ms) {
            return Err(invalid("log.archive.flush_ms", "must be 10 to 60000"));
        }
        if self.segment_bytes < 1 << 20 {
            let problem = "must be at least 1048576";
            return Err(invalid("log.archive.segment_bytes", problem));
        }
        Ok(())
    }
}
