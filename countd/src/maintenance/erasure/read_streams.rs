//! Removes the events of a user from the streams of days.

use super::context::Erasure;
use crate::domain::error::Problem;
use crate::domain::ids::Id;
use crate::maintenance::jobs::Lease;
use std::collections::HashMap;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] =
    &["XRANGE {read_stream} - + COUNT 1", "XDEL {read_stream} 0-1"];

/// The number of entries that are read at once.
const PAGE: usize = 1_000;

impl Erasure {
    /// Whether a key is the stream of a day.
    pub(super) fn is_read_stream(&self, key: &[u8]) -> bool {
        let Ok(key) = std::str::from_utf8(key) else {
            return false;
        };
        let parsed = self.store.keys().parse_read_stream(key);
        parsed.is_some_and(|metric| {
            let metric = self.catalog.config.metrics.get(metric);
            metric.is_some_and(|(_, metric)| metric.reads.is_some())
        })
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
            let page: Result<Vec<(String, HashMap<String, String>)>, _> =
                range.query_async(&mut self.store.commands()).await;
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
                let of = fields.get("uid");
                of.is_some_and(|of| of == uid.as_str())
            });
            let erased: Vec<&String> = erased.map(|(id, _)| id).collect();
            if !erased.is_empty() {
                let mut delete = redis::cmd("XDEL");
                delete.arg(key).arg(erased);
                let () = delete.query_async(&mut self.store.commands()).await?;
            }
            if is_last {
                return Ok(());
            }
            lease.keep_alive().await?;
        }
    }
}
