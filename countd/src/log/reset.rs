//! `countd log reset`: restarts a partition whose position does not match its log at a new position.

use super::foreign_ids::renumber;
use super::inspect::{LogState, PartitionState, inspect};
use super::offset::{COPY_LIMIT, MAX_GAP, MAX_OFFSET};
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::keys::Partition;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::str::FromStr;
use std::sync::LazyLock;

pub(super) static RESET: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../lua/log_reset.lua")));

/// Which entries of a log have not been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// All existing entries.
    All,
    /// No entry.
    None,
    /// The entries from this offset on.
    From(u64),
}

impl FromStr for Uncounted {
    type Err = String;

    fn from_str(text: &str) -> Result<Uncounted, String> {
        match text {
            "all" => Ok(Uncounted::All),
            "none" => Ok(Uncounted::None),
            offset => offset
                .parse()
                .map(Uncounted::From)
                .map_err(|_| "`all`, `none` or an offset".to_owned()),
        }
    }
}

impl Uncounted {
    /// The argument of the script.
    fn argument(self) -> String {
        match self {
            Uncounted::All => "all".to_owned(),
            Uncounted::None => "none".to_owned(),
            Uncounted::From(offset) => format!("0-{offset}"),
        }
    }
}

/// Why a partition was not reset.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// The position matches the log.
    #[error("partition {0} is healthy: there is nothing to reset")]
    Healthy(Partition),
    /// Consumers repair the log by themselves.
    #[error("partition {0} is repaired by the consumers: there is nothing to reset")]
    Disordered(Partition),
    /// A key holds another type and has to be renamed or deleted first.
    #[error("partition {0}: {1}: rename or delete that key first")]
    Key(Partition, String),
    /// The store is unavailable, or rejects the command.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A planned reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetPlan {
    /// The state of the partition.
    pub state: PartitionState,
    /// The new position.
    pub position: u64,
}

impl ResetPlan {
    /// The position until now, which may be damaged. `None` if there is none.
    pub fn former_position(&self) -> Option<String> {
        let stored = self.state.stored.as_deref().map(String::from_utf8_lossy);
        stored.map(|stored| stored.into_owned())
    }
}

/// Plans the reset of a partition.
///
/// # Errors
/// The partition does not need a reset, or cannot be reset.
pub async fn plan(store: &Store, partition: Partition) -> Result<ResetPlan, ResetError> {
    let mut inspection = inspect(store, &[partition]).await;
    let Some(state) = inspection.states.remove(&partition) else {
        let unknown = || StoreError::Unexpected("no state of the partition".to_owned());
        return Err(inspection.error.unwrap_or_else(unknown).into());
    };
    match (state.log_state(), &state.end) {
        (LogState::Healthy(_), _) => Err(ResetError::Healthy(partition)),
        (LogState::Disordered, _) => Err(ResetError::Disordered(partition)),
        (LogState::Failed(error) | LogState::Restarted(error), Err(_)) => {
            Err(ResetError::Key(partition, error))
        }
        // The key of the positions holds another type.
        (LogState::Failed(error), _) if state.position.is_err() && state.stored.is_none() => {
            Err(ResetError::Key(partition, error))
        }
        (LogState::Failed(_) | LogState::Restarted(_), Ok(end)) => {
            let position = new_position(state.position.as_ref().ok().copied(), end.last);
            Ok(ResetPlan { state, position })
        }
    }
}

/// A position that no consumer has used: beyond the old position and the end of the log. If these leave no room, it is the time in
/// milliseconds, because no log has had that many entries.
fn new_position(position: Option<u64>, (ms, seq): (u64, u64)) -> u64 {
    let fits = |offset: &u64| *offset <= MAX_OFFSET - MAX_GAP;
    let time = position.filter(fits).is_none().then(now_ms);
    let end = (ms == 0).then(|| seq.saturating_add(1));
    let candidates = [position, end, time].into_iter().flatten();
    candidates.filter(fits).max().unwrap_or(1)
}

/// Resets a partition: the uncounted entries of its log get the offsets from the new position on, and all others are deleted.
/// Returns the new position and the number of uncounted entries. `on_left` is called with the number of entries of the log that are left, until it is 0.
///
/// # Errors
/// See [`plan`]; or the position has changed since it was planned.
pub async fn reset(
    store: &Store,
    plan: &ResetPlan,
    uncounted: Uncounted,
    mut on_left: impl FnMut(u64),
) -> Result<(u64, u64), ResetError> {
    let keys = store.keys();
    let partition = plan.state.partition;
    // The log may only look restarted, if another client has set its last ID.
    let has_restarted = matches!(plan.state.log_state(), LogState::Restarted(_));
    if has_restarted && renumber(store, partition).await.is_ok() {
        return Err(ResetError::Disordered(partition));
    }
    let mut total = 0;
    loop {
        let mut call = RESET.script.key(keys.log(partition));
        call.key(keys.reset_log(partition));
        call.key(keys.position(partition));
        call.key(keys.new_log(partition));
        call.arg(partition).arg(COPY_LIMIT);
        call.arg(plan.state.stored.as_deref().unwrap_or_default());
        call.arg(plan.position);
        call.arg(uncounted.argument());
        call.arg(u8::from(store.layout().has_topic));
        let (moved, left, position): (u64, u64, String) = call
            .invoke_async(&mut store.commands())
            .await
            .map_err(StoreError::from)?;
        total += moved;
        on_left(left);
        if left == 0 {
            return Ok((position.parse().unwrap_or(plan.position), total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_position_is_beyond_the_old_one_and_the_log() {
        assert_eq!(new_position(Some(51), (0, 3)), 51);
        assert_eq!(new_position(Some(51), (u64::MAX, 1)), 51);
        assert_eq!(new_position(Some(51), (0, 90)), 91);
        for exhausted in [Some(1 << 53), None] {
            let position = new_position(exhausted, (0, 3));
            assert!((1 << 40..1 << 43).contains(&position), "{position}");
        }
    }

    #[test]
    fn uncounted_entries_are_parsed() {
        assert_eq!("all".parse(), Ok(Uncounted::All));
        assert_eq!("none".parse(), Ok(Uncounted::None));
        assert_eq!("17".parse(), Ok(Uncounted::From(17)));
        assert!("-1".parse::<Uncounted>().is_err() && "".parse::<Uncounted>().is_err());
    }
}
