//! Counters that may be lost: keys of another type, objects that are too short, and counters of 0 of entities with facts. They are rebuilt
//! when they are read.

use super::field_values::{Fields, Length};
use super::fields::{CountersToRead, read_fields};
use crate::domain::error::StoreError;
use crate::domain::ids::Entity;
use crate::redis::store::Store;
use crate::repair::{Rebuilder, SuspectObject};
use futures_util::future::join_all;

/// The number of entities of a page that are rebuilt at once.
const CONCURRENCY: usize = 16;

/// Rebuilds those counters of a page that were lost, for a request with this trace ID. If that fails, they stay as they were read.
pub(super) async fn rebuild_lost(
    (store, rebuilder): (&Store, &Rebuilder),
    (entities, counters): (&[&Entity], &[CountersToRead]),
    page: &mut [Result<Fields, StoreError>],
    trace_id: &str,
) {
    let (mut lost, mut zeros, mut objects) = (Vec::new(), Vec::new(), Vec::new());
    for (at, fields) in page.iter().enumerate() {
        match fields {
            Err(StoreError::WrongType(_)) => lost.push(at),
            Ok(fields) if fields.length == Length::TooShort => lost.push(at),
            Ok(fields) if fields.iter().all(|count| *count == 0) => zeros.push(at),
            Ok(fields) if fields.length == Length::Unknown => objects.push(at),
            Ok(_) | Err(_) => {}
        }
    }
    if !zeros.is_empty() {
        let of_zeros: Vec<&Entity> = zeros.iter().map(|at| entities[*at]).collect();
        match rebuilder.have_facts(&of_zeros).await {
            Ok(have_facts) => {
                let zeros = zeros.into_iter().zip(have_facts);
                lost.extend(zeros.filter_map(|(at, has_facts)| has_facts.then_some(at)));
            }
            Err(error) => tracing::warn!(%error, "counters of 0 cannot be verified now"),
        }
    }
    if store.reads_from_replicas() && !lost.is_empty() {
        let suspects = std::mem::take(&mut lost);
        read_again(store, &suspects, counters, page).await;
        for at in suspects {
            match &page[at] {
                // The primary has not lost them: the replica did not have them yet.
                Ok(fields) if is_complete(fields) => {
                    if fields.length == Length::Unknown {
                        objects.push(at);
                    }
                }
                _ => lost.push(at),
            }
        }
    }
    if !objects.is_empty() {
        let suspects = objects.iter().map(|at| SuspectObject {
            entity: entities[*at],
            key: counters[*at].at.key(),
            min_len: counters[*at].min_len,
        });
        let suspects: Vec<SuspectObject<'_>> = suspects.collect();
        match rebuilder.too_short(&suspects).await {
            Ok(too_short) => {
                let objects = objects.into_iter().zip(too_short);
                lost.extend(objects.filter_map(|(at, is_short)| is_short.then_some(at)));
            }
            Err(error) => tracing::warn!(%error, "lengths of objects cannot be verified now"),
        }
    }
    for lost in lost.chunks(CONCURRENCY) {
        let rebuilds = lost
            .iter()
            .map(|at| rebuilder.entity(entities[*at], trace_id));
        for (at, rebuilt) in lost.iter().zip(join_all(rebuilds).await) {
            if let Some(values) = rebuilt {
                page[*at] = Ok(values.to_vec().into());
            }
        }
    }
}

/// Whether the counters are neither 0 nor known to be too short.
fn is_complete(fields: &Fields) -> bool {
    fields.length != Length::TooShort && fields.iter().any(|count| *count > 0)
}

/// Replaces these counters of a page by those of the primaries. If that fails, they stay as they were read.
async fn read_again(
    store: &Store,
    suspects: &[usize],
    counters: &[CountersToRead],
    page: &mut [Result<Fields, StoreError>],
) {
    let to_read = suspects.iter().map(|at| counters[*at].clone());
    let to_read: Vec<CountersToRead> = to_read.collect();
    match read_fields(store, &to_read).await {
        Ok(current) => {
            for (at, fields) in suspects.iter().zip(current) {
                page[*at] = fields;
            }
        }
        Err(error) => tracing::warn!(%error, "counters of a replica cannot be verified now"),
    }
}
