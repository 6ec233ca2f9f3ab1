//! The section on the error of the model of `countd size` with clusters and Kafka.

use crate::measure::countd::sizing::Compared;
use crate::measure::countd::sizing_cluster::{DEPLOYMENTS, Deployment, LEVELS, Measured};
use crate::measure::stats::Spread;
use crate::report::countd_sizing::{cell, error, label, medians};
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;

/// The name in `--only`.
pub const NAME: &str = "countd-sizing-cluster";
/// The heading.
pub const TITLE: &str = "countd: the model of countd size, with clusters and Kafka";

/// The compared values.
const CPU: [fn(&Measured) -> Compared; 2] = [|one| one.countd_cpu, |one| one.redis_cpu];

fn servers(deployment: Deployment) -> &'static str {
    match (deployment.masters, deployment.is_kafka) {
        (1, false) => "one, not in cluster mode",
        (1, true) => "one, not in cluster mode, and Kafka",
        (_, false) => "3 masters",
        (_, true) => "3 masters, and Kafka",
    }
}

/// Formats the results.
pub fn section(results: &[Measured]) -> Section {
    let mut table = Table::new(&[
        "",
        "servers",
        "of the capacity",
        "requests /s",
        "countd, µs of CPU each: measured, model",
        "busiest master, µs of CPU each",
    ]);
    // Of streams, and of Kafka.
    let mut errors = [0.0f64; 2];
    for deployment in DEPLOYMENTS {
        for load in deployment.loads() {
            for level in LEVELS {
                let of = (deployment, *load, level);
                let chosen = results
                    .iter()
                    .filter(|one| (one.deployment, one.load, one.level) == of);
                let chosen: Vec<&Measured> = chosen.collect();
                if chosen.is_empty() {
                    continue;
                }
                let rate = Spread::of(chosen.iter().map(|one| one.per_second)).median();
                let [countd, redis] = CPU.map(|value| medians(&chosen, value));
                table.row(&[
                    label(*load).to_owned(),
                    servers(deployment).to_owned(),
                    format!("{:.0} %", level * 100.0),
                    format!("{rate:.0}"),
                    cell(countd, 1),
                    cell(redis, 1),
                ]);
                let worst = &mut errors[usize::from(deployment.is_kafka)];
                *worst = worst.max(error(countd)).max(error(redis));
            }
        }
    }
    let mut figures = Figures::default();
    for (name, error) in ["cluster", "kafka"].into_iter().zip(errors) {
        figures.add(format!("countd.sizing.{name}.cpu-error-percent"), error, 0);
    }
    let [cluster, kafka] = errors;
    Section {
        title: TITLE.into(),
        body: format!(
            "Open-loop load as for [one server](#countd-the-model-of-countd-size): Poisson arrivals, at shares of the rate at which one of the two cores would be busy all the time if each request came alone. One core runs all servers of Redis, the other \
             `countd all`, the client and the broker (one node, KRaft, topics with 16 partitions), so only CPU times are compared. The model is asked for as many masters, with streams or Kafka as the log. Cells have the measured value and that of the \
             model.\n\n{}\nThe largest differences are {cluster:.0} % of the CPU time with streams, and {kafka:.0} % with Kafka.\n",
            table.finish(),
        ),
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::countd::sizing::Load;

    #[test]
    fn the_largest_error_of_each_log_is_a_figure() {
        let one = |deployment, predicted| Measured {
            deployment,
            load: Load::Mixed,
            level: LEVELS[0],
            per_second: 1_000.0,
            countd_cpu: Compared {
                measured: 20e-6,
                predicted: Some(predicted),
            },
            redis_cpu: Compared {
                measured: 10e-6,
                predicted: Some(9e-6),
            },
        };
        let [cluster, kafka, _] = DEPLOYMENTS;
        let found = section(&[one(cluster, 15e-6), one(kafka, 28e-6)]);
        let json = found.figures.to_json().unwrap();
        for (name, error) in [("cluster", 25), ("kafka", 40)] {
            let line = format!("\"countd.sizing.{name}.cpu-error-percent\": {error}");
            assert!(json.contains(&line), "{json}");
        }
        let body = found.body;
        assert!(
            body.contains("| 3 masters | 25 % | 1000 | 20.0, 15.0 | 10.0, 9.0 |"),
            "{body}"
        );
    }
}
