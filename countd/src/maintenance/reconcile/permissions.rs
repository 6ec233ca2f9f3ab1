//! The permissions that reconciliation requires.

use super::{cards, command, compare, drift, keys, round, rows};
use crate::facts::cards_permissions;
use crate::redis::day_states;
use crate::redis::layout::record_permissions;
use crate::redis::permissions::Permissions;
use crate::redis::processes;
use crate::redis::script::CounterBackend;
use crate::repair::{append_permissions, check_now_permissions, lost_permissions};

/// The permissions of rounds and of the command, without those to count facts.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    let mut commands = [
        keys::PERMISSIONS,
        round::PERMISSIONS,
        drift::PERMISSIONS,
        command::PERMISSIONS,
    ]
    .concat();
    if backend.has_tables() {
        commands.extend(rows::PERMISSIONS);
    }
    Permissions::of_commands(&commands)
        .and(Permissions::of_commands(day_states::PERMISSIONS))
        .and(round::LEASE.required_permissions())
        .and(processes::required_permissions())
        .and(lost_permissions())
        .and(record_permissions())
}

/// The permissions to compare counters with the facts of a metric, or with its counts by day.
pub fn fact_permissions(backend: CounterBackend) -> Permissions {
    let mut permissions = cards_permissions(backend)
        .and(append_permissions(backend))
        .and(check_now_permissions(backend))
        .and(Permissions::of_commands(compare::DAY_PERMISSIONS));
    if backend.has_tables() {
        permissions = permissions
            .and(Permissions::of_commands(cards::PERMISSIONS))
            .and(Permissions::of_commands(compare::DAY_TABLE_PERMISSIONS));
    }
    permissions
}
