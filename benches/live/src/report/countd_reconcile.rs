//! The section on the cost of reconciliation.

use crate::measure::countd::reconcile::{ReconcileCosts, RoundCost};
use crate::measure::stats::Spread;
use crate::report::check::{Check, Threshold};
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;
use crate::workload::ids::short;
use crate::workload::scale::CountdScale;

/// The name in `--only`.
pub const NAME: &str = "countd-reconcile";
/// The heading.
pub const TITLE: &str = "countd: reconciliation";

/// Maximum share of the server's core, in percent, of a sweep of a million entities in a minute.
const MAX_SWEEP: f64 = 10.0;
/// Maximum share of the server's core, in percent, of the default rounds with ten million entities.
const MAX_ROUNDS: f64 = 1.0;
/// Entities and seconds of the sweep with a threshold.
const SWEEP: (f64, f64) = (1e6, 60.0);
/// Entities, and the default sample and interval of rounds in seconds.
const ROUNDS: (f64, f64, f64) = (10e6, 48.0, 600.0);

/// The number of facts of ten million entities, four each as in the measurement.
const VERIFIED_FACTS: f64 = 40e6;

/// Formats the results.
pub fn section(results: &ReconcileCosts, scale: &CountdScale) -> Section {
    let (verification, results) = (&results.verification, &results.rounds);
    let kinds = || {
        let mut kinds: Vec<(u64, bool)> = results.iter().map(kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    };
    let of_kind = |of: (u64, bool), value: fn(&RoundCost) -> f64| {
        let rounds = results.iter().filter(move |round| kind(round) == of);
        Spread::of(rounds.map(value)).median()
    };
    let of = |sample: u64, value| of_kind((sample, false), value);
    let mut table = Table::new(&[
        "",
        "seconds",
        "server CPU, s",
        "server CPU, µs per compared entity",
        "entities per second of server CPU",
        "countd CPU, s",
    ]);
    for kind in kinds() {
        let each = of_kind(kind, RoundCost::server_cpu_each);
        table.row(&[
            match kind {
                (1, true) => "first sweep".to_string(),
                (1, false) => "full sweep".to_string(),
                (sample, _) => format!("sample of 1 : {sample}"),
            },
            format!("{:.1}", of_kind(kind, |round| round.seconds)),
            format!("{:.3}", of_kind(kind, |round| round.server_cpu)),
            format!("{:.2}", each * 1e6),
            format!("{:.0}", 1.0 / each),
            format!("{:.2}", of_kind(kind, |round| round.countd_cpu)),
        ]);
    }
    let sampled = kinds().into_iter().map(|(sample, _)| sample).max();
    let sampled = sampled.unwrap_or(1);
    let sweep = of(1, RoundCost::server_cpu_each) * SWEEP.0 / SWEEP.1 * 100.0;
    let (entities, sample, seconds) = ROUNDS;
    let rounds = of(sampled, RoundCost::server_cpu_each) * entities / sample / seconds * 100.0;
    let idle = of(1, |round| round.idle_server_cpu) * 100.0;
    let fact = verification.server_cpu / verification.facts as f64;
    let (facts, pause) = (VERIFIED_FACTS, sample * seconds);
    let verified = fact * facts / pause * 100.0;
    let mut figures = Figures::default();
    figures.add("countd.reconcile.us-per-fact", fact * 1e6, 2);
    figures.add("countd.reconcile.verification-share-percent", verified, 2);
    figures.add(
        "countd.reconcile.entities-per-cpu-s",
        1.0 / of(1, RoundCost::server_cpu_each),
        0,
    );
    figures.add("countd.reconcile.sweep-share-percent", sweep, 2);
    figures.add("countd.reconcile.rounds-share-percent", rounds, 2);
    let at_most = |what: &str, value, threshold| {
        Check::absolute(what.into(), value, "%", Threshold::AtMost(threshold))
    };
    Section {
        title: TITLE.into(),
        body: format!(
            "{} notes have counters in tables, three users who like them and one who collects them (id sets). `countd all` compares \
             them in one round, without limit of its rate. Clients do nothing. CPU times are those between the beginning of \
             the round and its end, without those of an idle countd, which takes {idle:.2} % of the server's core. A sweep compares the counters of each row with their facts. It has to correct \
             the 20 counters that were made wrong. The first one also visits each key of facts, to find rows that were lost. Later ones visit half of the keys each, because no entity \
             has an object: two of them find a lost row that nobody reads.\n\n{}\n\
             Shares of the server's core follow from the CPU time for each compared entity: a sweep of a million entities in {} s takes {sweep:.2} %. \
             The default rounds of ten million entities compare {:.0} of them in {seconds} s, which takes {rounds:.2} %.\n\n\
             On another server {} such facts are kept for their {} users, too. A verification compares each fact with those of its user and back, which takes \
             {:.1} s of the server's CPU, {:.2} µs for each fact. Of {} facts, once in {:.0} hours as by default, it takes {verified:.2} % of the server's core.\n",
            short(scale.compared_entities),
            table.finish(),
            SWEEP.1,
            entities / sample,
            short(verification.facts),
            short(verification.users),
            verification.server_cpu,
            fact * 1e6,
            short(facts as u64),
            pause / 3600.0,
        ),
        checks: vec![
            at_most(
                "countd, sweep of 1M entities in 60 s, share of the server's core",
                sweep,
                MAX_SWEEP,
            ),
            at_most(
                "countd, default rounds of 10M entities, share of the server's core",
                rounds,
                MAX_ROUNDS,
            ),
        ],
        figures,
        ..Section::default()
    }
}

/// The sample of a round, and whether it is the first.
fn kind(round: &RoundCost) -> (u64, bool) {
    (round.sample, round.is_first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::countd::reconcile::VerificationCost;
    use crate::workload::scale::Scale;

    #[test]
    fn shares_follow_from_the_cost_of_an_entity() {
        let round = |sample, server_cpu| RoundCost {
            entities: 1_000_000,
            sample,
            is_first: false,
            seconds: 20.0,
            server_cpu,
            countd_cpu: 10.0,
            idle_server_cpu: 0.001,
        };
        // 5 µs and 30 µs for each compared entity.
        let costs = ReconcileCosts {
            rounds: vec![round(1, 5.0), round(5, 6.0)],
            verification: VerificationCost {
                facts: 4_000_000,
                users: 100_000,
                server_cpu: 8.0,
            },
        };
        let section = section(&costs, &Scale::full().countd);
        let shares: Vec<f64> = section.checks.iter().map(|check| check.value).collect();
        assert!((shares[0] - 8.33).abs() < 0.01, "{shares:?}");
        assert!((shares[1] - 1.04).abs() < 0.01, "{shares:?}");
        let met: Vec<_> = section.checks.iter().filter_map(Check::met).collect();
        assert_eq!(met, [true, false]);
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"countd.reconcile.entities-per-cpu-s\": 200000"));
        // 2 µs for each of 40 million facts, in 8 hours.
        assert!(figures.contains("\"countd.reconcile.verification-share-percent\": 0.28"));
    }
}
