//! An action that can be executed together with others like it.

use crate::domain::event::Event;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::op::Op;
use crate::facts::CounterField;

/// What the actions of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    pub metric: Name,
    pub entity: Entity,
    pub op: Op,
    schema: Option<Name>,
    /// The author that the events name.
    author: Option<Id>,
}

/// An action that can be executed in a group: its command is not a script.
pub(super) struct GroupedAction {
    pub key: GroupKey,
    pub event: Event,
    pub counter: CounterField,
}

impl GroupedAction {
    /// An action with its event and its counter. `None` if a migration moves the counter.
    pub fn of(op: Op, event: &Event, counter: &CounterField) -> Option<GroupedAction> {
        counter.at.moving().is_none().then(|| GroupedAction {
            key: GroupKey {
                metric: event.metric.clone(),
                entity: event.entity.clone(),
                op,
                schema: event.schema.clone(),
                author: event.author.clone(),
            },
            event: event.clone(),
            counter: counter.clone(),
        })
    }
}
