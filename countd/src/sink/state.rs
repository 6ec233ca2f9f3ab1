//! The stored state of a sink: the offsets in the logs, the settings, and the run IDs of the servers.

use super::error::SinkError;
use super::statements::{LOG, ORIGIN, PASS};
use super::tables::Tables;
use crate::database::Session;
use crate::domain::keys::Partition;
use std::collections::BTreeMap;

/// The stored state of a sink.
#[derive(Default)]
pub struct Stored {
    /// The offset of the next entry of each partition.
    pub offsets: BTreeMap<Partition, u64>,
    /// The settings and the servers of the rows.
    pub origin: String,
    /// Whether a pass is needed.
    pub needs_pass: bool,
}

impl Stored {
    /// Reads the state.
    ///
    /// # Errors
    /// The database failed.
    pub async fn load(session: &mut Session, tables: &Tables) -> Result<Stored, SinkError> {
        let mut stored = Stored::default();
        for row in session.texts(tables.states()).await? {
            let [Some(name), Some(value)] = row.as_slice() else {
                continue;
            };
            match name.as_str() {
                ORIGIN => stored.origin.clone_from(value),
                PASS => stored.needs_pass = true,
                name => {
                    let partition = name.strip_prefix(LOG).and_then(|name| name.parse().ok());
                    if let (Some(partition), Ok(offset)) = (partition, value.parse()) {
                        stored.offsets.insert(partition, offset);
                    }
                }
            }
        }
        Ok(stored)
    }
}

/// The state with the offset of a partition.
pub fn offset_state((partition, offset): (&Partition, &u64)) -> (String, String) {
    (format!("{LOG}{partition}"), offset.to_string())
}
