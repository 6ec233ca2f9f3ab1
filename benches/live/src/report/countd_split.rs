//! The section on splits and merges.

use crate::measure::countd::split::{
    CONNECTIONS, Costs, MASTERS, Merge, Pair, SHARDS, SMALL_MERGE, SplitResults,
};
use crate::measure::stats::Spread;
use crate::report::check::Check;
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::{Table, thousands};
use crate::workload::scale::CountdScale;

/// The name in `--only`.
pub const NAME: &str = "countd-split";
/// The heading.
pub const TITLE: &str = "countd: split of a hot entity";

/// A part of the costs.
type Part = fn(&Costs) -> f64;

/// The parts, with the name in figures.
const PARTS: [(&str, &str, Part); 3] = [
    ("busiest node of Redis", "busiest", BUSIEST),
    ("all nodes of Redis", "redis", |costs| costs.redis),
    ("countd", "countd", |costs| costs.countd),
];
/// The part that limits an entity if each node has a core.
const BUSIEST: Part = |costs| costs.busiest;

/// Formats the results.
pub fn section(results: &SplitResults, scale: &CountdScale) -> Section {
    let mut figures = Figures::default();
    let (likes, checks) = likes(&results.pairs, &mut figures);
    let merges = merges(&results.merges, scale, &mut figures);
    let split = Spread::of(results.split_seconds.iter().copied()).median();
    figures.add("countd.split.split-s", split, 2);
    Section {
        title: TITLE.into(),
        body: format!(
            "`POST /action/like` of different users on an entity that is whole and on another one with {SHARDS} shards, in alternating rounds, in a \
             cluster of {MASTERS} masters. The masters share a core, and so do `countd all` and the client, so rates say nothing here. If each node has a core, the \
             busiest one limits the likes of an entity: the ratio of its CPU times is what a split gains. CPU times include counting. \
             Likes that arrive while another one is executed are committed as a group, on the entity or on the shard. With few connections the groups \
             of shards are smaller, so fewer likes share the cost of a command.\n\n{likes}\n\
             `countd hot split` with `--grace 0` takes {split:.2} s (median). For each merge, an entity is split before it has facts, and then gets likes in \
             `POST /actions` of up to 1,000. From before `countd hot merge` until after it, another client sends a like every 20 ms. Likes are refused from the first one \
             that gets 503 `merging` to the next one that is accepted. A small merge mostly waits for processes and consumers.\n\n{merges}",
        ),
        checks,
        figures,
        ..Section::default()
    }
}

/// The table of the costs of likes, and the ratios of the busiest nodes.
fn likes(pairs: &[Pair], figures: &mut Figures) -> (String, Vec<Check>) {
    let spread = |connections: usize, value: &dyn Fn(&Pair) -> f64| {
        let pairs = pairs.iter();
        let pairs = pairs.filter(|pair| pair.connections == connections);
        Spread::of(pairs.map(value))
    };
    let shards = format!("{SHARDS} shards");
    let mut table = Table::new(&[
        "µs of CPU for each like",
        "connections",
        "whole",
        shards.as_str(),
        "whole : split",
        "quartiles",
    ]);
    let mut checks = Vec::new();
    for connections in CONNECTIONS {
        for (label, name, part) in PARTS {
            let whole = spread(connections, &|pair| part(&pair.whole) * 1e6).median();
            let split = spread(connections, &|pair| part(&pair.split) * 1e6).median();
            let ratio = spread(connections, &|pair| part(&pair.whole) / part(&pair.split));
            table.row(&[
                label.to_string(),
                connections.to_string(),
                format!("{whole:.2}"),
                format!("{split:.2}"),
                format!("{:.2}", ratio.median()),
                format!("{:.2} .. {:.2}", ratio.low(), ratio.high()),
            ]);
            for (kind, value) in [("whole", whole), ("split", split)] {
                let figure = format!("countd.split.{connections}.{kind}.{name}-us");
                figures.add(figure, value, 2);
            }
        }
        let gain = spread(connections, &|pair| {
            BUSIEST(&pair.whole) / BUSIEST(&pair.split)
        });
        let figure = format!("countd.split.{connections}.gain");
        figures.add(figure, gain.median(), 2);
        checks.push(Check {
            quartiles: Some((gain.low(), gain.high())),
            ..Check::speed(
                format!(
                    "countd, likes for the CPU of the busiest node, {SHARDS} shards : whole, {connections} connections"
                ),
                gain.median(),
                None,
            )
        });
    }
    (table.finish(), checks)
}

/// The table of merges.
fn merges(merges: &[Merge], scale: &CountdScale, figures: &mut Figures) -> String {
    let spread = |facts: u64, value: fn(&Merge) -> f64| {
        let merges = merges.iter().filter(|merge| merge.facts == facts);
        Spread::of(merges.map(value))
    };
    let mut table = Table::new(&[
        "facts",
        "`countd hot merge`, s",
        "quartiles",
        "likes refused, s",
        "facts /s",
    ]);
    for (facts, name) in [(SMALL_MERGE, "small-merge"), (scale.merged_facts, "merge")] {
        let seconds = spread(facts, |merge| merge.seconds);
        let refused = spread(facts, |merge| merge.refused_seconds).median();
        let rate = spread(facts, |merge| merge.facts as f64 / merge.seconds).median();
        table.row(&[
            thousands(facts as f64),
            format!("{:.2}", seconds.median()),
            format!("{:.2} .. {:.2}", seconds.low(), seconds.high()),
            format!("{refused:.2}"),
            format!("{rate:.0}"),
        ]);
        figures.add(format!("countd.split.{name}-s"), seconds.median(), 2);
        figures.add(format!("countd.split.{name}-refused-s"), refused, 2);
        figures.add(format!("countd.split.{name}-facts-per-s"), rate, 0);
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::scale::Scale;

    #[test]
    fn a_split_entity_is_compared_with_a_whole_one() {
        let costs = |busiest, redis| Costs {
            busiest,
            redis,
            countd: 2e-5,
        };
        let pairs = CONNECTIONS.map(|connections| Pair {
            connections,
            whole: costs(8e-6, 9e-6),
            split: costs(4e-6, 1e-5),
        });
        let scale = Scale::full().countd;
        let merges = [SMALL_MERGE, scale.merged_facts].map(|facts| Merge {
            facts,
            seconds: 8.0,
            refused_seconds: 6.5,
        });
        let results = SplitResults {
            pairs: pairs.into(),
            split_seconds: vec![3.0, 2.0, 2.5],
            merges: merges.into(),
        };
        let section = section(&results, &scale);
        let gains: Vec<f64> = section.checks.iter().map(|check| check.value).collect();
        assert!(
            gains.iter().all(|gain| (gain - 2.0).abs() < 1e-9),
            "{gains:?}"
        );
        assert!(section.body.contains("takes 2.50 s"));
        let figures = section.figures.to_json().unwrap();
        for figure in [
            "\"countd.split.64.gain\": 2.0",
            "\"countd.split.512.split.redis-us\": 10.0",
            "\"countd.split.merge-facts-per-s\": 12500",
            "\"countd.split.merge-refused-s\": 6.5",
        ] {
            assert!(figures.contains(figure), "{figure}: {figures}");
        }
    }
}
