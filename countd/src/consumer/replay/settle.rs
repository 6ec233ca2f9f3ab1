//! Changes of counters of users that no event made. They are settled at the end.

use super::state::Replay;
use crate::consumer::decoder::{DecodedEntry, decode};
use crate::consumer::schemas::load_user_schema;
use crate::domain::config::{BUILT_IN_COUNTERS, USER};
use crate::domain::error::Problem;
use crate::domain::event::Cause;
use crate::domain::ids::{Id, Name};
use crate::domain::progress::{Progress, Update};
use crate::facts::{CounterField, counter_call};
use crate::log::EntryKind;
use crate::log::archive::{Outcome, Record};
use crate::redis::script::ScriptTemplate;
use std::collections::BTreeMap;

/// Applies changes of counters of users.
pub(super) static SETTLE: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/journal_settle.lua")]).with_counters();

impl Replay {
    /// Adds what these records say of the counters of users that changed without an event.
    pub fn add_differences(&self, records: &[Record], differences: &mut BTreeMap<(Id, Name), i64>) {
        for record in records {
            let is_journal = record.entry.kind == EntryKind::Journal;
            if !is_journal
                || record.outcome != Outcome::Counted
                || !self.is_later(record.partition, &record.entry)
            {
                continue;
            }
            if let DecodedEntry::Journal(journal) = decode(&record.entry)
                && journal.etype.as_str() == USER
                && journal.why != Cause::Repair
            {
                for (counter, delta) in journal.changes {
                    *differences
                        .entry((journal.eid.clone(), counter))
                        .or_default() += delta;
                }
            }
        }
    }

    /// Adds differences to the counters of users, each once, also if it is called again.
    ///
    /// # Errors
    /// Redis failed, or there is no such counter.
    pub async fn settle(
        &self,
        differences: &BTreeMap<(Id, Name), i64>,
        progress: &dyn Progress,
    ) -> Result<(), Problem> {
        let schema = load_user_schema(&self.catalog, &[]).await?;
        for (((uid, name), difference), count) in differences.iter().zip(1..) {
            let stored = schema.index_of(name.as_str());
            let configured = || Some(self.catalog.config.users.counter(name)?.index().into());
            let Some(idx) = stored.or_else(configured) else {
                return Err(Problem::UnknownCounter(name.to_string()));
            };
            let counter = CounterField {
                at: self.locator.user(uid),
                idx,
                len: schema.len(),
                min_len: BUILT_IN_COUNTERS.len(),
                verify: false,
            };
            let settled = self.store.keys().settled(self.store.keys().of_user(uid));
            let keys = [counter.at.key(), &settled];
            let script = (&SETTLE, self.store.backend());
            let call = counter_call(script, &keys, (Some(&counter), 0, None), |cmd| {
                cmd.arg(&counter.script_args()).arg(*difference);
                cmd.arg(format!("{uid}:{name}"));
            });
            call.send(&self.store).await?;
            let update = Update::new("correcting counters of users", count, "counters");
            progress.update(&update.of(differences.len() as u64));
        }
        Ok(())
    }
}
