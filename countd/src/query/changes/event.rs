//! The events that clients of the changes get.

use crate::domain::changes::ChangedEntities;
use crate::domain::ids::Name;
use std::sync::Arc;

/// Changed entities of one type.
#[derive(Debug)]
pub struct TypeChanges {
    /// The type.
    pub etype: Name,
    /// The elements of a JSON list, `{"etype":"note","eid":"7"}`, separated by commas.
    pub json: String,
}

/// An event for a client. `position` is a time in milliseconds: the client has all changes up to then when it has the event.
#[derive(Clone, Debug)]
pub enum ChangeEvent {
    /// Entities changed.
    Changed {
        /// The position.
        position: u64,
        /// The entities.
        types: Arc<[TypeChanges]>,
    },
    /// The client may have missed changes.
    Reset {
        /// The position.
        position: u64,
    },
    /// Nothing changed.
    KeepAlive {
        /// The position.
        position: u64,
    },
}

impl ChangeEvent {
    /// The event of changed entities.
    pub(super) fn changed(position: u64, changed: &ChangedEntities) -> ChangeEvent {
        let types = changed.types().map(|(etype, ids)| {
            // Names and IDs contain nothing that JSON escapes.
            let items = ids.iter();
            let items = items.map(|eid| format!("{{\"etype\":\"{etype}\",\"eid\":\"{eid}\"}}"));
            TypeChanges {
                etype: etype.clone(),
                json: items.collect::<Vec<String>>().join(","),
            }
        });
        ChangeEvent::Changed {
            position,
            types: types.collect(),
        }
    }
}
