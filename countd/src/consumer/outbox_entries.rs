//! The outbox entries of a batch.
//!
//! The increments of a user's counters and the changes of their facts are in one entry. The receiver applies an entry in one commit, so the
//! counters of a user always equal the number of their facts.

use super::batch::Batch;
use crate::domain::event::{ForwardedCounterCheck, MAX_ADDS, MAX_REVS, Rev};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::Partition;
use redis::Cmd;
use serde::Serialize;
use std::collections::BTreeMap;

/// What an outbox entry sends to users.
#[derive(Debug, Default)]
struct Changes<'a> {
    adds: Vec<(&'a Id, &'a Name, i64)>,
    revs: Vec<Rev>,
    sums: Vec<(&'a Id, &'a Name, i64, u32)>,
    checks: Vec<ForwardedCounterCheck>,
}

impl Changes<'_> {
    fn is_empty(&self) -> bool {
        self.increments() == 0 && self.revs.is_empty()
    }

    /// The number of increments and checks.
    fn increments(&self) -> usize {
        self.adds.len() + self.sums.len() + self.checks.len()
    }

    /// Whether an entry with these and other changes is larger than entries should be.
    fn exceeds_with(&self, other: &Changes<'_>) -> bool {
        self.increments() + other.increments() > MAX_ADDS
            || self.revs.len() + other.revs.len() > MAX_REVS
    }

    fn append(&mut self, mut other: Self) {
        self.adds.append(&mut other.adds);
        self.revs.append(&mut other.revs);
        self.sums.append(&mut other.sums);
        self.checks.append(&mut other.checks);
    }
}

/// An entry of the outbox.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutboxEntry {
    to: Partition,
    /// The fields, and their contents as JSON.
    fields: Vec<(&'static str, String)>,
}

impl OutboxEntry {
    fn new(to: Partition, changes: &Changes<'_>) -> OutboxEntry {
        let mut fields = Vec::new();
        add_field(&mut fields, "adds", &changes.adds);
        add_field(&mut fields, "revs", &changes.revs);
        add_field(&mut fields, "sums", &changes.sums);
        add_field(&mut fields, "checks", &changes.checks);
        OutboxEntry { to, fields }
    }

    /// Adds its arguments of commit.lua.
    pub fn add_arguments(&self, call: &mut Cmd) {
        call.arg(self.to).arg(self.fields.len() * 2);
        for (field, content) in &self.fields {
            call.arg(*field).arg(content);
        }
    }
}

fn add_field<T: Serialize>(
    fields: &mut Vec<(&'static str, String)>,
    name: &'static str,
    list: &[T],
) {
    if !list.is_empty() {
        // Serializing strings and integers cannot fail.
        fields.push((name, serde_json::to_string(list).unwrap_or_default()));
    }
}

/// The outbox entries of a batch. An entry has all changes of its users. Sums of zero are omitted.
pub(super) fn outbox_entries(batch: &Batch) -> Vec<OutboxEntry> {
    let mut targets: BTreeMap<Partition, BTreeMap<Id, Changes<'_>>> = BTreeMap::new();
    for (to, users) in &batch.outbox {
        for ((uid, counter), delta) in users.iter().filter(|(_, delta)| **delta != 0) {
            let users = targets.entry(*to).or_default();
            let changes = users.entry(uid.clone()).or_default();
            changes.adds.push((uid, counter.name(), *delta));
        }
    }
    for (to, revs) in batch.timelines.forwarded() {
        let users = targets.entry(to).or_default();
        for rev in revs {
            users.entry(rev.uid.clone()).or_default().revs.push(rev);
        }
    }
    for (to, sum) in batch.sums.forwarded() {
        let users = targets.entry(to).or_default();
        users.entry(sum.0.clone()).or_default().sums.push(sum);
    }
    for (to, checks) in &batch.user_checks {
        for (counter, check) in checks {
            let added = batch.outbox.get(to).and_then(|users| users.get(counter));
            let (uid, name) = (&counter.0, counter.1.name());
            let users = targets.entry(*to).or_default();
            let changes = users.entry(uid.clone()).or_default();
            let entry = check.entry(uid, name, added.copied().unwrap_or(0));
            changes.checks.extend(entry);
        }
    }
    let mut entries = Vec::with_capacity(targets.len());
    for (to, users) in targets {
        let mut entry = Changes::default();
        for changes in users.into_values() {
            if !entry.is_empty() && entry.exceeds_with(&changes) {
                entries.push(OutboxEntry::new(to, &std::mem::take(&mut entry)));
            }
            entry.append(changes);
        }
        if !entry.is_empty() {
            entries.push(OutboxEntry::new(to, &entry));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::super::timelines::Change;
    use super::*;
    use crate::domain::config::UserCounter;
    use crate::domain::ids::Entity;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn follow(batch: &mut Batch, follower: u64, followed: u64) {
        let id = |id: u64| Id::new(id.to_string()).expect("an ID");
        let entity = Entity {
            etype: name("user"),
            eid: id(followed),
        };
        let counter = UserCounter::new(0, name("followings"));
        batch.forward(3, &id(follower), &counter, 1);
        let timelines = &mut batch.timelines;
        timelines.forward(
            3,
            &id(follower),
            &name("follow"),
            &entity,
            Change::Exists(5),
        );
    }

    #[test]
    fn adds_and_revs_of_a_user_share_an_entry() {
        let mut batch = Batch::default();
        follow(&mut batch, 8, 100);
        follow(&mut batch, 9, 101);
        let entries = outbox_entries(&batch);
        let expected = [
            ("adds", r#"[["8","followings",1],["9","followings",1]]"#),
            (
                "revs",
                r#"[["8","follow","user","100",1,5],["9","follow","user","101",1,5]]"#,
            ),
        ];
        let fields = expected.map(|(field, content)| (field, content.to_owned()));
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].to, &entries[0].fields[..]), (3, &fields[..]));
    }

    #[test]
    fn the_changes_of_a_user_are_never_divided() {
        let mut batch = Batch::default();
        let follows = MAX_REVS as u64 - 50;
        for follower in [7, 8, 9] {
            (0..follows).for_each(|followed| follow(&mut batch, follower, 100 + followed));
        }
        (0..2 * MAX_REVS as u64).for_each(|followed| follow(&mut batch, 1, 1_000 + followed));
        let entries = outbox_entries(&batch);
        assert_eq!(entries.len(), 4, "one for each user");
        for entry in entries {
            let [(_, adds), (_, revs)] = &entry.fields[..] else {
                panic!("{entry:?}");
            };
            let adds: Vec<(Id, Name, u64)> = serde_json::from_str(adds).expect("increments");
            let revs: Vec<Rev> = serde_json::from_str(revs).expect("changes");
            let [(uid, _, sum)] = &adds[..] else {
                panic!("{adds:?}");
            };
            assert!(revs.iter().all(|rev| rev.uid == *uid));
            assert_eq!(revs.len() as u64, *sum);
        }
    }
}
