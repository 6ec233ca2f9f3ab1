//! The actions that wait for others like them: while an action is executed, equal actions of other users on the same entity wait, and
//! are then executed together. An action never waits for others that have not arrived yet.

use super::action::ActionOutcome;
use super::grouped::GroupKey;
use super::prepared::PreparedAction;
use crate::domain::error::Problem;
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// The maximum number of actions in a group. Its event has at most 2 KB.
const MAX_GROUP: usize = 64;

/// The outcome of an action.
pub(super) type Outcome = Result<ActionOutcome, Problem>;

/// An action that waits, and where its outcome is sent.
pub(super) struct Waiting {
    pub action: PreparedAction,
    pub sender: oneshot::Sender<Outcome>,
}

type ByKey = HashMap<GroupKey, Vec<Waiting>>;

/// The queues of actions behind those in flight. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Groups(Arc<Mutex<ByKey>>);

/// What becomes of an action that arrives.
#[allow(
    clippy::large_enum_variant,
    reason = "it exists for a moment, and boxing the action would cost an allocation"
)]
pub(super) enum Arrival {
    /// No action like it is in progress: it is executed at once.
    First(PreparedAction),
    /// It waits for its outcome.
    Waits(oneshot::Receiver<Outcome>),
}

impl Groups {
    fn with<T>(&self, change: impl FnOnce(&mut ByKey) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets an action wait if one like it is in progress. Otherwise the caller executes it, and then calls [`next`](Self::next).
    pub(super) fn arrive(&self, key: &GroupKey, action: PreparedAction) -> Arrival {
        self.with(|groups| {
            if let Some(waiting) = groups.get_mut(key) {
                let (sender, receiver) = oneshot::channel();
                waiting.push(Waiting { action, sender });
                return Arrival::Waits(receiver);
            }
            groups.insert(key.clone(), Vec::new());
            Arrival::First(action)
        })
    }

    /// The next actions that wait. If there are none, no action is in progress any more.
    pub(super) fn next(&self, key: &GroupKey) -> Vec<Waiting> {
        self.with(|groups| {
            let Some(waiting) = groups.get_mut(key) else {
                return Vec::new();
            };
            if waiting.is_empty() {
                groups.remove(key);
                return Vec::new();
            }
            let rest = waiting.split_off(waiting.len().min(MAX_GROUP));
            std::mem::replace(waiting, rest)
        })
    }
}
