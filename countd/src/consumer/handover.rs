//! Handing over: what a partition's outbox holds goes to the logs of others.
//!
//! An entry is appended there first and removed here afterwards, so it may arrive twice, with the same source and number. The
//! receiver keeps for each source the number that comes next and drops what is below. That is enough as long as what arrives for
//! the first time arrives in order: whoever hands over starts with the oldest entry and, after a failure, starts again there; and
//! entries for one log are appended in order up to the first that fails.

use crate::event::{Derived, Source};
use crate::keys::Partition;
use crate::log::{Kind, Log};
use crate::store::{Store, StoreError};
use std::collections::{BTreeMap, HashMap};

/// How many entries go at once.
const PAGE: usize = 1_000;

/// Empties the outbox of a partition.
///
/// # Errors
/// A log or the store did not answer, or refused. Then what was not removed is handed over again.
pub async fn hand_over<L: Log + Sync>(
    store: &Store,
    log: &L,
    partition: Partition,
) -> Result<(), StoreError> {
    let outbox = store.keys().outbox(partition);
    loop {
        let page: Vec<(String, HashMap<String, String>)> = redis::cmd("XRANGE")
            .arg(&outbox)
            .arg(&["-", "+", "COUNT"])
            .arg(PAGE)
            .query_async(&mut store.commands())
            .await?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        let behind = number(last)?.saturating_add(1);
        let full = page.len() == PAGE;
        let mut logs: BTreeMap<Partition, Vec<(Kind, Vec<u8>)>> = BTreeMap::new();
        for (id, fields) in &page {
            let (to, derived) = entry(partition, id, fields)?;
            logs.entry(to).or_default().push((Kind::Derived, derived));
        }
        log.append(&logs).await?;
        redis::cmd("XTRIM")
            .arg(&outbox)
            .arg("MINID")
            .arg(format!("0-{behind}"))
            .exec_async(&mut store.commands())
            .await?;
        if !full {
            return Ok(());
        }
    }
}

fn damaged() -> StoreError {
    StoreError::Unexpected("an outbox holds what countd did not write".to_owned())
}

fn number(id: &str) -> Result<u64, StoreError> {
    let number = id.strip_prefix("0-").and_then(|number| number.parse().ok());
    number.ok_or_else(damaged)
}

fn entry(
    from: Partition,
    id: &str,
    fields: &HashMap<String, String>,
) -> Result<(Partition, Vec<u8>), StoreError> {
    let to = fields
        .get("to")
        .and_then(|to| to.parse().ok())
        .ok_or_else(damaged)?;
    let adds = fields
        .get("adds")
        .and_then(|adds| serde_json::from_str(adds).ok());
    let derived = Derived {
        source: Some(Source {
            from,
            seq: number(id)?,
        }),
        adds: adds.ok_or_else(damaged)?,
    };
    Ok((to, serde_json::to_vec(&derived).map_err(|_| damaged())?))
}
