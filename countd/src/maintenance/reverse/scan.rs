//! The scan of a backfill: entries of the log ask the consumers to read the facts of each key again.

use super::{Backfill, BackfillError};
use crate::domain::config::FactKind;
use crate::domain::error::StoreError;
use crate::domain::event::Reread;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::log::{EntryKind, EventLog};
use crate::redis::permissions::Permissions;
use crate::redis::processes::ProcessMember;
use crate::redis::script::CounterBackend;
use redis::aio::ConnectionManager;
use std::collections::BTreeMap;

/// The commands that find keys.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1"];
/// The commands that read facts: of an ID set, of a Set, and of a bitmap.
const READ_IDS: &str = "RBM.SCAN {ids} 0 COUNT 1";
const READ_SET: &str = "SSCAN {set} 0 COUNT 1";
const READ_BITS: &str = "GET {bits}";

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// The maximum number of users in an entry of the log.
const USERS_PER_ENTRY: usize = 200;
/// The number of facts after which the backfill waits until the consumers have committed them.
const MAX_WAITING: u64 = 20_000;
/// The number of bits of a bitmap, as facts/bitmap.rs divides users.
const CHUNK: u64 = 32_768;

/// The permissions to read the facts of a metric.
pub fn fact_permissions(kind: FactKind, backend: CounterBackend) -> Permissions {
    Permissions::of_commands(match (kind, backend) {
        (FactKind::Bitmap, _) => &[READ_BITS],
        (FactKind::Rbm, CounterBackend::Module) => &[READ_IDS],
        (FactKind::Rbm | FactKind::Daily, CounterBackend::Strings) => &[READ_SET],
        (FactKind::Rbm | FactKind::Daily, _) => &[READ_SET, READ_IDS],
        _ => &[READ_SET],
    })
}

/// How the facts at a key are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FactForm {
    Ids,
    Set,
    Bits(u64),
}

/// A key with facts of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FactKey {
    key: String,
    entity: Entity,
    form: FactForm,
}

impl Backfill<'_> {
    /// The number of scans of a server in a pass.
    pub(super) fn scans_per_pass(&self) -> u64 {
        self.patterns().len() as u64
    }

    /// The patterns of the keys with facts, and how facts are stored there.
    fn patterns(&self) -> Vec<(String, FactForm)> {
        let name = self.name;
        let ids = match self.store.backend() {
            CounterBackend::Module => FactForm::Ids,
            // A backfill does not run while an adoption does.
            _ => FactForm::Set,
        };
        let ids = (format!("rbm:{name}:*"), ids);
        let sets = (format!("s:{name}:*"), FactForm::Set);
        match self.kind {
            FactKind::Rbm => vec![ids],
            FactKind::Bitmap => vec![(format!("bm:{name}:*"), FactForm::Bits(0))],
            FactKind::Sharded => vec![sets],
            FactKind::Daily => vec![sets, ids],
        }
    }

    /// Adds the facts of all keys of a server, which has about `size` keys.
    pub(super) async fn scan(
        &mut self,
        (server, size): (&mut ConnectionManager, u64),
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        for (pattern, form) in self.patterns() {
            let end = self.visited + size;
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern);
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(server).await?;
                for key in found {
                    let key = String::from_utf8(key).ok();
                    if let Some(key) = key.and_then(|key| fact_key(key, form)) {
                        self.add_key(&key, member).await?;
                    }
                }
                cursor = next;
                // A step looks at about so many keys, of which it returns those of the pattern.
                let visited = self.visited + SCAN_COUNT as u64;
                self.visited = if cursor == 0 { end } else { visited.min(end) };
                self.step("reading facts");
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds the facts of a key.
    async fn add_key(
        &mut self,
        FactKey { key, entity, form }: &FactKey,
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        if let FactForm::Bits(chunk) = form {
            let mut cmd = redis::cmd("GET");
            let bits: Option<Vec<u8>> = cmd.arg(key).query_async(&mut self.store.reads()).await?;
            let bits = bits.unwrap_or_default();
            let set = (0..bits.len() as u64 * 8)
                .filter(|bit| bits[*bit as usize / 8] & (0x80 >> (bit % 8)) != 0);
            let users: Vec<String> = set.map(|bit| (chunk * CHUNK + bit).to_string()).collect();
            return self.add_users(entity, &users, member).await;
        }
        let mut cursor = "0".to_owned();
        loop {
            let mut cmd = match form {
                FactForm::Ids => redis::cmd("RBM.SCAN"),
                _ => redis::cmd("SSCAN"),
            };
            cmd.arg(key).arg(&cursor).arg("COUNT").arg(USERS_PER_ENTRY);
            let (next, users): (String, Vec<String>) =
                cmd.query_async(&mut self.store.reads()).await?;
            self.add_users(entity, &users, member).await?;
            cursor = next;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn add_users(
        &mut self,
        entity: &Entity,
        users: &[String],
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        let partition = self.store.keys().of_entity(entity);
        for users in users.chunks(USERS_PER_ENTRY) {
            let uids = users.iter().map(|uid| Id::new(uid.as_str()));
            let uids: Result<Vec<Id>, _> = uids.collect();
            let uids = uids.map_err(|error| StoreError::Unexpected(error.to_string()))?;
            let count = uids.len() as u64;
            let reread = Reread {
                metric: self.name.clone(),
                etype: entity.etype.clone(),
                eid: entity.eid.clone(),
                uids,
            };
            let entry = vec![(EntryKind::Reread, reread.to_json())];
            self.log
                .append(&BTreeMap::from([(partition, entry)]))
                .await?;
            self.waiting.insert(partition);
            self.waiting_facts += count;
            self.facts += count;
        }
        if self.waiting_facts >= MAX_WAITING {
            let waiting: Vec<Partition> = std::mem::take(&mut self.waiting).into_iter().collect();
            self.wait_until_committed(&waiting, member).await?;
            self.waiting_facts = 0;
            // Their outboxes are drained at the end.
            self.waiting.extend(waiting);
        }
        Ok(())
    }
}

/// Parses a key with facts: `{kind}:{metric}:{etype}:{eid}`, the part of the entity's facts, and the hash tag. `None` for the indexes of
/// facts.
fn fact_key(key: String, form: FactForm) -> Option<FactKey> {
    let mut parts = key.split(':').skip(2);
    let etype = Name::new(parts.next()?).ok()?;
    let eid = Id::new(parts.next()?).ok()?;
    let part = parts.next().filter(|part| !part.starts_with('{'));
    let form = match (form, part) {
        (FactForm::Bits(_), Some(chunk)) => FactForm::Bits(chunk.parse().ok()?),
        (_, Some("days")) => return None,
        (form, _) => form,
    };
    let entity = Entity { etype, eid };
    Some(FactKey { key, entity, form })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_facts_are_parsed() {
        let parse = |key: &str, form| {
            let parsed = fact_key(key.to_owned(), form)?;
            Some((parsed.entity.eid.to_string(), parsed.form))
        };
        for (key, form, expected) in [
            ("rbm:like:note:7", FactForm::Ids, FactForm::Ids),
            ("rbm:like:note:7:{12}", FactForm::Ids, FactForm::Ids),
            ("s:like:note:7:20261231", FactForm::Set, FactForm::Set),
            ("s:like:note:7:old:{3}", FactForm::Set, FactForm::Set),
            ("bm:like:note:7:5:{3}", FactForm::Bits(0), FactForm::Bits(5)),
        ] {
            assert_eq!(parse(key, form), Some(("7".to_owned(), expected)), "{key}");
        }
        assert_eq!(parse("s:like:note:7:days", FactForm::Set), None);
        assert_eq!(parse("bm:like:note:7:chunks:{3}", FactForm::Bits(0)), None);
        assert_eq!(parse("rbm:like", FactForm::Ids), None);
    }
}
