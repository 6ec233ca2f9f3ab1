//! Objects that a finished migration has left: damaged ones, or those that a process of the old layout has created since.

use super::error::MigrationError;
use super::pass::phases;
use super::target::Target;
use crate::domain::keys::StoragePhase;
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1"];

/// The maximum number of keys that [`leftovers`] returns.
pub const MAX_LEFTOVERS: usize = 20;
/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;

/// The permissions that [`leftovers`] requires.
pub(super) fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// The keys of objects whose counters should be rows, up to [`MAX_LEFTOVERS`]. Scans all keys if a migration of the target has finished.
///
/// # Errors
/// Redis failed.
pub async fn leftovers(store: &Store, target: &Target) -> Result<Vec<String>, MigrationError> {
    let mut found = Vec::new();
    let is_migrated = store.layout().storage_of_type(target.name()) == StoragePhase::Table
        && phases(store, target).await?.iter().any(Option::is_some);
    if !is_migrated {
        return Ok(found);
    }
    let keys = store.keys();
    let pattern = target.pattern(keys);
    for mut server in store.servers()? {
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern);
            scan.arg("COUNT").arg(SCAN_COUNT);
            let (next, page): (u64, Vec<Vec<u8>>) = scan.query_async(&mut server).await?;
            for key in page {
                let key = String::from_utf8_lossy(&key).into_owned();
                if target.movable(keys, &key).is_some() && !found.contains(&key) {
                    found.push(key);
                }
                if found.len() == MAX_LEFTOVERS {
                    return Ok(found);
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(found)
}
