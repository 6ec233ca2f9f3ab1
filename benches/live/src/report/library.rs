//! The section on `IdSet` without a server.

use crate::measure::library::{LibraryTimes, ROUNDS, Times};
use crate::measure::stats::Spread;
use crate::report::check::Check;
use crate::report::section::Section;
use crate::report::table::Table;
use crate::workload::ids::short;

/// The name in `--only`.
pub const NAME: &str = "library";
/// The heading.
pub const TITLE: &str = "In the library alone";

/// The operations, and the maximum ratio of `IdSet`'s time to `BTreeSet`'s.
type Operation = (&'static str, fn(&Times) -> &[f64], f64);
const OPERATIONS: [Operation; 2] = [
    ("insert", |times| &times.insert, 2.1),
    ("contains", |times| &times.contains, 1.1),
];

/// Formats the times of sets of `members` members.
pub fn section(all: &[LibraryTimes], members: u64) -> Section {
    let mut table = Table::new(&["ns per member", "IdSet", "BTreeSet", "ratio", "quartiles"]);
    let mut checks = Vec::new();
    for times in all {
        for (operation, of, threshold) in OPERATIONS {
            let (ours, theirs) = (of(&times.ours), of(&times.theirs));
            let ratio = Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs));
            let what = format!("library, {operation}, {}", times.distribution.label());
            let median = |times: &[f64]| Spread::of(times.iter().copied()).median();
            table.row(&[
                what.clone(),
                format!("{:.0}", median(ours)),
                format!("{:.0}", median(theirs)),
                format!("{:.3}", ratio.median()),
                format!("{:.2} .. {:.2}", ratio.low(), ratio.high()),
            ]);
            checks.push(Check {
                quartiles: Some((ratio.low(), ratio.high())),
                ..Check::cost(what, ratio.median(), Some(threshold))
            });
        }
    }
    Section {
        title: TITLE.into(),
        body: format!(
            "{} members in one set, ids in random order, without a server: inserting new members, and testing membership with \
             half of the ids absent. Nanoseconds per member, medians of {ROUNDS} rounds in which both structures take turns. \
             `cargo bench --bench idset` measures more of `IdSet`'s operations.\n\n{}",
            short(members),
            table.finish()
        ),
        checks,
        ..Section::default()
    }
}
