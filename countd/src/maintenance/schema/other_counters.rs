//! Finds counters that processes or events have counted by the new schema before.

use super::error::SchemaMigrationError;
use super::migration::SchemaMigration;
use crate::domain::ids::Name;
use crate::domain::progress::Update;
use crate::maintenance::visits::node_sizes;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1"];

/// The step, as progress names it.
const STEP: &str = "looking for counters of the new schema";
/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;

impl SchemaMigration<'_> {
    /// A key with counters of these types that were counted by the new schema itself. They would not be found any more.
    pub(super) async fn key_of_new_schema(
        &mut self,
        columns: &Name,
        types: &[Name],
    ) -> Result<Option<String>, SchemaMigrationError> {
        let to = self.pair.to.clone();
        if to == *columns || types.is_empty() {
            return Ok(None);
        }
        let prefixes: Vec<String> = types
            .iter()
            .flat_map(|etype| [format!("tab:{to}:{etype}:"), format!("cnt:{to}:{etype}:")])
            .collect();
        // As for `Visits`, the total is an estimate that the end of each node corrects.
        let store = &self.context.store;
        let sizes = node_sizes(store).await?;
        let (total, mut ended) = (sizes.iter().sum::<u64>(), 0);
        for (mut server, size) in store.servers()?.into_iter().zip(sizes) {
            let (mut cursor, mut visited) = (0_u64, 0);
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH");
                scan.arg(format!("[ct][na][bt]:{to}:*"));
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, page): (u64, Vec<Vec<u8>>) = scan.query_async(&mut server).await?;
                let mut keys = page.iter().map(|key| String::from_utf8_lossy(key));
                let found = keys.find(|key| prefixes.iter().any(|prefix| key.starts_with(prefix)));
                if let Some(key) = found {
                    return Ok(Some(key.into_owned()));
                }
                cursor = next;
                visited = match cursor {
                    0 => size,
                    _ => size.min(visited + SCAN_COUNT as u64),
                };
                let update = Update::new(STEP, ended + visited, "keys").of(total);
                self.progress.update(&update);
                if cursor == 0 {
                    break;
                }
            }
            ended += size;
        }
        Ok(None)
    }

    pub(super) fn has_counters(&self, key: &str) -> SchemaMigrationError {
        let to = &self.pair.to;
        SchemaMigrationError::Refused(format!(
            "{key} has counters of schema {to}, which would not be found any more: processes or events have named {to} before; choose another schema"
        ))
    }
}
