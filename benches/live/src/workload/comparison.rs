//! A comparison: operations that do the same job on different data structures, and the ratios that are reported.

use crate::workload::dataset::DataSet;
use crate::workload::id_source::IdSource;

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
    /// The ids that the operations use.
    pub ids: IdSource,
    /// The alternatives, CountInt first.
    pub sides: Vec<Side>,
    /// The ratios that are reported.
    pub ratios: Vec<Ratio>,
    /// Appended to the names of its ratios, which are otherwise equal in several comparisons.
    pub qualifier: String,
}

/// One of the compared alternatives: an operation on an instance.
pub struct Side {
    /// Its name in tables.
    pub label: String,
    /// The server instance that it uses.
    pub instance: Instance,
    /// The operation, in the notation of [`crate::workload::template`].
    pub commands: String,
    /// The operation that undoes a round, where ids can be used only once.
    pub undo: Option<String>,
    /// The ids, if they differ from the comparison's.
    ids: Option<IdSource>,
}

/// The identity of a server process: its data, and a number for processes with the same data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instance {
    /// The data loaded into it.
    pub data: DataSet,
    /// Distinguishes instances with the same data.
    pub number: usize,
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
            instance: Instance { data, number: 0 },
            commands: commands.into(),
            undo: None,
            ids: None,
        }
    }

    /// Sets the ids.
    pub fn with_ids(self, ids: IdSource) -> Side {
        Side {
            ids: Some(ids),
            ..self
        }
    }

    /// Sets the operation that undoes a round.
    pub fn with_undo(self, undo: impl Into<String>) -> Side {
        Side {
            undo: Some(undo.into()),
            ..self
        }
    }

    /// Sets the number of the instance, for data that several processes hold.
    pub fn on_instance(self, number: usize) -> Side {
        let data = self.instance.data;
        Side {
            instance: Instance { data, number },
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
    pub fn ids_of(&self, side: &Side) -> IdSource {
        side.ids.unwrap_or(self.ids)
    }

    /// Whether it is the control, which compares two identical sides.
    pub fn is_control(&self) -> bool {
        self.name == "control"
    }
}

/// The distinct instances that comparisons use.
pub fn instances(comparisons: &[Comparison]) -> Vec<Instance> {
    let mut instances = Vec::new();
    for side in comparisons.iter().flat_map(|c| &c.sides) {
        if !instances.contains(&side.instance) {
            instances.push(side.instance);
        }
    }
    instances
}
