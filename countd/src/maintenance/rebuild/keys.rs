//! The keys that a rebuild reads.

use super::error::RebuildError;
use crate::domain::config::Config;
use crate::domain::ids::Name;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::schema::Schemas;
use redis::aio::ConnectionManager;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 MATCH * COUNT 1"];

/// The number of keys of a step of a scan.
const KEYS: usize = 1_000;

/// The schemas and types of all tables.
pub(super) async fn table_names(
    store: &Store,
    config: &Config,
) -> Result<Vec<(Name, Name)>, RebuildError> {
    if store.backend() == CounterBackend::Strings {
        return Ok(Vec::new());
    }
    let schemas = Schemas::new(store.clone()).list().await?;
    let types = config.entities.keys();
    let tables = types.flat_map(|etype| schemas.iter().map(|id| (id.clone(), etype.clone())));
    Ok(tables.collect())
}

/// Keys of a server that match a pattern, and the next cursor.
pub(super) async fn scan(
    server: &mut ConnectionManager,
    cursor: u64,
    pattern: &str,
) -> Result<(u64, Vec<String>), RebuildError> {
    let mut cmd = redis::cmd("SCAN");
    cmd.arg(cursor).arg("MATCH").arg(pattern);
    cmd.arg("COUNT").arg(KEYS);
    let (next, found): (u64, Vec<Vec<u8>>) = cmd.query_async(server).await?;
    let found = found.into_iter();
    let names = found.filter_map(|key| String::from_utf8(key).ok());
    Ok((next, names.collect()))
}

/// Refuses data that an adoption converts: the same counter has other forms before and after it.
pub(super) fn refuse_mixed(store: &Store) -> Result<(), RebuildError> {
    match store.backend().is_mixed() {
        true => Err(RebuildError::Refused(
            "an adoption converts the data: finish `countd storage adopt` first".to_owned(),
        )),
        false => Ok(()),
    }
}
