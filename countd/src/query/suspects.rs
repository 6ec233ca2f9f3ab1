//! Counters that may be lost: keys of another type, and counters of 0 of entities with facts. They are rebuilt when they are read.

use super::fields::Fields;
use crate::domain::error::StoreError;
use crate::domain::ids::Entity;
use crate::repair::Rebuilder;
use futures_util::future::join_all;

/// The number of entities of a page that are rebuilt at once.
const CONCURRENCY: usize = 16;

/// Rebuilds those counters of a page that were lost. If that fails, they stay as they were read.
pub(super) async fn rebuild_lost(
    rebuilder: &Rebuilder,
    entities: &[&Entity],
    page: &mut [Result<Fields, StoreError>],
) {
    let (mut lost, mut zeros) = (Vec::new(), Vec::new());
    for (at, fields) in page.iter().enumerate() {
        match fields {
            Err(StoreError::WrongType(_)) => lost.push(at),
            Ok(fields) if fields.iter().all(|count| *count == 0) => zeros.push(at),
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
    for lost in lost.chunks(CONCURRENCY) {
        let rebuilds = lost.iter().map(|at| rebuilder.entity(entities[*at], ""));
        for (at, rebuilt) in lost.iter().zip(join_all(rebuilds).await) {
            if let Some(values) = rebuilt {
                page[*at] = Ok(values.to_vec());
            }
        }
    }
}
