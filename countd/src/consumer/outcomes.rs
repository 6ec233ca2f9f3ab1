//! The section of a commit with the outcomes of entries that it does not count. The archiver, the publisher and rebuilds read them.

use super::section::CommitSection;
use crate::domain::config::Config;
use crate::domain::keys::{Keys, Partition};
use crate::log::archive::Outcome;
use redis::Cmd;
use std::collections::BTreeMap;

/// The outcomes of the entries of a batch that it does not count, if entries are archived or copied to a topic.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Field and outcome, by the key of the partition's outcomes.
    by_key: BTreeMap<String, Vec<(String, Outcome)>>,
}

impl Outcomes {
    /// Adds the outcome of an entry, or of a record of the topic with this field.
    pub fn add(&mut self, keys: Keys, (partition, field): (Partition, String), outcome: Outcome) {
        let outcomes = self.by_key.entry(keys.outcomes(partition)).or_default();
        outcomes.push((field, outcome));
    }
}

impl CommitSection for Outcomes {
    fn keys(&self) -> Vec<String> {
        self.by_key.keys().cloned().collect()
    }

    fn add_arguments(&self, _: &Config, _: Keys, call: &mut Cmd) -> usize {
        call.arg(self.by_key.len());
        let mut count = 1;
        for outcomes in self.by_key.values() {
            call.arg(2 * outcomes.len());
            for (field, outcome) in outcomes {
                call.arg(field).arg(*outcome as u8);
            }
            count += 1 + 2 * outcomes.len();
        }
        count
    }
}
