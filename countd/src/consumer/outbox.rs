//! Handing over: what a partition's outbox holds goes to the logs of others.
//!
//! An entry is appended there first and removed here afterwards, so it may arrive twice, with the same source and number. The
//! receiver keeps for each source the number that comes next and drops what is below. That is enough as long as what arrives for
//! the first time arrives in order: whoever hands over starts with the oldest entry and, after a failure, starts again there; and
//! entries for one log are appended in order up to the first that fails.

use crate::domain::error::StoreError;
use crate::domain::error::needs_operator;
use crate::domain::event::{Derived, Source};
use crate::domain::keys::Partition;
use crate::log::{EntryKind, EventLog};
use crate::redis::store::Store;
use redis::Cmd;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "XRANGE {out} - +",
    "XTRIM {out} MINID 0-1",
    "XDEL {out} 0-1",
];

/// How many entries go at once.
const PAGE: usize = 1_000;

/// The places that did not answer, so that nobody waits for them again.
pub type UnavailableNodes = Mutex<BTreeSet<usize>>;

/// Empties the outbox of a partition, as far as those who are to get something are there: the others' part stays. False: the part
/// of those stays who are in a place that was `away` before.
///
/// # Errors
/// A log or the store did not answer, or refused. What was not removed is handed over again.
pub async fn forward<L: EventLog + Sync>(
    store: &Store,
    log: &L,
    partition: Partition,
    away: &UnavailableNodes,
) -> Result<bool, StoreError> {
    let (outbox, places) = (store.keys().outbox(partition), store.node_map());
    let mut failed = None;
    // Whose part stays: those to whom handing over failed, and from then on all who are in the same place. Later entries must
    // not arrive before those that stay.
    let mut left = BTreeSet::new();
    let mut from = "-".to_owned();
    loop {
        let page: Page = redis::cmd("XRANGE")
            .arg(&outbox)
            .arg(&[&from, "+", "COUNT"])
            .arg(PAGE)
            .query_async(&mut store.commands())
            .await?;
        let Some((last, _)) = page.last() else {
            break;
        };
        let (next, behind) = (format!("({last}"), number(last)?.saturating_add(1));
        let mut done: Vec<&str> = Vec::with_capacity(page.len());
        for (to, (ids, entries)) in by_log(partition, &page)? {
            let place = places.node_of(to);
            if left.contains(&to) || lock(away).contains(&place) {
                left.insert(to);
                continue;
            }
            match log.append(&BTreeMap::from([(to, entries)])).await {
                Ok(()) => done.extend(ids),
                Err(why) => {
                    left.insert(to);
                    // A log that is refused alone says nothing of the others there.
                    if matches!(&why, StoreError::Unavailable(why) if !needs_operator(why)) {
                        lock(away).insert(place);
                    }
                    failed = Some(why);
                }
            }
        }
        let remove = match left.is_empty() {
            true => trim(&outbox, behind),
            false => delete(&outbox, &done),
        };
        if let Some(remove) = remove {
            remove.exec_async(&mut store.commands()).await?;
        }
        if page.len() < PAGE {
            break;
        }
        from = next;
    }
    failed.map_or(Ok(left.is_empty()), Err)
}

fn lock(away: &UnavailableNodes) -> MutexGuard<'_, BTreeSet<usize>> {
    away.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Entries of an outbox, each with its id.
type Page = Vec<(String, HashMap<String, String>)>;
/// Ids of an outbox, and what is to be appended for them.
type PartitionPart<'a> = (Vec<&'a str>, Vec<(EntryKind, Vec<u8>)>);

/// What each log gets of a page.
fn by_log(
    from: Partition,
    page: &Page,
) -> Result<BTreeMap<Partition, PartitionPart<'_>>, StoreError> {
    let mut logs: BTreeMap<Partition, PartitionPart<'_>> = BTreeMap::new();
    for (id, fields) in page {
        let (to, derived) = entry(from, id, fields)?;
        let (ids, entries) = logs.entry(to).or_default();
        ids.push(id);
        entries.push((EntryKind::Derived, derived));
    }
    Ok(logs)
}

/// Removes all entries with smaller numbers.
fn trim(outbox: &str, behind: u64) -> Option<Cmd> {
    let mut cmd = redis::cmd("XTRIM");
    cmd.arg(outbox).arg("MINID").arg(format!("0-{behind}"));
    Some(cmd)
}

/// Removes some entries.
fn delete(outbox: &str, ids: &[&str]) -> Option<Cmd> {
    let mut cmd = redis::cmd("XDEL");
    cmd.arg(outbox).arg(ids);
    (!ids.is_empty()).then_some(cmd)
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
