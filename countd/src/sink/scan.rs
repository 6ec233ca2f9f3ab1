//! Finds all facts and all entities with counters.

use super::changes::Changes;
use super::error::SinkError;
use super::tables::Tables;
use super::truth::Truth;
use crate::domain::config::FactKind;
use crate::domain::error::StoreError;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::KeyName;
use crate::maintenance::reconcile::entity_of;
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 COUNT 1"];
/// The command that scans rows.
pub(super) const ROW_PERMISSIONS: &[&str] = &["CTAB.SCAN {tables} 0 COUNT 1"];

/// The number of keys that a step of `SCAN` looks at.
const KEYS: usize = 1_000;
/// The number of rows, or of users, of a page.
const PAGE: usize = 1_000;

/// Facts of an entity that are being read: the number of their table, and the cursor.
struct OpenFacts {
    table: usize,
    entity: Entity,
    cursor: Option<String>,
}

/// A scan of all facts and counters.
pub struct Scan {
    /// The tables of counters that are left: the type, the key and the cursor.
    rows: VecDeque<(Name, String, String)>,
    /// The servers whose keys are left, by number.
    servers: VecDeque<usize>,
    cursor: u64,
    facts: Vec<OpenFacts>,
    /// The hashes of the facts that were read, if several keys hold the facts of an entity.
    read: HashSet<u64>,
    passes: u32,
}

impl Scan {
    /// A scan from the beginning.
    ///
    /// # Errors
    /// The servers are not known.
    pub fn new(truth: &Truth, tables: &Tables) -> Result<Scan, SinkError> {
        let keys = truth.store.keys();
        let mut rows = VecDeque::new();
        if truth.store.backend().has_tables() {
            for counts in &tables.counts {
                let etype = &counts.of.etype;
                if let Some(schema) = truth.catalog.config.schema_of(etype).flatten() {
                    rows.extend((0..keys.partitions()).map(|partition| {
                        let table = keys.table(schema, etype, partition);
                        (etype.clone(), table, "0".to_owned())
                    }));
                }
            }
        }
        // Keys can move while they are scanned: by compaction of days, and when slots of a cluster move.
        let is_daily = |metric: &Name| {
            let metric = truth.catalog.config.metrics.get(metric.as_str());
            metric.is_some_and(|(_, metric)| metric.fact_kind() == Some(FactKind::Daily))
        };
        let mut details = tables.details.iter();
        let moves = keys.tagged() || details.any(|details| is_daily(&details.of.metric));
        Ok(Scan {
            rows,
            servers: (0..truth.store.servers()?.len()).collect(),
            cursor: 0,
            facts: Vec::new(),
            read: HashSet::new(),
            passes: if moves { 2 } else { 1 },
        })
    }

    /// The next facts and entities; `None` at the end. There may be none in between.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn next(
        &mut self,
        truth: &Truth,
        tables: &Tables,
    ) -> Result<Option<Changes>, SinkError> {
        let mut found = Changes::default();
        if let Some(facts) = self.facts.pop() {
            self.read_facts(truth, tables, facts, &mut found).await?;
        } else if let Some((etype, table, cursor)) = self.rows.pop_front() {
            let mut scan = redis::cmd("CTAB.SCAN");
            scan.arg(&table).arg(cursor).arg("COUNT").arg(PAGE);
            let page = scan.query_async(&mut truth.store.reads()).await;
            let (next, ids): (String, Vec<String>) = match page.map_err(StoreError::from) {
                Err(StoreError::WrongType(_)) => ("0".to_owned(), Vec::new()),
                page => page?,
            };
            let ids = ids.into_iter().filter_map(|id| Id::new(id).ok());
            found.entities.extend(ids.map(|eid| Entity {
                etype: etype.clone(),
                eid,
            }));
            if next != "0" {
                self.rows.push_front((etype, table, next));
            }
        } else if let Some(server) = self.servers.front() {
            let server = *server;
            self.scan_keys(truth, tables, server, &mut found).await?;
        } else if self.passes > 1 {
            *self = Scan {
                passes: self.passes - 1,
                ..Scan::new(truth, tables)?
            };
        } else {
            return Ok(None);
        }
        Ok(Some(found))
    }

    async fn scan_keys(
        &mut self,
        truth: &Truth,
        tables: &Tables,
        server: usize,
        found: &mut Changes,
    ) -> Result<(), SinkError> {
        let keys = truth.store.keys();
        let mut servers = truth.store.servers()?.into_iter();
        let lost = || StoreError::Unexpected("the servers have changed".to_owned());
        let mut connection = servers.nth(server).ok_or_else(lost)?;
        let mut scan = redis::cmd("SCAN");
        scan.arg(self.cursor).arg("COUNT").arg(KEYS);
        let (next, names): (u64, Vec<Vec<u8>>) = scan.query_async(&mut connection).await?;
        for name in &names {
            if let Some(KeyName::Facts { metric, entity }) = KeyName::parse(&keys, name) {
                if let Some(table) = tables.details_of(&entity.etype, &metric)
                    && self.is_new(name, &metric, &entity)
                {
                    let cursor = None;
                    self.facts.push(OpenFacts {
                        table,
                        entity,
                        cursor,
                    });
                }
            } else if let Some((etype, eid, true)) = entity_of(&keys, name)
                && tables.counts_of(&etype).is_some()
            {
                found.entities.insert(Entity { etype, eid });
            }
        }
        self.cursor = next;
        if next == 0 {
            self.servers.pop_front();
        }
        Ok(())
    }

    /// Whether the facts of an entity were not read yet. A set of IDs is the only key of its facts.
    fn is_new(&mut self, key: &[u8], metric: &Name, entity: &Entity) -> bool {
        if key.starts_with(b"rbm:") {
            return true;
        }
        let mut hasher = DefaultHasher::new();
        (metric, entity).hash(&mut hasher);
        self.read.insert(hasher.finish())
    }

    async fn read_facts(
        &mut self,
        truth: &Truth,
        tables: &Tables,
        facts: OpenFacts,
        found: &mut Changes,
    ) -> Result<(), SinkError> {
        let OpenFacts {
            table,
            entity,
            cursor,
        } = facts;
        let metric = &tables.details[table].of.metric;
        let (_, settings) = truth.catalog.metric(metric.as_str())?;
        let store = truth.facts.require(metric, settings)?;
        let invalid = || StoreError::Unexpected("an invalid cursor of facts".to_owned());
        let call = store.page(metric, &entity, cursor.as_deref(), PAGE);
        let call = call.map_err(|_| invalid())?;
        let reply = match call.send_read(&truth.store).await.map_err(StoreError::from) {
            Err(StoreError::WrongType(_)) => return Ok(()),
            reply => reply?,
        };
        let page = store.decode_page(reply, cursor.as_deref(), PAGE)?;
        for uid in page.users {
            if let Ok(uid) = Id::new(uid) {
                found.facts.insert((table, entity.clone(), uid), None);
            }
        }
        if page.next.is_some() {
            self.facts.push(OpenFacts {
                table,
                entity,
                cursor: page.next,
            });
        }
        Ok(())
    }
}
