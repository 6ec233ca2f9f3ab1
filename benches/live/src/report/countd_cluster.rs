//! The section on the costs in clusters.

use crate::measure::countd::cluster::{Costs, Kind, Measured};
use crate::measure::stats::Spread;
use crate::report::check::Check;
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;

/// The name in `--only`.
pub const NAME: &str = "countd-cluster";
/// The heading.
pub const TITLE: &str = "countd: costs in a cluster";

/// The label and the name in figures of a kind of request.
fn label(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Reads => ("a read in `POST /actions`, counted", "read"),
        Kind::KafkaReads => ("the same with Kafka as the log", "kafka-read"),
        Kind::Likes => ("a like in `POST /actions`, counted", "like"),
        Kind::Single => ("`GET /counter`", "single"),
        Kind::Feeds => ("an entity of a page of 100 of `POST /feed`", "feed"),
    }
}

/// A part of the costs.
type Part = fn(&Costs) -> f64;

const PARTS: [(&str, Part); 4] = [
    ("client", |costs| costs.client),
    ("countd", |costs| costs.countd),
    ("redis", |costs| costs.redis),
    ("broker", |costs| costs.broker),
];

/// Formats the results.
pub fn section(results: &[Measured]) -> Section {
    let spread = |masters: usize, kind: Kind, part: Part| {
        let of = results.iter();
        let of = of.filter(|one| (one.masters, one.kind) == (masters, kind));
        Spread::of(of.map(|one| part(&one.costs) * 1e6))
    };
    let masters = results.iter().map(|one| one.masters).max().unwrap_or(0);
    let (mut table, mut figures, mut checks) = (
        Table::new(&[
            "µs of CPU",
            "servers",
            "client",
            "countd",
            "Redis, all servers",
            "broker",
        ]),
        Figures::default(),
        Vec::new(),
    );
    for kind in Kind::ALL {
        let (what, name) = label(kind);
        for masters in 0..=masters {
            let servers = match masters {
                0 => "one, not in cluster mode".to_owned(),
                1 => "1 master".to_owned(),
                masters => format!("{masters} masters"),
            };
            let costs = PARTS.map(|(part, value)| {
                if part == "broker" && kind != Kind::KafkaReads {
                    return String::new();
                }
                let median = spread(masters, kind, value).median();
                figures.add(
                    format!("countd.cluster.{name}.{masters}.{part}-us"),
                    median,
                    2,
                );
                format!("{median:.2}")
            });
            let [client, countd, redis, broker] = costs;
            table.row(&[what.to_owned(), servers, client, countd, redis, broker]);
        }
        let redis: Part = |costs| costs.redis;
        let ratio = spread(masters, kind, redis).median() / spread(1, kind, redis).median();
        checks.push(Check::cost(
            format!("countd, Redis CPU of {what}, {masters} masters : 1"),
            ratio,
            None,
        ));
    }
    Section {
        title: TITLE.into(),
        body: format!(
            "The CPU time that each part needs for an event, a request or an entity, with 8 connections and a million entities. All servers share a \
             core, and so do countd, the client and the broker (one node, KRaft), so rates say nothing here: with a core for each, a cluster does as many times the work of one server as its \
             parts have CPU.\n\n{}",
            table.finish(),
        ),
        checks,
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_masters_are_compared_with_one() {
        let measured = |masters, redis| {
            Kind::ALL.map(|kind| Measured {
                masters,
                kind,
                costs: Costs {
                    client: 1e-6,
                    countd: 2e-6,
                    redis,
                    broker: 4e-6,
                },
            })
        };
        let all: Vec<Measured> = [(0, 1e-6), (1, 2e-6), (2, 3e-6)]
            .into_iter()
            .flat_map(|(masters, redis)| measured(masters, redis))
            .collect();
        let section = section(&all);
        assert!(section.checks.iter().all(|check| check.value == 1.5));
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"countd.cluster.like.2.redis-us\": 3"));
        assert!(figures.contains("\"countd.cluster.kafka-read.1.broker-us\": 4"));
        assert!(!figures.contains("countd.cluster.read.1.broker-us"));
    }
}
