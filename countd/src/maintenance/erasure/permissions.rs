//! The permissions that erasing requires, in addition to those of actions, of facts, of authors and of the log.

use super::{counters, drain, latest, notes, read_streams, sweep, traces, uncounted};
use crate::facts::SplitFacts;
use crate::log::{operator_permissions, published};
use crate::redis::permissions::Permissions;
use crate::redis::run_id;
use crate::redis::script::CounterBackend;

/// The permissions to erase entities and users.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    let commands = [
        drain::PERMISSIONS,
        sweep::PERMISSIONS,
        notes::PERMISSIONS,
        read_streams::PERMISSIONS,
        run_id::PERMISSIONS,
        traces::PERMISSIONS,
        uncounted::PERMISSIONS,
    ]
    .concat();
    Permissions::of_commands(&commands)
        .and(counters::ENTITY.required_permissions(backend))
        .and(counters::FORGET_AUTHOR.required_permissions(backend))
        .and(counters::USER_COUNTERS.required_permissions(backend))
        .and(notes::SUMS.required_permissions(backend))
        .and(sweep::AUTHORED_BY.required_permissions(backend))
        .and(latest::required_permissions(backend))
        .and(traces::REDACT.required_permissions())
        .and(operator_permissions())
        .and(published::confirm_permissions())
}

/// The permissions to erase users of split entities.
pub fn split_permissions(backend: CounterBackend) -> Permissions {
    SplitFacts::leave_permissions(backend)
}
