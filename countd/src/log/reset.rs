//! `countd log reset`: a partition whose position does not fit its log goes on from a new position.

use super::inspect::{PartitionState, State, inspect};
use super::renumber::{AT_ONCE, MAX_GAP, MAX_OFFSET, renumber};
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::keys::Partition;
use crate::redis::script::script;
use crate::redis::store::Store;
use redis::Script;
use std::str::FromStr;
use std::sync::LazyLock;

static RESET: LazyLock<Script> =
    LazyLock::new(|| Script::new(&script(include_str!("../lua/log_reset.lua"))));

/// The entries of a log that have not been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// All that are there.
    All,
    /// None.
    None,
    /// Those from this offset on.
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
    /// What the script takes it as.
    fn word(self) -> String {
        match self {
            Uncounted::All => "all".to_owned(),
            Uncounted::None => "none".to_owned(),
            Uncounted::From(offset) => format!("0-{offset}"),
        }
    }
}

/// Why a partition is not reset.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// Its log and its position fit.
    #[error("partition {0} is sound: there is nothing to reset")]
    Sound(Partition),
    /// Consumers do it by themselves.
    #[error("partition {0} is put in order by the consumers: there is nothing to reset")]
    Disordered(Partition),
    /// A key holds another type, which has to go first.
    #[error("partition {0}: {1}: rename or delete that key first")]
    Key(Partition, String),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a reset does, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetPlan {
    /// What was found.
    pub found: PartitionState,
    /// The position from which the partition goes on.
    pub position: u64,
}

/// Says what a reset would do.
///
/// # Errors
/// It would do nothing, or cannot be done.
pub async fn plan(store: &Store, partition: Partition) -> Result<ResetPlan, ResetError> {
    let mut inspection = inspect(store, &[partition]).await;
    let Some(found) = inspection.found.remove(&partition) else {
        let unknown = || StoreError::Unexpected("nothing is known of it".to_owned());
        return Err(inspection.unknown.unwrap_or_else(unknown).into());
    };
    match (found.state(), &found.end) {
        (State::Sound(_), _) => Err(ResetError::Sound(partition)),
        (State::Disordered, _) => Err(ResetError::Disordered(partition)),
        (State::FailedPartition(why) | State::Restarted(why), Err(_)) => {
            Err(ResetError::Key(partition, why))
        }
        // The hash itself holds another type.
        (State::FailedPartition(why), _) if found.position.is_err() && found.stored.is_none() => {
            Err(ResetError::Key(partition, why))
        }
        (State::FailedPartition(_) | State::Restarted(_), Ok(end)) => {
            let position = new_position(found.position.as_ref().ok().copied(), end.last);
            Ok(ResetPlan { found, position })
        }
    }
}

/// A position that no consumer can have had: beyond the old one and the log's end, where these can be gone beyond, or else the
/// time in milliseconds, since no log has had as many entries.
fn new_position(position: Option<u64>, (ms, seq): (u64, u64)) -> u64 {
    let fits = |offset: &u64| *offset <= MAX_OFFSET - MAX_GAP;
    let time = position.filter(fits).is_none().then(now_ms);
    let end = (ms == 0).then(|| seq.saturating_add(1));
    let all = [position, end, time].into_iter().flatten();
    all.filter(fits).max().unwrap_or(1)
}

/// Resets a partition: the uncounted entries of its log get the offsets from a new position on, all others are removed, and
/// counting goes on there. Returns the new position, and how many entries are to be counted.
///
/// # Errors
/// As [`plan`]; or the position has changed meanwhile.
pub async fn reset(
    store: &Store,
    plan: &ResetPlan,
    uncounted: Uncounted,
) -> Result<(u64, u64), ResetError> {
    let keys = store.keys();
    let partition = plan.found.partition;
    // The log may be a sound one of which another client has set the last ID.
    let has_restarted = matches!(plan.found.state(), State::Restarted(_));
    if has_restarted && renumber(store, partition).await.is_ok() {
        return Err(ResetError::Disordered(partition));
    }
    let mut all = 0;
    loop {
        let mut call = RESET.key(keys.log(partition));
        call.key(keys.reset_log(partition));
        call.key(keys.position(partition));
        call.key(keys.new_log(partition));
        call.arg(partition).arg(AT_ONCE);
        call.arg(plan.found.stored.as_deref().unwrap_or_default());
        call.arg(plan.position);
        call.arg(uncounted.word());
        let (moved, goes_on, position): (u64, bool, String) = call
            .invoke_async(&mut store.commands())
            .await
            .map_err(StoreError::from)?;
        all += moved;
        if !goes_on {
            return Ok((position.parse().unwrap_or(plan.position), all));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_position_is_beyond_all_that_was_there() {
        assert_eq!(new_position(Some(51), (0, 3)), 51);
        assert_eq!(new_position(Some(51), (u64::MAX, 1)), 51);
        assert_eq!(new_position(Some(51), (0, 90)), 91);
        for used_up in [Some(1 << 53), None] {
            let position = new_position(used_up, (0, 3));
            assert!((1 << 40..1 << 43).contains(&position), "{position}");
        }
    }

    #[test]
    fn uncounted_entries_are_named() {
        assert_eq!("all".parse(), Ok(Uncounted::All));
        assert_eq!("none".parse(), Ok(Uncounted::None));
        assert_eq!("17".parse(), Ok(Uncounted::From(17)));
        assert!("-1".parse::<Uncounted>().is_err() && "".parse::<Uncounted>().is_err());
    }
}
