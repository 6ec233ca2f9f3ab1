//! The counters of a batch or an import that migrations move from objects to rows.
//!
//! Scripts decide by the phase of a slot where counters of such a type are. A batch therefore chooses one place for all counters of a
//! type: their objects, or, once it has learned that the slot has a phase, their rows. The commit is rejected if the choice is wrong. If
//! the counters are in rows, the commit first moves the objects that still exist.

use hashbrown::HashMap;
use redis::Cmd;
use std::collections::{BTreeMap, BTreeSet};

/// The types whose counters were found in rows while a migration moves them.
pub type TypesInRows = BTreeSet<String>;

/// A row to which the commit moves the counters of an object, if the object exists.
#[derive(Debug)]
struct Target {
    table: String,
    row: u64,
    min_len: usize,
}

/// The counters of a batch that migrations move.
#[derive(Debug, Default)]
pub struct Moves {
    /// The types, and whether the batch has chosen rows for their counters.
    types: BTreeMap<String, bool>,
    /// The counters in rows, by the key of the object.
    targets: HashMap<String, Target>,
}

impl Moves {
    /// Records the choice for a type.
    pub fn choose(&mut self, etype: &str, in_rows: bool) {
        if !self.types.contains_key(etype) {
            self.types.insert(etype.to_owned(), in_rows);
        }
    }

    /// Adds counters in a row, whose object may still exist.
    pub fn add(&mut self, object: &str, table: impl FnOnce() -> String, row: u64, min_len: usize) {
        if !self.targets.contains_key(object) {
            let target = Target {
                table: table(),
                row,
                min_len,
            };
            self.targets.insert(object.to_owned(), target);
        }
    }

    /// Whether a type moves and the batch has chosen rows for its counters.
    pub fn in_rows(&self, etype: &str) -> bool {
        self.types.get(etype).is_some_and(|in_rows| *in_rows)
    }

    /// Whether no migration concerns the batch.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// The number of counters in rows.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// The type with this number in a reply.
    pub fn type_at(&self, at: usize) -> Option<&String> {
        self.types.keys().nth(at)
    }

    /// The keys of the objects, in the order of replies.
    pub fn objects(&self) -> impl Iterator<Item = &String> {
        self.targets.keys()
    }

    /// The keys that moving_many.lua needs after the phases.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        let targets = self.targets.iter();
        targets.flat_map(|(object, target)| [object, &target.table])
    }

    /// Adds the arguments of moving_many.lua.
    pub fn add_arguments(&self, call: &mut Cmd) {
        call.arg(self.types.len());
        for (etype, in_rows) in &self.types {
            call.arg(etype).arg(u8::from(*in_rows));
        }
        call.arg(self.targets.len());
        for target in self.targets.values() {
            call.arg(target.row).arg(target.min_len);
        }
        call.arg(2 + 2 * (self.types.len() + self.targets.len()));
    }
}
