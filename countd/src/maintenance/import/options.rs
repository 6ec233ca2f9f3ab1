//! What an import imports, and from where.

use super::authors::AuthorImport;
use super::counts::{ALL, Agreement, CountImport, Mode, Tracking};
use super::error::ImportError;
use super::facts::FactImport;
use super::format::Kind;
use super::job::JobState;
use super::source::{Chunks, FileSource, LiveSource, Shape};
use crate::domain::ids::Name;
use crate::storage::catalog::Catalog;
use serde::Serialize;

/// An import.
#[derive(Clone)]
pub struct Import {
    /// Its name. A run with the same name continues.
    pub name: Name,
    /// What is imported.
    pub kind: Kind,
    /// What happens to existing values of counters.
    pub mode: Mode,
    /// Where the records come from.
    pub source: Source,
    /// The options that determine what is imported. They must not change between runs.
    pub options: String,
    /// The number of invalid records that are skipped.
    pub skip_invalid: u64,
    /// The number of uncounted events at which the import waits for the consumer. 0: it never waits.
    pub max_lag: u64,
    /// Which values of counters agree with the source; `None` to omit the verification.
    pub verify: Option<Agreement>,
    /// Read and validate the source only.
    pub dry_run: bool,
}

/// Where records come from.
#[derive(Clone)]
pub enum Source {
    /// A file.
    File(FileSource),
    /// The keys of a live Redis.
    Live(Box<LiveSource>),
}

/// What an import has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The number of records, including those of earlier runs.
    pub records: u64,
    /// The number of invalid records that were skipped.
    pub skipped: u64,
    /// The number of records that changed something in this run.
    pub changed: u64,
    /// The number of records that were compared with countd.
    pub verified: u64,
    /// The number of differences that the comparison has found.
    pub differences: u64,
}

/// Applies the records of a kind.
pub(super) enum Target {
    /// Facts.
    Facts(Box<FactImport>),
    /// Counts.
    Counts(Box<CountImport>),
    /// Authors.
    Authors(Box<AuthorImport>),
}

impl Source {
    /// Starts to read from where an earlier run ended; from the start without a state.
    pub(super) fn open(&self, state: Option<&JobState>) -> Chunks {
        match self {
            Source::File(file) => file.open(state.map(|state| state.file.clone())),
            Source::Live(live) => live.open(state.and_then(|state| state.cursor.clone())),
        }
    }

    /// The size of a file.
    pub(super) fn size(&self) -> Result<Option<u64>, ImportError> {
        match self {
            Source::File(file) => file.size().map(Some),
            Source::Live(_) => Ok(None),
        }
    }

    /// How it is known what was applied before.
    pub(super) fn tracking(&self) -> Tracking {
        match self {
            Source::File(_) => Tracking::Chunks,
            Source::Live(live) => match live.shape {
                Shape::HashPerCounter(_) => Tracking::Counters,
                _ => Tracking::Entities,
            },
        }
    }

    /// The scopes of the ids that a live source of counts uses.
    pub(super) fn scopes(&self, kind: Kind, catalog: &Catalog) -> Vec<String> {
        match self {
            Source::Live(live) if kind == Kind::Counts => match &live.shape {
                Shape::HashPerCounter(hashes) => {
                    let metrics = &catalog.config.metrics;
                    let names = hashes.iter().map(|(_, metric)| metrics.resolve(metric));
                    names.map(str::to_owned).collect()
                }
                _ => vec![ALL.to_owned()],
            },
            _ => Vec::new(),
        }
    }
}
