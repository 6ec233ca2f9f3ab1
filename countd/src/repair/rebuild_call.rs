//! The calls of the scripts that rebuild and count.

use super::comparison::Comparison;
use super::rebuild::Shared;
use crate::domain::changes::ChangedEntities;
use crate::domain::config::USER;
use crate::domain::event::{Cause, Check, Journal, NewAuthor, now_ms};
use crate::domain::ids::{Entity, Invalid, Name};
use crate::domain::split::base_of;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{
    AUDIT, CHANGES, CounterBackend, DAY_COUNTS, DAY_NUMBERS, SOURCES, ScriptTemplate,
};

/// Compares the counters of an entity with what they are computed from.
const EXPECTED: &str = include_str!("../lua/expected.lua");
static REBUILD: ScriptTemplate = ScriptTemplate::writing(&[
    AUDIT,
    CHANGES,
    SOURCES,
    DAY_COUNTS,
    DAY_NUMBERS,
    EXPECTED,
    include_str!("../lua/rebuild.lua"),
]);

static READ: ScriptTemplate = ScriptTemplate::reading(&[
    SOURCES,
    DAY_COUNTS,
    DAY_NUMBERS,
    EXPECTED,
    include_str!("../lua/expected_read.lua"),
]);

impl Shared {
    /// The permissions that the calls require.
    pub(super) fn script_permissions(backend: CounterBackend) -> Permissions {
        let rebuild = REBUILD.required_permissions(backend);
        rebuild.and(READ.required_permissions(backend))
    }

    /// The call that counts, and changes nothing.
    pub(super) fn count_call(&self, of: &Comparison) -> RedisCall {
        let script = READ.on(self.store.backend());
        let mut call = RedisCall::script(script, &of.keys);
        call.cmd.arg(&of.arguments);
        call
    }

    /// The call that rebuilds. `is_recorded`: the table is recorded as lost, or need not be. Otherwise a lost table stays as it is.
    pub(super) fn rebuild_call(
        &self,
        entity: &Entity,
        of: &Comparison,
        is_recorded: bool,
        trace_id: &str,
    ) -> RedisCall {
        let keys = self.store.keys();
        let partition = self.home(entity);
        let is_user = entity.etype.as_str() == USER;
        let lock = match is_user {
            true => keys.user_rebuild_lock(&entity.eid),
            false => keys.rebuild_lock(entity),
        };
        let mut all = of.keys.clone();
        all.extend([lock, keys.audit(partition)]);
        let changes = &self.catalog.config.changes;
        let mut content = String::new();
        if changes.enabled {
            all.push(keys.changes(partition));
            let mut changed = ChangedEntities::default();
            match is_user {
                true => changed.add_user(&entity.eid),
                false => changed.add(&base_of(entity)),
            }
            content = changed.contents().concat();
        }
        let feeds_author = of.fields.iter().any(|field| field.feeds_author);
        let entry = match (self.store.layout().journals(), feeds_author) {
            (true, _) => Journal::of_changes(entity, Cause::Repair, now_ms()),
            (false, true) => NewAuthor::unchanged(entity).to_json(),
            (false, false) => String::new(),
        };
        let mut call = RedisCall::script(REBUILD.on(self.store.backend()), &all);
        call.cmd.arg(&of.arguments);
        call.cmd.arg(format!("{:016x}", fastrand::u64(..)));
        call.cmd.arg(entry);
        call.cmd
            .arg(self.catalog.config.audit.retain_per_stream(keys));
        call.cmd.arg(changes.retain_per_stream(keys)).arg(content);
        call.cmd.arg(check_entry(entity, trace_id));
        call.cmd.arg(u8::from(is_recorded));
        let (row, ts) = (of.counters.at.row(), now_ms().to_string());
        let row = row.map(|row| row.to_string());
        let details = [
            ("source", "rebuild"),
            ("etype", entity.etype.as_str()),
            ("eid", entity.eid.as_str()),
            ("key", of.counters.at.key()),
            ("round", "0"),
            ("row", row.as_deref().unwrap_or_default()),
            ("traceId", trace_id),
            ("ts", &ts),
        ];
        for (field, value) in details {
            if !value.is_empty() {
                call.cmd.arg(field).arg(value);
            }
        }
        call
    }
}

/// The beginning of the entry that checks counters whose events wait in the log. Empty only if the name of the source is invalid.
fn check_entry(entity: &Entity, trace_id: &str) -> String {
    check_of(entity, trace_id).map_or_else(|_| String::new(), |check| check.to_json_head())
}

/// A check of an entity or a user, without counters.
///
/// # Errors
/// The name of the source is invalid.
pub(super) fn check_of(entity: &Entity, trace_id: &str) -> Result<Check, Invalid> {
    Ok(Check {
        trace_id: (!trace_id.is_empty()).then(|| trace_id.to_owned()),
        ..Check::exact(entity, Name::new("rebuild")?)
    })
}
