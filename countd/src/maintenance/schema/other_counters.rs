//! Finds counters that processes or events have counted by the new schema before.

use super::error::SchemaMigrationError;
use super::migration::SchemaMigration;
use crate::domain::ids::Name;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1"];

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
        self.step("looking for counters of the new schema");
        let prefixes: Vec<String> = types
            .iter()
            .flat_map(|etype| [format!("tab:{to}:{etype}:"), format!("cnt:{to}:{etype}:")])
            .collect();
        for mut server in self.context.store.servers()? {
            let mut cursor = 0_u64;
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
                if cursor == 0 {
                    break;
                }
            }
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
