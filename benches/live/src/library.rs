//! Sets in the library alone, beside `BTreeSet`: what a member costs before any server is in the way.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use countint_core::idset::IdSet;

use crate::Result;
use crate::distribution::{Distribution, short};
use crate::options::Options;
use crate::report::{Section, Verdict};
use crate::stats::Spread;

/// What `--only` calls it.
pub const NAME: &str = "library";
/// Its heading.
pub const TITLE: &str = "In the library alone";

/// The most of `BTreeSet`'s time that a new member may take, and a question for one.
const BARS: [f64; 2] = [2.1, 1.1];
/// Times that each is measured, in turn.
const ROUNDS: usize = 7;
/// One new member for so many that are there.
const FRESH: u64 = 5;

/// Nanoseconds a member.
#[derive(Default)]
struct Times {
    insert: Vec<f64>,
    contains: Vec<f64>,
}

/// What both kinds of set can do.
trait Members: Clone {
    fn insert(&mut self, m: u64) -> bool;
    fn contains(&self, m: u64) -> bool;
}

impl Members for IdSet {
    fn insert(&mut self, m: u64) -> bool {
        IdSet::insert(self, m)
    }

    fn contains(&self, m: u64) -> bool {
        IdSet::contains(self, m)
    }
}

impl Members for BTreeSet<u64> {
    fn insert(&mut self, m: u64) -> bool {
        BTreeSet::insert(self, m)
    }

    fn contains(&self, m: u64) -> bool {
        BTreeSet::contains(self, &m)
    }
}

/// Puts new members into large sets, in scattered order, and asks for members, half of which are there.
pub fn measure(options: &Options) -> Result<Section> {
    let members = options.scale.members;
    let mut body = format!(
        "{} members in one set, ids in scattered order, without a server: new members, and questions of which half find \
         something. Nanoseconds of one, medians of {ROUNDS} rounds in which the two take turns; the bars are ratios, \
         since machines differ.\n\n\
         | ns a member | IdSet | BTreeSet | ratio | quartiles | bar | |\n|---|---|---|---|---|---|---|\n",
        short(members)
    );
    let mut verdicts = Vec::new();
    for distribution in [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(2 * members),
    ] {
        let (ours, theirs) = compare(distribution, members);
        let pairs = [
            ("insert", ours.insert, theirs.insert),
            ("contains", ours.contains, theirs.contains),
        ];
        for ((what, ours, theirs), bar) in pairs.into_iter().zip(BARS) {
            let ratio = Spread::of(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs));
            let what = format!("library, {what}, {}", distribution.label());
            let [ours, theirs] = [ours, theirs].map(|times| Spread::of(times).median());
            let verdict = Verdict {
                range: Some((ratio.low(), ratio.high())),
                ..Verdict::cost(what, ratio.median(), Some(bar))
            };
            let _ = writeln!(
                body,
                "| {} | {ours:.0} | {theirs:.0} | {:.3} | {:.2} .. {:.2} | {} | {} |",
                verdict.what,
                verdict.value,
                ratio.low(),
                ratio.high(),
                verdict.bar_cell(),
                verdict.outcome()
            );
            verdicts.push(verdict);
        }
    }
    Ok(Section {
        title: TITLE.into(),
        body,
        verdicts,
        losses: Vec::new(),
        charts: Vec::new(),
    })
}

/// Both kinds of set with the same members, in turn.
fn compare(distribution: Distribution, members: u64) -> (Times, Times) {
    let ids = |range: std::ops::Range<u64>| range.map(move |i| distribution.nth(i));
    let ours: IdSet = ids(0..members).collect();
    let theirs: BTreeSet<u64> = ids(0..members).collect();
    let fresh: Vec<u64> = ids(members..members + members / FRESH).collect();
    let inside = ids(0..members).step_by(FRESH as usize);
    let probes: Vec<u64> = fresh
        .iter()
        .copied()
        .zip(inside)
        .flat_map(<[u64; 2]>::from)
        .collect();
    let (mut our_times, mut their_times) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        round(&ours, &fresh, &probes, &mut our_times);
        round(&theirs, &fresh, &probes, &mut their_times);
    }
    (our_times, their_times)
}

fn round(set: &impl Members, fresh: &[u64], probes: &[u64], times: &mut Times) {
    let started = Instant::now();
    let found = probes.iter().filter(|&&m| set.contains(m)).count();
    times.contains.push(nanoseconds(started, probes.len()));
    assert_eq!(black_box(found), probes.len() / 2, "half are there");
    let mut grown = set.clone();
    let started = Instant::now();
    let added = fresh.iter().filter(|&&m| grown.insert(m)).count();
    times.insert.push(nanoseconds(started, fresh.len()));
    assert_eq!(black_box(added), fresh.len(), "all are new");
}

fn nanoseconds(since: Instant, of: usize) -> f64 {
    since.elapsed().as_nanos() as f64 / of as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_do_all_that_is_timed() {
        let (ours, theirs) = compare(Distribution::Snowflake, 1_000);
        for times in [ours, theirs] {
            assert_eq!(times.insert.len(), ROUNDS);
            assert_eq!(times.contains.len(), ROUNDS);
        }
    }
}
