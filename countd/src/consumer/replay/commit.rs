//! Commits replayed entries, as the consumer does.

use super::state::Replay;
use super::step::Step;
use crate::consumer::aggregator::Aggregator;
use crate::consumer::batch::Batch;
use crate::consumer::commit::{CommitOutcome, commit, record_commit};
use crate::consumer::counter_key::UnusableKey;
use crate::consumer::decoder::DecodedEntry;
use crate::consumer::position::Position;
use crate::consumer::reread::reread_facts;
use crate::consumer::rules::Rules;
use crate::consumer::schemas::{load_schemas, load_user_schema};
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::log::LogEntry;
use std::collections::{HashMap, HashSet};

impl Replay {
    /// Commits entries of partitions of a commit group.
    pub(super) async fn commit(
        &mut self,
        steps: Vec<(Partition, Vec<Step>)>,
    ) -> Result<(), Problem> {
        let mut parts = Vec::with_capacity(steps.len());
        for (partition, steps) in steps {
            let (entries, mut decoded): (Vec<LogEntry>, Vec<DecodedEntry>) = steps
                .into_iter()
                .map(|step| (step.entry, step.decoded))
                .unzip();
            reread_facts(&self.store, &self.catalog.config, &mut decoded).await?;
            for entry in &mut decoded {
                entry.use_columns(&self.catalog.config, self.locator.layout());
            }
            self.replayed += entries.len() as u64;
            parts.push((partition, entries, decoded));
        }
        let Some(group) = parts.first().map(|(partition, ..)| *partition) else {
            return Ok(());
        };
        let group = if self.store.keys().tagged() { group } else { 0 };
        let mut unusable_keys: HashMap<String, UnusableKey> = HashMap::new();
        let mut duplicates: HashSet<Id> = HashSet::new();
        loop {
            let mut batch = Batch::default();
            for (partition, entries, decoded) in &parts {
                let users = load_user_schema(&self.catalog, decoded).await?;
                let schemas = load_schemas(&self.catalog, decoded).await?;
                let rules = Rules {
                    config: &self.catalog.config,
                    locator: &self.locator,
                    users: &users,
                    schemas: &schemas,
                    in_rows: self.in_rows.entry(group).or_default(),
                    unusable_keys: &unusable_keys,
                    duplicate_envelopes: &duplicates,
                    holds_dead_letters: false,
                };
                let start = Position::start();
                let position = self.positions.get(partition).unwrap_or(&start);
                let mut aggregator = Aggregator::new(rules, &mut batch);
                aggregator.add_entries((*partition, position), entries.clone(), decoded);
            }
            let config = &self.catalog.config;
            match commit(&self.store, &self.locator, &batch, config).await? {
                CommitOutcome::Committed { .. } => {
                    record_commit(&batch);
                    for (partition, update) in batch.positions {
                        let position = self.positions.entry(partition);
                        let position = position.or_insert_with(Position::start);
                        position.next = update.next;
                        position.fences.extend(update.fences);
                    }
                    return Ok(());
                }
                CommitOutcome::PositionConflict(partitions) => {
                    let problem = format!("another process counts partitions {partitions:?}");
                    return Err(StoreError::Unexpected(problem).into());
                }
                // The entries come from the archive, so no history is expected.
                CommitOutcome::OtherHistory => {
                    let problem = "the server has another history".to_owned();
                    return Err(StoreError::Unexpected(problem).into());
                }
                CommitOutcome::DuplicateEnvelopes(ids) => duplicates.extend(ids),
                CommitOutcome::UnusableKeys(keys) => unusable_keys.extend(keys),
                // A replay requires no tables.
                CommitOutcome::MissingTables(keys) => {
                    let problem = format!("tables {keys:?} do not exist");
                    return Err(StoreError::Unexpected(problem).into());
                }
                CommitOutcome::OtherPlaces(types) => {
                    let in_rows = self.in_rows.entry(group).or_default();
                    for etype in types {
                        if !in_rows.remove(&etype) {
                            in_rows.insert(etype);
                        }
                    }
                }
                CommitOutcome::DeadLettersRejected(reason) => {
                    return Err(StoreError::Unexpected(reason).into());
                }
            }
        }
    }
}
