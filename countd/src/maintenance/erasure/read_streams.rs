//! Removes the events of a user from the streams of days.

use super::context::Erasure;
use crate::domain::error::Problem;
use crate::domain::ids::{Id, Name};
use crate::maintenance::jobs::Lease;
use std::collections::{BTreeSet, HashMap};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] =
    &["XRANGE {read_stream} - + COUNT 1", "XDEL {read_stream} 0-1"];

/// The number of entries that are read at once.
const PAGE: usize = 1_000;

/// The ID of an entry, and its fields.
type Entry = (String, HashMap<Vec<u8>, Vec<u8>>);

impl Erasure {
    /// Whether a key is the stream of a day of one of these metrics.
    pub(super) fn is_read_stream(&self, metrics: &BTreeSet<Name>, key: &[u8]) -> bool {
        let Ok(key) = std::str::from_utf8(key) else {
            return false;
        };
        let parsed = self.store.keys().parse_read_stream(key);
        parsed.is_some_and(|(metric, _)| metrics.iter().any(|name| name.as_str() == metric))
    }

    /// Removes the events of a user from a stream.
    pub(super) async fn remove_from_stream(
        &self,
        lease: &mut Lease,
        uid: &Id,
        key: &[u8],
    ) -> Result<(), Problem> {
        let mut from = "-".to_owned();
        loop {
            let mut range = redis::cmd("XRANGE");
            range.arg(key).arg(&from).arg("+");
            range.arg("COUNT").arg(PAGE);
            // The values in a foreign stream may be anything.
            let page: Result<Vec<Entry>, _> = range.query_async(&mut self.store.commands()).await;
            let page = match page {
                // It is no stream of countd.
                Err(error) if error.code() == Some("WRONGTYPE") => return Ok(()),
                page => page?,
            };
            let is_last = page.len() < PAGE;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            from = format!("({last}");
            let erased = page.iter().filter(|(_, fields)| {
                let of = fields.get(b"uid".as_slice());
                of.is_some_and(|of| of == uid.as_str().as_bytes())
            });
            let erased: Vec<&String> = erased.map(|(id, _)| id).collect();
            if !erased.is_empty() {
                let mut delete = redis::cmd("XDEL");
                delete.arg(key).arg(erased);
                let deleted: u64 = delete.query_async(&mut self.store.commands()).await?;
                // The user may have acted since the stream was visited.
                lease.job.progress.is_dirty |= deleted > 0;
            }
            if is_last {
                return Ok(());
            }
            lease.keep_alive().await?;
        }
    }
}
