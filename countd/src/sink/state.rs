//! The stored state of a sink: the offsets in the logs and the topic, the settings, and the run IDs of the servers.

use super::error::SinkError;
use super::statements::{LOG, ORIGIN, PASS, TOPIC};
use super::tables::Tables;
use crate::database::Session;
use crate::domain::keys::Partition;
use std::collections::BTreeMap;

/// The stored state of a sink.
#[derive(Default)]
pub struct Stored {
    /// The offset of the next entry of each partition.
    pub offsets: BTreeMap<Partition, u64>,
    /// The offset of the next record of each partition of the topic.
    pub topic_offsets: BTreeMap<u16, u64>,
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
                    let Ok(offset) = value.parse() else { continue };
                    for (prefix, offsets) in [
                        (LOG, &mut stored.offsets),
                        (TOPIC, &mut stored.topic_offsets),
                    ] {
                        let partition = name.strip_prefix(prefix);
                        if let Some(Ok(partition)) = partition.map(str::parse) {
                            offsets.insert(partition, offset);
                        }
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

/// The state with the offset of a partition of the topic.
pub fn topic_offset_state((partition, offset): (u16, u64)) -> (String, String) {
    (format!("{TOPIC}{partition}"), offset.to_string())
}
