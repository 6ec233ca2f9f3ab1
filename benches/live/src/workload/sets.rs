//! Comparisons of sets of ids: each distribution, in one key and in many.

use super::{Comparison, Ratio, Side, first_against};
use crate::dataset::DataSet;
use crate::distribution::{Distribution, Layout, short};
use crate::numbers::{Asked, Pick};
use crate::options::Options;
use crate::setform::SetForm;

/// The least `RBM.CONTAINS : SISMEMBER` of a hashtable, and of an intset.
const CONTAINS_TABLE: f64 = 1.2;
const CONTAINS_INTS: f64 = 0.9;
/// The least `RBM.ADD : SADD`, whatever the Set is stored as.
const ADD: f64 = 0.9;

/// In every comparison of sets, and the notation in which commands name a set and a member.
const KEY: &str = "rbm:like:note:<set>";
const MEMBER: &str = "<same>";

/// In the order in which they run.
pub fn comparisons(options: &Options) -> Vec<Comparison> {
    let one = Layout {
        sets: 1,
        size: options.scale.members,
    };
    let many = Layout {
        sets: options.scale.members / 100,
        size: 100,
    };
    // An intset takes time proportional to its size for every insertion: nobody would let it grow further.
    let ints = Layout {
        sets: 1,
        size: options.scale.members / 10,
    };
    let mut all = vec![successive(one)];
    for distribution in [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(2 * options.scale.members),
    ] {
        let set = |place, layout| Sets {
            place,
            distribution,
            layout,
            options,
        };
        all.push(set("one", one).contains(&[SetForm::Table]));
        all.push(set("one", one).add(&[SetForm::Table]));
        if matches!(distribution, Distribution::Dense(_)) {
            all.push(set("one", one).mark());
        }
        all.push(set("many", many).contains(&[SetForm::Table, SetForm::Ints]));
        all.push(set("many", many).add(&[SetForm::Table, SetForm::Ints]));
        all.push(set("ints", ints).contains(&[SetForm::Ints]));
    }
    all
}

/// A million members, all asked for: what a page of likes of one large post asks.
fn successive(layout: Layout) -> Comparison {
    let distribution = Distribution::Successive;
    let side = |form: SetForm| {
        let data = DataSet::Members(form, distribution, layout);
        let commands = form.contains(KEY, MEMBER);
        Side::new(command_name(&commands), data, commands.clone())
    };
    Comparison {
        name: "contains-successive".into(),
        group: "contains",
        stage: "successive".into(),
        title: format!("Membership, successive ids, {}, hits only", layout.label()),
        unit: "operations",
        units: 1,
        pick: Pick::Members(distribution, layout, Asked::Present),
        sides: vec![side(SetForm::Rbm), side(SetForm::Table)],
        ratios: first_against(&[Some(CONTAINS_TABLE)]),
        distinction: ", successive ids".into(),
    }
}

/// Sets of one distribution in one layout.
struct Sets<'a> {
    /// What `--only` calls the layout.
    place: &'static str,
    distribution: Distribution,
    layout: Layout,
    options: &'a Options,
}

impl Sets<'_> {
    /// Ours, then the Sets given, then what else there is.
    fn forms(&self, sets: &[SetForm]) -> Vec<SetForm> {
        let mut forms = vec![SetForm::Rbm];
        forms.extend(sets);
        // The comparison with a raised intset is about nothing else.
        if self.place == "ints" {
            return forms;
        }
        if matches!(self.distribution, Distribution::Dense(_)) && self.layout.sets == 1 {
            forms.push(SetForm::Bitmap);
        }
        forms.extend([SetForm::Roaring, SetForm::Cuckoo]);
        forms.retain(|form| form.available(self.options));
        forms
    }

    fn data(&self, form: SetForm) -> DataSet {
        DataSet::Members(form, self.distribution, self.layout)
    }

    fn comparison(&self, group: &'static str, title: &str, asked: Asked) -> Comparison {
        let (kind, layout) = (self.distribution.name(), self.layout);
        Comparison {
            name: format!("{group}-{kind}-{}", self.place),
            group,
            stage: format!("{kind} {}", self.place),
            title: format!("{title}, {}, {}", self.distribution.label(), layout.label()),
            unit: "operations",
            units: 1,
            pick: Pick::Members(self.distribution, layout, asked),
            sides: Vec::new(),
            ratios: Vec::new(),
            distinction: format!(", {kind}, {}", layout.label()),
        }
    }

    fn contains(&self, sets: &[SetForm]) -> Comparison {
        let side = |form: SetForm| {
            let commands = form.contains(KEY, MEMBER);
            Side::new(&label(&commands, form), self.data(form), commands.clone())
        };
        let forms = self.forms(sets);
        Comparison {
            sides: forms.iter().map(|&form| side(form)).collect(),
            ratios: ratios(&forms, |form| match form {
                SetForm::Table => Some(CONTAINS_TABLE),
                SetForm::Ints => Some(CONTAINS_INTS),
                _ => None,
            }),
            ..self.comparison("contains", "Membership, half of it misses", Asked::Either)
        }
    }

    fn add(&self, sets: &[SetForm]) -> Comparison {
        let side = |form: SetForm| {
            let commands = form.add(KEY, MEMBER);
            Side::new(&label(&commands, form), self.data(form), commands.clone())
                .undone_by(form.remove(KEY, MEMBER))
        };
        let forms = self.forms(sets);
        Comparison {
            sides: forms.iter().map(|&form| side(form)).collect(),
            ratios: ratios(&forms, |form| match form {
                SetForm::Table | SetForm::Ints => Some(ADD),
                _ => None,
            }),
            ..self.comparison("add", "New members in scattered order", Asked::EachAbsent)
        }
    }

    /// A fact, its count and its event.
    fn mark(&self) -> Comparison {
        let ours = |name, delta| {
            format!(
                "{name} {KEY} {MEMBER} COUNT cnt:mark 1 EVENT x:mark MAXLEN 100000 uid {MEMBER} delta {delta}"
            )
        };
        let theirs = |script| format!("EVALSHA <script:{script}> 3 {KEY} cnt:mark x:mark {MEMBER}");
        Comparison {
            name: "mark".into(),
            sides: vec![
                Side::new("RBM.MARK", self.data(SetForm::Rbm), ours("RBM.MARK", 1))
                    .undone_by(ours("RBM.UNMARK", -1)),
                Side::new(
                    "script: SADD, HINCRBY, XADD",
                    self.data(SetForm::Table),
                    theirs("mark"),
                )
                .undone_by(theirs("unmark")),
            ],
            ratios: first_against(&[None]),
            ..self.comparison(
                "mark",
                "A new fact, its count and its event as one step",
                Asked::EachAbsent,
            )
        }
    }
}

/// Ours against each of the others.
fn ratios(forms: &[SetForm], bar: impl Fn(SetForm) -> Option<f64>) -> Vec<Ratio> {
    first_against(&forms[1..].iter().map(|&form| bar(form)).collect::<Vec<_>>())
}

/// A command's name, with the kind of Set where that is not plain.
fn label(commands: &str, form: SetForm) -> String {
    let name = command_name(commands);
    match form {
        SetForm::Table => format!("{name}, hashtable"),
        SetForm::Ints => format!("{name}, intset"),
        _ => name.into(),
    }
}

fn command_name(commands: &str) -> &str {
    commands.split(' ').next().unwrap_or_default()
}

/// What the sets hold, for the report.
pub fn description(members: u64) -> String {
    format!(
        "Snowflakes are any of 2^48.5 successive ids of Twitter's layout (26 hours: 2^28.5 apart on average at a million), \
         sparse ids any of 2^32, dense ids any of {}. Sets called *hashtable* run with `set-max-intset-entries 0`, \
         those called *intset* with it raised.",
        short(2 * members)
    )
}
