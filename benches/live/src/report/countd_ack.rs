//! The section on the levels of `redis.ack`.

use crate::measure::countd::ack::{CONNECTIONS, LEVELS, Level, Measured};
use crate::measure::stats::Spread;
use crate::report::check::Check;
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;

/// The name in `--only`.
pub const NAME: &str = "countd-ack";
/// The heading.
pub const TITLE: &str = "countd: how safe a write is when it is confirmed";

/// Formats the results.
pub fn section(results: &[Measured]) -> Section {
    let rates = |level: Level, connections: usize| {
        let of = results.iter();
        let of = of.filter(|one| (one.level, one.connections) == (level, connections));
        let rates: Vec<f64> = of.map(|one| one.per_second).collect();
        (!rates.is_empty()).then(|| Spread::of(rates))
    };
    let (mut table, mut figures, mut checks) = (
        Table::new(&[
            "`redis.ack`",
            "`appendfsync`",
            "connections",
            "likes /s",
            "quartiles",
        ]),
        Figures::default(),
        Vec::new(),
    );
    let mut missing = String::new();
    let [memory, ..] = LEVELS;
    for level in LEVELS {
        let Level {
            ack,
            appendfsync,
            name,
        } = level;
        for connections in CONNECTIONS {
            let Some(rate) = rates(level, connections) else {
                missing = format!("\n`{ack}` was not measured: it needs a server with WAITAOF.\n");
                continue;
            };
            table.row(&[
                format!("`{ack}`"),
                format!("`{appendfsync}`"),
                connections.to_string(),
                format!("{:.0}", rate.median()),
                format!("{:.0} .. {:.0}", rate.low(), rate.high()),
            ]);
            let figure = format!("countd.ack.{name}.{connections}.likes-per-s");
            figures.add(figure, rate.median(), 0);
            if let (true, Some(of_memory)) = (level != memory, rates(memory, connections)) {
                checks.push(Check::speed(
                    format!(
                        "countd, likes over {connections} connections, redis.ack = {ack} with appendfsync {appendfsync} : memory"
                    ),
                    rate.median() / of_memory.median(),
                    None,
                ));
            }
        }
    }
    Section {
        title: TITLE.into(),
        body: format!(
            "`POST /action/like` on a million entities, with an append-only file and a replica on the same core. With `appendfsync everysec` the server syncs the file once a second, with `always` before each reply. One `WAIT` or `WAITAOF` waits for all writes of a pipeline.\n\n{}{missing}",
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
    fn levels_are_compared_with_memory() {
        let measured = |name, connections, per_second| Measured {
            level: LEVELS
                .into_iter()
                .find(|level| level.name == name)
                .expect("a level"),
            connections,
            per_second,
        };
        let section = section(&[
            measured("memory", 1, 8_000.0),
            measured("memory", 64, 20_000.0),
            measured("replicas-1", 1, 4_000.0),
            measured("replicas-1", 64, 15_000.0),
        ]);
        let values: Vec<f64> = section.checks.iter().map(|check| check.value).collect();
        assert_eq!(values, [0.5, 0.75]);
        assert!(section.body.contains("`fsync` was not measured"));
    }
}
