//! A comparison: operations that do the same job on different data structures, and the ratios that are reported.

use crate::workload::dataset::DataSet;
use crate::workload::pick::Pick;

/// Operations that do the same job, measured side by side.
pub struct Comparison {
    /// Its name in `--only` and in figures.
    pub name: String,
    /// The name in `--only` of all comparisons of its kind.
    pub group: &'static str,
    /// Consecutive comparisons with the same stage share their server processes.
    pub stage: String,
    /// Its heading in the report.
    pub title: String,
    /// The unit of throughput: operations, or the entities that an operation reads.
    pub unit: &'static str,
    /// Units per operation.
    pub units: u64,
    /// The ids that are used.
    pub pick: Pick,
    /// The alternatives, CountInt first.
    pub sides: Vec<Side>,
    /// The ratios that are reported.
    pub ratios: Vec<Ratio>,
    /// Appended to the names of its ratios, to tell them from those of other comparisons.
    pub qualifier: String,
}

/// One of the alternatives.
pub struct Side {
    /// Its name in tables.
    pub label: String,
    /// The process that it runs on.
    pub store: Store,
    /// The operation, in the notation of [`crate::workload::template`].
    pub commands: String,
    /// The operation that undoes a round, where ids can be used only once.
    pub undo: Option<String>,
    /// The ids that it uses, if they differ from the comparison's.
    pick: Option<Pick>,
}

/// A server process and its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Store {
    /// The data loaded into it.
    pub data: DataSet,
    /// Distinguishes processes with the same data.
    pub copy: usize,
}

/// A ratio of two sides, given by their indexes in [`Comparison::sides`].
pub struct Ratio {
    /// The numerator: CountInt.
    pub of: usize,
    /// The denominator: the alternative.
    pub to: usize,
    /// The regression threshold: the required ratio of throughputs with a pipeline.
    pub threshold: Option<f64>,
}

impl Side {
    /// A side without undo that uses the comparison's ids.
    pub fn new(label: &str, data: DataSet, commands: impl Into<String>) -> Side {
        Side {
            label: label.into(),
            store: Store { data, copy: 0 },
            commands: commands.into(),
            undo: None,
            pick: None,
        }
    }

    /// Sets the ids that it uses.
    pub fn picking(self, pick: Pick) -> Side {
        Side {
            pick: Some(pick),
            ..self
        }
    }

    /// Sets the operation that undoes a round.
    pub fn undone_by(self, undo: impl Into<String>) -> Side {
        Side {
            undo: Some(undo.into()),
            ..self
        }
    }

    /// Sets the process, for data that several processes hold.
    pub fn in_copy(self, copy: usize) -> Side {
        let data = self.store.data;
        Side {
            store: Store { data, copy },
            ..self
        }
    }
}

/// The ratios of the first side to each of the others, with their thresholds.
pub fn first_to_others(thresholds: &[Option<f64>]) -> Vec<Ratio> {
    let ratio = |(i, &threshold): (usize, &Option<f64>)| Ratio {
        of: 0,
        to: i + 1,
        threshold,
    };
    thresholds.iter().enumerate().map(ratio).collect()
}

impl Comparison {
    /// The ids that a side uses.
    pub fn pick_of(&self, side: &Side) -> Pick {
        side.pick.unwrap_or(self.pick)
    }

    /// Whether it is the control, which compares two identical sides.
    pub fn is_control(&self) -> bool {
        self.name == "control"
    }
}

/// The distinct processes that comparisons need.
pub fn stores(comparisons: &[Comparison]) -> Vec<Store> {
    let mut stores = Vec::new();
    for side in comparisons.iter().flat_map(|c| &c.sides) {
        if !stores.contains(&side.store) {
            stores.push(side.store);
        }
    }
    stores
}
