//! The comparisons: what is run against what, and which ratio is asked for.

use crate::dataset::DataSet;
use crate::numbers::Pick;
use crate::options::Options;

mod objects;
mod rows;
mod sets;

pub use sets::description as sets_description;

/// Commands that do the same job, measured side by side.
pub struct Comparison {
    /// What `--only` calls it.
    pub name: String,
    /// What `--only` calls it with others of its kind.
    pub group: &'static str,
    /// Comparisons of one stage that follow each other share their processes.
    pub stage: String,
    /// Its heading in the report.
    pub title: String,
    /// What is counted: operations, or the entities that one operation reads.
    pub unit: &'static str,
    /// Units in one operation.
    pub units: u64,
    /// How ids are chosen.
    pub pick: Pick,
    /// The commands, ours first.
    pub sides: Vec<Side>,
    /// Which side is compared with which.
    pub ratios: Vec<Ratio>,
    /// Stands behind its ratios in the list of bars.
    pub distinction: String,
}

/// One way to do the job.
pub struct Side {
    /// Its name in tables.
    pub label: String,
    /// What it runs on.
    pub store: Store,
    /// The commands, in the notation of [`crate::template`].
    pub commands: String,
    /// The commands that take a round back, where it would run out of new things to do.
    pub undo: Option<String>,
    /// How its ids are chosen, where not as the comparison's.
    pick: Option<Pick>,
}

/// A process and what is loaded into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Store {
    /// What is loaded.
    pub data: DataSet,
    /// Tells processes with the same data apart.
    pub copy: usize,
}

/// A comparison of two sides, by their places in [`Comparison::sides`].
pub struct Ratio {
    /// Ours.
    pub of: usize,
    /// What a user would use instead.
    pub to: usize,
    /// The least ratio of throughputs at depth 64 that is asked for.
    pub bar: Option<f64>,
}

impl Side {
    fn new(label: &str, data: DataSet, commands: impl Into<String>) -> Side {
        Side {
            label: label.into(),
            store: Store { data, copy: 0 },
            commands: commands.into(),
            undo: None,
            pick: None,
        }
    }

    /// The same with ids of its own.
    fn picking(self, pick: Pick) -> Side {
        Side {
            pick: Some(pick),
            ..self
        }
    }

    /// The same with commands that take back what it did.
    fn undone_by(self, undo: impl Into<String>) -> Side {
        Side {
            undo: Some(undo.into()),
            ..self
        }
    }

    /// The same in another process.
    fn in_copy(self, copy: usize) -> Side {
        let data = self.store.data;
        Side {
            store: Store { data, copy },
            ..self
        }
    }
}

/// The first side against each of the others: a bar, or `None`.
fn first_against(bars: &[Option<f64>]) -> Vec<Ratio> {
    let ratio = |(i, &bar): (usize, &Option<f64>)| Ratio {
        of: 0,
        to: i + 1,
        bar,
    };
    bars.iter().enumerate().map(ratio).collect()
}

/// All of them, in the order in which they run.
pub fn comparisons(options: &Options) -> Vec<Comparison> {
    let mut all = objects::comparisons(options);
    all.extend(rows::comparisons(options));
    all.extend(sets::comparisons(options));
    all
}

/// Those that were asked for, those with shared processes together.
pub fn stages(options: &Options) -> Vec<Vec<Comparison>> {
    let mut stages: Vec<Vec<Comparison>> = Vec::new();
    for comparison in comparisons(options) {
        if !options.wants(&comparison.name) && !options.wants(comparison.group) {
            continue;
        }
        match stages.last_mut() {
            Some(stage) if stage[0].stage == comparison.stage => stage.push(comparison),
            _ => stages.push(vec![comparison]),
        }
    }
    stages
}

impl Comparison {
    /// How a side's ids are chosen.
    pub fn pick_of(&self, side: &Side) -> Pick {
        side.pick.unwrap_or(self.pick)
    }

    /// Whether it compares a thing with itself, which nobody wins.
    pub fn is_control(&self) -> bool {
        self.name == "control"
    }
}

/// The processes that comparisons need, each once.
pub fn stores(comparisons: &[Comparison]) -> Vec<Store> {
    let mut stores = Vec::new();
    for side in comparisons.iter().flat_map(|c| &c.sides) {
        if !stores.contains(&side.store) {
            stores.push(side.store);
        }
    }
    stores
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Asked;
    use crate::scripts;

    fn all() -> Vec<Comparison> {
        comparisons(&Options::for_test())
    }

    #[test]
    fn ratios_name_sides_and_names_are_unique() {
        let all = all();
        for (i, comparison) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|c| c.name != comparison.name));
            for ratio in &comparison.ratios {
                assert!(ratio.of < comparison.sides.len() && ratio.to < comparison.sides.len());
                assert_ne!(ratio.of, ratio.to);
            }
        }
    }

    #[test]
    fn what_runs_out_of_new_ids_can_be_undone() {
        for comparison in all() {
            let finite = matches!(comparison.pick, Pick::Members(.., Asked::EachAbsent));
            let undone = |side: &Side| side.undo.is_some() == finite;
            assert!(comparison.sides.iter().all(undone), "{}", comparison.name);
        }
    }

    #[test]
    fn every_script_that_is_called_exists() {
        for side in all().iter().flat_map(|c| &c.sides) {
            let commands = [Some(&side.commands), side.undo.as_ref()];
            for commands in commands.into_iter().flatten() {
                let called = commands.matches("<script:").count();
                assert_eq!(scripts::called_by(commands).count(), called, "{commands}");
            }
        }
    }

    #[test]
    fn sides_ask_what_their_data_hold() {
        for comparison in all() {
            for side in &comparison.sides {
                let same = match (comparison.pick_of(side), side.store.data) {
                    (Pick::Objects(n), DataSet::Objects(_, loaded)) => n == loaded,
                    (Pick::Rows(n), DataSet::Rows(_, loaded)) => n == loaded,
                    (Pick::Members(d, l, _), DataSet::Members(_, distribution, layout)) => {
                        d == distribution && l == layout
                    }
                    _ => false,
                };
                assert!(same, "{}: {}", comparison.name, side.label);
            }
        }
    }

    #[test]
    fn a_process_is_started_once_for_each_kind_of_data() {
        let all = all();
        let control = stores(&all[..1]);
        assert_eq!(control.len(), 2);
        assert_eq!(control[0].data, control[1].data);
        let two: Vec<Comparison> = all.into_iter().filter(|c| c.group == "mread").collect();
        assert_eq!(stores(&two).len(), 2);
    }
}
