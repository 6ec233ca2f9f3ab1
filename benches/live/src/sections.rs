//! The sections of the report: their names in `--only`, and the measurement and format of each.

use crate::driver::programs::Programs;
use crate::error::Result;
use crate::measure;
use crate::measure::throughput;
use crate::report::section::Section;
use crate::report::{
    comparison, countd, countd_ack, countd_bytes, countd_cluster, countd_hot, countd_kafka,
    countd_prefilter, countd_reconcile, countd_relay, countd_replay, countd_sizing,
    countd_sizing_cluster, countd_split, entities, library, members, rows, snapshots, speed,
    stalls, table_sizes,
};
use crate::workload::comparisons;
use crate::workload::scale::Scale;

/// A section other than a throughput comparison: its name, its heading, and the function that measures and formats it.
type OtherSection = (
    &'static str,
    &'static str,
    fn(&Programs, &Scale) -> Result<Section>,
);
const OTHER_SECTIONS: [OtherSection; 20] = [
    (entities::NAME, entities::TITLE, |programs, scale| {
        let bytes = measure::entities::measure(programs, scale)?;
        Ok(entities::section(&bytes, scale.objects))
    }),
    (rows::NAME, rows::TITLE, |programs, scale| {
        let bytes = measure::rows::measure(programs, scale)?;
        Ok(rows::section(&bytes, scale.rows))
    }),
    (members::NAME, members::TITLE, |programs, scale| {
        let bytes = measure::members::measure(programs, scale)?;
        Ok(members::section(&bytes, scale.memory_members))
    }),
    (library::NAME, library::TITLE, |_, scale| {
        let times = measure::library::measure(scale)?;
        Ok(library::section(&times, scale.members))
    }),
    (stalls::NAME, stalls::TITLE, |programs, scale| {
        let latencies = measure::stalls::measure(programs, scale)?;
        Ok(stalls::section(&latencies, scale.latency_members))
    }),
    (snapshots::NAME, snapshots::TITLE, |programs, scale| {
        let snapshots = measure::snapshots::measure(programs, scale)?;
        snapshots::section(&snapshots, scale.objects)
    }),
    (table_sizes::NAME, table_sizes::TITLE, |programs, scale| {
        let times = measure::table_sizes::measure(programs, scale)?;
        Ok(table_sizes::section(&times))
    }),
    (countd::NAME, countd::TITLE, |programs, scale| {
        let results = measure::countd::measure(programs, scale)?;
        Ok(countd::section(&results, &scale.countd))
    }),
    (
        countd_cluster::NAME,
        countd_cluster::TITLE,
        |programs, scale| {
            let costs = measure::countd::cluster::measure(programs, scale)?;
            Ok(countd_cluster::section(&costs))
        },
    ),
    (countd_ack::NAME, countd_ack::TITLE, |programs, scale| {
        let rates = measure::countd::ack::measure(programs, scale)?;
        Ok(countd_ack::section(&rates))
    }),
    (countd_hot::NAME, countd_hot::TITLE, |programs, scale| {
        let (rates, detection) = measure::countd::hot::measure(programs, scale)?;
        Ok(countd_hot::section(&rates, &detection))
    }),
    (
        countd_split::NAME,
        countd_split::TITLE,
        |programs, scale| {
            let results = measure::countd::split::measure(programs, scale)?;
            Ok(countd_split::section(&results, &scale.countd))
        },
    ),
    (
        countd_prefilter::NAME,
        countd_prefilter::TITLE,
        |programs, scale| {
            let rates = measure::countd::prefilter::measure(programs, scale)?;
            Ok(countd_prefilter::section(&rates))
        },
    ),
    (
        countd_bytes::NAME,
        countd_bytes::TITLE,
        |programs, scale| {
            let bytes = measure::countd::bytes::measure(programs, scale)?;
            Ok(countd_bytes::section(&bytes, &scale.countd))
        },
    ),
    (
        countd_reconcile::NAME,
        countd_reconcile::TITLE,
        |programs, scale| {
            let costs = measure::countd::reconcile::measure(programs, scale)?;
            Ok(countd_reconcile::section(&costs, &scale.countd))
        },
    ),
    (
        countd_replay::NAME,
        countd_replay::TITLE,
        |programs, scale| {
            let rates = measure::countd::replay::measure(programs, scale)?;
            Ok(countd_replay::section(&rates, &scale.countd))
        },
    ),
    (
        countd_relay::NAME,
        countd_relay::TITLE,
        |programs, scale| {
            let rates = measure::countd::relay::measure(programs, scale)?;
            Ok(countd_relay::section(&rates, &scale.countd))
        },
    ),
    (
        countd_kafka::NAME,
        countd_kafka::TITLE,
        |programs, scale| {
            let results = measure::countd::kafka::measure(programs, scale)?;
            Ok(countd_kafka::section(&results, &scale.countd))
        },
    ),
    (
        countd_sizing::NAME,
        countd_sizing::TITLE,
        |programs, scale| {
            let compared = measure::countd::sizing::measure(programs, scale)?;
            Ok(countd_sizing::section(&compared))
        },
    ),
    (
        countd_sizing_cluster::NAME,
        countd_sizing_cluster::TITLE,
        |programs, scale| {
            let compared = measure::countd::sizing_cluster::measure(programs, scale)?;
            Ok(countd_sizing_cluster::section(&compared))
        },
    ),
];

/// Whether `name` is a section or a group of sections that `--only` accepts.
pub fn is_known(name: &str, programs: &Programs, scale: &Scale) -> bool {
    OTHER_SECTIONS.iter().any(|(other, ..)| *other == name)
        || comparisons::all(programs, scale)
            .iter()
            .any(|c| c.name == name || c.group == name)
}

/// Whether a section can be replaced on a page of another run: it is about countd.
pub fn can_be_replaced(name: &str) -> bool {
    name.starts_with(countd::NAME)
}

/// Whether a section is left out of a short run unless it is named.
pub fn takes_long(name: &str) -> bool {
    needs_kafka(name)
}

/// The sections that are measured with a broker of Kafka.
const WITH_KAFKA: [&str; 3] = [
    countd_cluster::NAME,
    countd_kafka::NAME,
    countd_sizing_cluster::NAME,
];

/// Whether a section is measured with a broker of Kafka.
fn needs_kafka(name: &str) -> bool {
    WITH_KAFKA.contains(&name)
}

/// Fails at once if a selected section needs a program that is missing.
pub fn check(programs: &Programs, selected: impl Fn(&str) -> bool) -> Result<()> {
    if WITH_KAFKA.into_iter().any(selected) {
        programs.kafka()?;
    }
    Ok(())
}

/// Measures and formats the sections that `selected` accepts. A section that fails after the comparisons is printed and
/// left out, so that an hour's measurements are not lost with it; their number is the second value.
pub fn measure(
    programs: &Programs,
    scale: &Scale,
    selected: impl Fn(&str) -> bool,
) -> Result<(Vec<Section>, usize)> {
    let stages = comparisons::stages(programs, scale, |c| selected(&c.name) || selected(c.group));
    let mut outcomes = Vec::new();
    for stage in stages {
        for comparison in &stage {
            eprintln!("bench: {}", comparison.title);
        }
        outcomes.extend(throughput::measure(stage, programs, scale)?);
    }
    let mut sections = Vec::from_iter(speed::section(&outcomes));
    sections.extend(outcomes.iter().map(comparison::section));
    let mut failed = 0;
    for (name, title, section) in OTHER_SECTIONS {
        if selected(name) {
            eprintln!("bench: {title}");
            match section(programs, scale) {
                Ok(section) => sections.push(section),
                Err(error) => {
                    failed += 1;
                    eprintln!("bench: {name} failed: {error}");
                }
            }
        }
    }
    Ok((sections, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_known_by_name_and_by_group() {
        let known = |name| is_known(name, &Programs::for_test(), &Scale::full());
        assert!(known("contains") && known("contains-snowflake-one"));
        assert!(known("members") && known("table-sizes"));
        assert!(!known("one") && !known("nothing"));
    }
}
