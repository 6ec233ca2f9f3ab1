//! All comparisons.

use crate::driver::programs::Programs;
use crate::workload::comparison::Comparison;
use crate::workload::scale::Scale;

pub mod objects;
pub mod rows;
pub mod sets;

/// All comparisons, in the order in which they run.
pub fn all(programs: &Programs, scale: &Scale) -> Vec<Comparison> {
    let mut all = objects::comparisons(scale);
    all.extend(rows::comparisons(scale));
    all.extend(sets::comparisons(programs, scale));
    all
}

/// The comparisons that `selected` accepts, grouped by the processes that they share.
pub fn stages(
    programs: &Programs,
    scale: &Scale,
    selected: impl Fn(&Comparison) -> bool,
) -> Vec<Vec<Comparison>> {
    let mut stages: Vec<Vec<Comparison>> = Vec::new();
    for comparison in all(programs, scale).into_iter().filter(selected) {
        match stages.last_mut() {
            Some(stage) if stage[0].stage == comparison.stage => stage.push(comparison),
            _ => stages.push(vec![comparison]),
        }
    }
    stages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::comparison::{Side, instances};
    use crate::workload::dataset::DataSet;
    use crate::workload::id_source::{IdSource, Presence};
    use crate::workload::scripts;

    fn full_run() -> Vec<Comparison> {
        all(&Programs::for_test(), &Scale::full())
    }

    #[test]
    fn ratios_refer_to_sides_and_names_are_unique() {
        let all = full_run();
        for (i, comparison) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|c| c.name != comparison.name));
            for ratio in &comparison.ratios {
                assert!(ratio.of < comparison.sides.len() && ratio.to < comparison.sides.len());
                assert_ne!(ratio.of, ratio.to);
            }
        }
    }

    #[test]
    fn sides_that_use_ids_once_can_be_undone() {
        for comparison in full_run() {
            let finite = matches!(comparison.ids, IdSource::Members(.., Presence::Absent));
            let undone = |side: &Side| side.undo.is_some() == finite;
            assert!(comparison.sides.iter().all(undone), "{}", comparison.name);
        }
    }

    #[test]
    fn every_script_that_is_called_exists() {
        for side in full_run().iter().flat_map(|c| &c.sides) {
            let commands = [Some(&side.commands), side.undo.as_ref()];
            for commands in commands.into_iter().flatten() {
                let called = commands.matches("<script:").count();
                assert_eq!(scripts::called_by(commands).count(), called, "{commands}");
            }
        }
    }

    #[test]
    fn sides_use_the_ids_of_their_data() {
        for comparison in full_run() {
            for side in &comparison.sides {
                let same = match (comparison.ids_of(side), side.instance.data) {
                    (IdSource::Objects(n), DataSet::Objects(_, loaded)) => n == loaded,
                    (IdSource::Rows(n), DataSet::Rows(_, loaded)) => n == loaded,
                    (IdSource::Tables(tables), DataSet::Tables(loaded)) => tables == loaded,
                    (IdSource::Members(d, l, _), DataSet::Members(_, distribution, layout)) => {
                        d == distribution && l == layout
                    }
                    _ => false,
                };
                assert!(same, "{}: {}", comparison.name, side.label);
            }
        }
    }

    #[test]
    fn comparisons_share_processes_with_equal_data() {
        let all = full_run();
        let control = instances(&all[..1]);
        assert_eq!(control.len(), 2);
        assert_eq!(control[0].data, control[1].data);
        let two: Vec<Comparison> = all.into_iter().filter(|c| c.group == "mread").collect();
        assert_eq!(instances(&two).len(), 2);
    }
}
