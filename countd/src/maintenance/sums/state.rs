//! The stage of a sweep in each slot.

use super::sweep::{COMPARED, ENDED, SumSweep};
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, SUMS_STATE, ScriptTemplate};
use crate::redis::store::Store;
use redis::FromRedisValue;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["HMGET {sums} f", "HSET {sums} f v"];

static ADVANCE: ScriptTemplate =
    ScriptTemplate::writing(&[SUMS_STATE, include_str!("../../lua/sums_advance.lua")]);

pub(super) fn required_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(ADVANCE.required_permissions(backend))
}

/// The sweep over authors and the comparison of followers, as processes have saved them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedSums {
    /// The number of the sweep over authors; 0 before the first one.
    pub sweep: u64,
    /// Whether it runs.
    pub is_running: bool,
    /// When the last sweep over authors ended, in milliseconds since 1970.
    pub ended: Option<u64>,
    /// When the last comparison of followers ended, in milliseconds since 1970.
    pub followers_ended: Option<u64>,
}

/// Reads what processes have saved.
///
/// # Errors
/// The store is unavailable.
pub async fn saved_sums(store: &Store) -> Result<SavedSums, StoreError> {
    let mut hmget = redis::cmd("HMGET");
    hmget.arg(store.keys().sums_state(0));
    hmget.arg(&["sweep", "stage", "ended", "users:ended"]);
    type State = (Option<u64>, Option<u64>, Option<u64>, Option<u64>);
    let (sweep, stage, ended, users): State = hmget.query_async(&mut store.reads()).await?;
    Ok(SavedSums {
        sweep: sweep.unwrap_or(0),
        is_running: stage.is_some_and(|stage| stage != ENDED),
        ended: ended.filter(|ended| *ended > 0),
        followers_ended: users,
    })
}

/// The number of a sweep, and its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stage {
    pub sweep: u64,
    pub stage: u64,
}

impl SumSweep {
    /// A partition of each slot.
    pub(super) fn slots(&self) -> std::ops::Range<Partition> {
        let keys = self.store.keys();
        0..if keys.tagged() { keys.partitions() } else { 1 }
    }

    /// The stage of the slot that is behind. If the slots do not belong to one sweep, because one has lost its state, or if sums were damaged,
    /// the sweep is given up: nothing is compared any more.
    pub(super) async fn current_stage(&self) -> Result<Stage, StoreError> {
        let keys = self.store.keys();
        let mut pipeline = redis::pipe();
        for partition in self.slots() {
            let hmget = pipeline.cmd("HMGET").arg(keys.sums_state(partition));
            hmget.arg(&["sweep", "stage", "damaged"]);
        }
        type State = (Option<u64>, Option<u64>, Option<u64>);
        let states: Vec<State> = pipeline.query_async(&mut self.store.reads()).await?;
        let stages = states.iter().map(|(sweep, stage, _)| Stage {
            sweep: sweep.unwrap_or(0),
            stage: stage.unwrap_or(ENDED),
        });
        let stages: Vec<Stage> = stages.collect();
        let (Some(first), Some(last)) = (stages.iter().min(), stages.iter().max()) else {
            return Err(StoreError::Unexpected("there are no slots".to_owned()));
        };
        let is_next = last.sweep == first.sweep && last.stage <= first.stage + 1
            || last.sweep == first.sweep + 1 && last.stage == 1 && first.stage == ENDED;
        let is_damaged = states
            .iter()
            .any(|(sweep, _, damaged)| damaged.is_some() && sweep == damaged);
        if is_next && !(is_damaged && first.stage < COMPARED) {
            return Ok(*first);
        }
        if last.sweep == first.sweep && first.stage >= COMPARED {
            return Ok(*first);
        }
        tracing::warn!(
            sweep = last.sweep,
            "a sweep over authors is given up: a slot has lost its state, or sums hold another type"
        );
        for partition in self.slots() {
            self.advance_slot(partition, last.sweep, (COMPARED, true))
                .await?;
        }
        Ok(Stage {
            sweep: last.sweep,
            stage: COMPARED,
        })
    }

    /// When the last sweep ended, in milliseconds since 1970. `None` while a sweep runs, and before the first one.
    pub(super) async fn last_end(&self) -> Result<Option<u64>, StoreError> {
        let mut hmget = redis::cmd("HMGET");
        hmget
            .arg(self.store.keys().sums_state(0))
            .arg(&["stage", "ended"]);
        let (stage, ended): (Option<u64>, Option<u64>) =
            hmget.query_async(&mut self.store.reads()).await?;
        Ok(ended.filter(|_| stage == Some(ENDED)))
    }

    /// When the last sweep over authors and the last comparison of facts on users ended. `None` also if the next one was made due at once.
    pub(super) async fn ends(&self) -> Result<(Option<u64>, Option<u64>), StoreError> {
        let mut hmget = redis::cmd("HMGET");
        hmget.arg(self.store.keys().sums_state(0));
        hmget.arg(&["ended", "users:ended"]);
        let (authors, users): (Option<u64>, Option<u64>) =
            hmget.query_async(&mut self.store.reads()).await?;
        Ok((authors.filter(|ended| *ended > 0), users))
    }

    /// Makes the next sweep due at once.
    pub(super) async fn forget_end(&self) -> Result<(), StoreError> {
        let mut hset = redis::cmd("HSET");
        hset.arg(self.store.keys().sums_state(0));
        hset.arg("ended").arg(0);
        Ok(hset.exec_async(&mut self.store.commands()).await?)
    }

    /// The number of the next comparison of facts on users. `None` if the last one ended less than `pause` milliseconds ago.
    pub(super) async fn next_followers_round(&self, pause: u64) -> Result<Option<u64>, StoreError> {
        let mut hmget = redis::cmd("HMGET");
        let fields = ["users:round", "users:ended"];
        hmget.arg(self.store.keys().sums_state(0)).arg(&fields);
        let (round, ended): (Option<u64>, Option<u64>) =
            hmget.query_async(&mut self.store.reads()).await?;
        let is_due = ended.is_none_or(|ended| now_ms() >= ended.saturating_add(pause));
        Ok(is_due.then(|| round.unwrap_or(0) + 1))
    }

    /// Records the end of a comparison of facts on users.
    pub(super) async fn end_followers_round(&self, round: u64) -> Result<(), StoreError> {
        let mut hset = redis::cmd("HSET");
        hset.arg(self.store.keys().sums_state(0));
        hset.arg("users:round").arg(round);
        hset.arg("users:ended").arg(now_ms());
        Ok(hset.exec_async(&mut self.store.commands()).await?)
    }

    /// Enters a stage in all slots that are in the one before.
    pub(super) async fn advance(&self, sweep: u64, stage: u64) -> Result<(), StoreError> {
        for partition in self.slots() {
            self.advance_slot(partition, sweep, (stage, false)).await?;
        }
        Ok(())
    }

    async fn advance_slot(
        &self,
        partition: Partition,
        sweep: u64,
        (stage, is_forced): (u64, bool),
    ) -> Result<(), StoreError> {
        let layout = self.store.keys();
        let of_slot = match layout.tagged() {
            true => partition..partition + 1,
            false => 0..layout.partitions(),
        };
        let mut keys = vec![layout.sums_state(partition)];
        keys.extend(of_slot.flat_map(|of| [layout.sum_table(of), layout.sum_hash(of)]));
        let mut call = RedisCall::script(ADVANCE.on(self.store.backend()), &keys);
        call.cmd
            .arg(sweep)
            .arg(stage)
            .arg(u8::from(is_forced))
            .arg(now_ms());
        let reply = call.send(&self.store).await?;
        let reached = <(u64, u64)>::from_redis_value(reply)
            .map_err(|error| StoreError::Unexpected(format!("the stage of a sweep: {error}")))?;
        tracing::debug!(partition, sweep, stage, ?reached, "sweep over authors");
        Ok(())
    }
}
