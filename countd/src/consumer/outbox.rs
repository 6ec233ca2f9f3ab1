//! Forwards the outbox of a partition to the logs of other partitions.
//!
//! An entry is appended to the target log first and removed from the outbox afterwards, so it can arrive twice, with the same
//! source and sequence number. The receiver keeps a fence for each source and drops entries below it. This requires that new
//! entries arrive in order. Forwarding therefore starts at the oldest entry, restarts there after a failure, and appends the
//! entries of a log in order, up to the first failure.

use crate::domain::error::StoreError;
use crate::domain::error::needs_operator;
use crate::domain::event::{Derived, Source};
use crate::domain::keys::Partition;
use crate::log::{EntryKind, EventLog};
use crate::redis::store::Store;
use redis::Cmd;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of outbox entries read at once.
const PAGE_SIZE: usize = 1_000;
/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "XRANGE {out} - +",
    "XTRIM {out} MINID 0-1",
    "XDEL {out} 0-1",
];

/// Nodes that did not reply. Later appends to them are skipped, to avoid another timeout.
pub type UnavailableNodes = Mutex<BTreeSet<usize>>;

/// Forwards the outbox of a partition. Entries whose delivery failed stay in the outbox.
///
/// Returns false if entries stay in the outbox because their node is in `unavailable`.
///
/// # Errors
/// The store is unavailable, or a log rejects an entry. Entries that remain in the outbox will be forwarded again.
pub async fn forward<L: EventLog + Sync>(
    store: &Store,
    log: &L,
    partition: Partition,
    unavailable: &UnavailableNodes,
) -> Result<bool, StoreError> {
    let (outbox, nodes) = (store.keys().outbox(partition), store.node_map());
    let mut failed = None;
    // Partitions whose delivery failed. Later entries for them are skipped as well, so that entries arrive in order.
    let mut undelivered = BTreeSet::new();
    let mut from = "-".to_owned();
    loop {
        // An entry that its own server could still lose must not be forwarded: its sequence number would be used again.
        let page: OutboxPage = redis::cmd("XRANGE")
            .arg(&outbox)
            .arg(&[&from, "+", "COUNT"])
            .arg(PAGE_SIZE)
            .query_async(&mut store.writes())
            .await?;
        let Some((last_id, _)) = page.last() else {
            break;
        };
        let (next_page, end) = (
            format!("({last_id}"),
            sequence_number(last_id)?.saturating_add(1),
        );
        let mut delivered: Vec<&str> = Vec::with_capacity(page.len());
        for (to, Delivery { ids, entries }) in deliveries(partition, &page)? {
            let node = nodes.node_of(to);
            if undelivered.contains(&to) || lock(unavailable).contains(&node) {
                undelivered.insert(to);
                continue;
            }
            match log.append(&BTreeMap::from([(to, entries)])).await {
                Ok(()) => delivered.extend(ids),
                Err(error) => {
                    undelivered.insert(to);
                    // A log that an operator has to repair says nothing about its node.
                    if matches!(&error, StoreError::Unavailable(error) if !needs_operator(error)) {
                        lock(unavailable).insert(node);
                    }
                    failed = Some(error);
                }
            }
        }
        let remove = match undelivered.is_empty() {
            true => Some(trim(&outbox, end)),
            false => (!delivered.is_empty()).then(|| delete(&outbox, &delivered)),
        };
        if let Some(remove) = remove {
            remove.exec_async(&mut store.commands()).await?;
        }
        if page.len() < PAGE_SIZE {
            break;
        }
        from = next_page;
    }
    failed.map_or(Ok(undelivered.is_empty()), Err)
}

fn lock(unavailable: &UnavailableNodes) -> MutexGuard<'_, BTreeSet<usize>> {
    unavailable.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Outbox entries: ids and fields.
type OutboxPage = Vec<(String, HashMap<String, String>)>;

/// Outbox entries for one log: their ids, and the entries to append for them.
#[derive(Default)]
struct Delivery<'a> {
    ids: Vec<&'a str>,
    entries: Vec<(EntryKind, Vec<u8>)>,
}

/// Groups a page by target partition.
fn deliveries(
    from: Partition,
    page: &OutboxPage,
) -> Result<BTreeMap<Partition, Delivery<'_>>, StoreError> {
    let mut deliveries: BTreeMap<Partition, Delivery<'_>> = BTreeMap::new();
    for (id, fields) in page {
        let (to, derived) = decode_outbox_entry(from, id, fields)?;
        let delivery = deliveries.entry(to).or_default();
        delivery.ids.push(id);
        delivery.entries.push((EntryKind::Derived, derived));
    }
    Ok(deliveries)
}

/// Removes the entries with smaller sequence numbers.
fn trim(outbox: &str, end: u64) -> Cmd {
    let mut cmd = redis::cmd("XTRIM");
    cmd.arg(outbox).arg("MINID").arg(format!("0-{end}"));
    cmd
}

fn delete(outbox: &str, ids: &[&str]) -> Cmd {
    let mut cmd = redis::cmd("XDEL");
    cmd.arg(outbox).arg(ids);
    cmd
}

fn invalid_entry() -> StoreError {
    StoreError::Unexpected("an outbox holds an entry that countd did not write".to_owned())
}

/// The sequence number of an outbox entry, which is the second part of its id.
fn sequence_number(id: &str) -> Result<u64, StoreError> {
    let number = id.strip_prefix("0-").and_then(|number| number.parse().ok());
    number.ok_or_else(invalid_entry)
}

/// The target partition of an outbox entry, and the derived event to append to its log.
fn decode_outbox_entry(
    from: Partition,
    id: &str,
    fields: &HashMap<String, String>,
) -> Result<(Partition, Vec<u8>), StoreError> {
    let to = fields
        .get("to")
        .and_then(|to| to.parse().ok())
        .ok_or_else(invalid_entry)?;
    let seq = sequence_number(id)?;
    let source = Some(Source { from, seq });
    let lists = ["adds", "revs", "sums", "checks"];
    let [adds, revs, sums, checks] = lists.map(|list| fields.get(list));
    if adds.or(revs).or(sums).or(checks).is_none() {
        return Err(invalid_entry());
    }
    let derived = Derived {
        source,
        adds: decode_list(adds)?,
        revs: decode_list(revs)?,
        sums: decode_list(sums)?,
        checks: decode_list(checks)?,
    };
    let payload = serde_json::to_vec(&derived).map_err(|_| invalid_entry())?;
    Ok((to, payload))
}

/// A list of an outbox entry, which may lack it.
fn decode_list<T: DeserializeOwned>(list: Option<&String>) -> Result<Vec<T>, StoreError> {
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    serde_json::from_str(list).map_err(|_| invalid_entry())
}
