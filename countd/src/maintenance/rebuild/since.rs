//! What has happened since counters were observed: entries of the log and of the audit.
//!
//! The script that adds differences reads what is left of both. In a partition with many events it would have to read much, so the rest is
//! read here first, in pages.

use super::error::RebuildError;
use super::observe::{Observation, Observer};
use crate::domain::error::StoreError;
use crate::domain::event::Journal;
use crate::domain::ids::Entity;
use crate::domain::keys::Partition;
use crate::log::EntryKind;
use crate::redis::store::Store;
use std::collections::{HashMap, HashSet};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["XRANGE {audit} - +"];

/// The number of entries of the audit that are read at once.
const AUDIT_PAGE: usize = 1_000;
/// The maximum number of pages that are read at once of the log, and of the audit.
const MAX_PAGES: usize = 1_000;

/// An entry of the audit: its ID and its fields.
type AuditEntry = (String, HashMap<String, String>);

/// How far the log and the audit have been read.
pub(super) struct Since {
    /// The partition.
    pub partition: Partition,
    /// The last offset of the log.
    pub last: u64,
    /// The last ID of the audit.
    pub last_audit: String,
}

impl Since {
    /// Nothing has been read since this observation.
    pub fn new(partition: Partition, observed: &Observation) -> Since {
        Since {
            partition,
            last: observed.last,
            last_audit: observed.last_audit.clone(),
        }
    }

    /// Reads on. Returns whether counters of these entities may have been changed by something else than events.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn has_changes(
        &mut self,
        (store, observer): (&Store, &Observer),
        entities: &HashSet<&Entity>,
    ) -> Result<bool, RebuildError> {
        for _ in 0..MAX_PAGES {
            let reading = observer.entries(self.partition, self.last + 1);
            let (entries, is_end) = reading.await?;
            let of_entities = |payload: &[u8]| {
                let journal = serde_json::from_slice::<Journal>(payload);
                journal.map_or(true, |journal| entities.contains(&journal.entity()))
            };
            let mut journals = entries
                .iter()
                .filter(|entry| entry.kind == EntryKind::Journal);
            if journals.any(|entry| of_entities(&entry.payload)) {
                return Ok(true);
            }
            self.last = entries.last().map_or(self.last, |entry| entry.offset);
            if is_end || entries.is_empty() {
                break;
            }
        }
        for _ in 0..MAX_PAGES {
            let mut cmd = redis::cmd("XRANGE");
            cmd.arg(store.keys().audit(self.partition));
            cmd.arg(format!("({}", self.last_audit));
            cmd.arg("+").arg("COUNT").arg(AUDIT_PAGE);
            let page = cmd.query_async::<Vec<AuditEntry>>(&mut store.reads()).await;
            let page = page.map_err(StoreError::from)?;
            if page
                .iter()
                .any(|(_, fields)| is_correction(fields, entities))
            {
                return Ok(true);
            }
            if let Some((id, _)) = page.last() {
                self.last_audit.clone_from(id);
            }
            if page.len() < AUDIT_PAGE {
                break;
            }
        }
        Ok(false)
    }
}

/// Whether an entry of the audit is a correction of one of these entities.
fn is_correction(fields: &HashMap<String, String>, entities: &HashSet<&Entity>) -> bool {
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let is_of = |entity: &&Entity| {
        entity.etype.as_str() == field("etype") && entity.eid.as_str() == field("eid")
    };
    field("difference") != "0" && entities.iter().any(is_of)
}
