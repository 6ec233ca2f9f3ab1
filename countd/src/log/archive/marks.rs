//! Small files beside the index: the data to which the archive belongs, and how much of it was pruned.

use super::error::ArchiveError;
use super::index::{Index, IndexLock, replace};
use crate::domain::keys::Partition;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// The file with the ID of the data.
const DATA: &str = "data";
/// The file with the offsets before which partitions were pruned.
const PRUNED: &str = "pruned";

impl Index {
    /// The ID of the data to which the archive belongs; `None` if it has none yet.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn data_id(&self) -> Result<Option<String>, ArchiveError> {
        let text = read(&self.dir().join(DATA))?;
        let text = text.map(|text| String::from_utf8_lossy(&text).trim().to_owned());
        Ok(text.filter(|id| !id.is_empty()))
    }

    /// Records the ID of the data, durably.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(super) fn set_data_id(&self, _: &IndexLock, id: &str) -> Result<(), ArchiveError> {
        replace(self.dir(), DATA, format!("{id}\n").as_bytes())
    }

    /// The offsets before which partitions were pruned.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(super) fn pruned(&self) -> Result<BTreeMap<Partition, u64>, ArchiveError> {
        let path = self.dir().join(PRUNED);
        match read(&path)? {
            None => Ok(BTreeMap::new()),
            Some(text) => serde_json::from_slice(&text)
                .map_err(|error| ArchiveError::damaged(&path, error.to_string())),
        }
    }

    /// Records the offsets before which partitions were pruned, durably.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(super) fn set_pruned(
        &self,
        _: &IndexLock,
        pruned: &BTreeMap<Partition, u64>,
    ) -> Result<(), ArchiveError> {
        let text = serde_json::to_vec(pruned);
        let path = self.dir().join(PRUNED);
        let text = text.map_err(|error| ArchiveError::damaged(&path, error.to_string()))?;
        replace(self.dir(), PRUNED, &text)
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, ArchiveError> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ArchiveError::file(path)(error)),
    }
}
