//! Comparisons of sets: each distribution of ids, in one key and in many.

use crate::driver::programs::Programs;
use crate::workload::comparison::{Comparison, Ratio, Side, first_to_others};
use crate::workload::dataset::DataSet;
use crate::workload::id_source::{IdSource, Presence};
use crate::workload::ids::{Distribution, Layout};
use crate::workload::scale::Scale;
use crate::workload::set_kind::SetKind;

/// The thresholds of `RBM.CONTAINS : SISMEMBER` for a hashtable and for an intset.
const CONTAINS_TO_HASHTABLE: f64 = 1.2;
const CONTAINS_TO_INTSET: f64 = 0.9;
/// The threshold of `RBM.ADD : SADD` for every encoding of the Set.
const ADD_TO_SADD: f64 = 0.9;
/// The threshold of `RBM.MMARK` of [`GROUP`] members to as many `RBM.MARK`.
const MMARK_TO_MARK: f64 = 3.0;
/// The members of a `RBM.MMARK`.
const GROUP: u64 = 32;

/// The placeholders of a set and a member ([`crate::workload::template`]).
const KEY: &str = "rbm:like:note:<set>";
const MEMBER: &str = "<same>";

/// The comparisons, in the order in which they run.
pub fn comparisons(programs: &Programs, scale: &Scale) -> Vec<Comparison> {
    let one = Layout {
        sets: 1,
        size: scale.members,
    };
    let many = Layout {
        sets: scale.members / 100,
        size: 100,
    };
    // Insertions into an intset take linear time, so larger ones are not practical.
    let ints = Layout {
        sets: 1,
        size: scale.members / 10,
    };
    let mut all = vec![successive(one)];
    for distribution in [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(2 * scale.members),
    ] {
        let set = |layout_name, layout| Sets {
            layout_name,
            distribution,
            layout,
            programs,
        };
        all.push(set("one", one).contains(&[SetKind::Hashtable]));
        all.push(set("one", one).add(&[SetKind::Hashtable]));
        if matches!(distribution, Distribution::Dense(_)) {
            all.push(set("one", one).mark());
            all.push(set("one", one).mmark());
        }
        all.push(set("many", many).contains(&[SetKind::Hashtable, SetKind::Intset]));
        all.push(set("many", many).add(&[SetKind::Hashtable, SetKind::Intset]));
        all.push(set("ints", ints).contains(&[SetKind::Intset]));
    }
    all
}

/// Successive ids, hits only: rendering the likes of one large post.
fn successive(layout: Layout) -> Comparison {
    let distribution = Distribution::Successive;
    let side = |kind: SetKind| {
        let data = DataSet::Members(kind, distribution, layout);
        let commands = kind.contains(KEY, MEMBER);
        Side::new(command_name(&commands), data, commands.clone())
    };
    Comparison {
        name: "contains-successive".into(),
        group: "contains",
        stage: "successive".into(),
        title: format!("Membership, successive ids, {}, hits only", layout.label()),
        unit: "operations",
        units: 1,
        ids: IdSource::Members(distribution, layout, Presence::Present),
        sides: vec![side(SetKind::Rbm), side(SetKind::Hashtable)],
        ratios: first_to_others(&[Some(CONTAINS_TO_HASHTABLE)]),
        qualifier: ", successive ids".into(),
    }
}

/// Sets of one distribution in one layout.
struct Sets<'a> {
    /// The name of the layout in `--only`.
    layout_name: &'static str,
    distribution: Distribution,
    layout: Layout,
    programs: &'a Programs,
}

impl Sets<'_> {
    /// The RBM, the given Sets, then the other kinds that are available.
    fn kinds(&self, sets: &[SetKind]) -> Vec<SetKind> {
        let mut kinds = vec![SetKind::Rbm];
        kinds.extend(sets);
        // The comparison with a large intset has no other sides.
        if self.layout_name == "ints" {
            return kinds;
        }
        if matches!(self.distribution, Distribution::Dense(_)) && self.layout.sets == 1 {
            kinds.push(SetKind::Bitmap);
        }
        kinds.extend([SetKind::Roaring, SetKind::Cuckoo]);
        kinds.retain(|kind| kind.available(self.programs));
        kinds
    }

    fn data(&self, kind: SetKind) -> DataSet {
        DataSet::Members(kind, self.distribution, self.layout)
    }

    fn comparison(&self, group: &'static str, title: &str, presence: Presence) -> Comparison {
        let (kind, layout) = (self.distribution.name(), self.layout);
        Comparison {
            name: format!("{group}-{kind}-{}", self.layout_name),
            group,
            stage: format!("{kind} {}", self.layout_name),
            title: format!("{title}, {}, {}", self.distribution.label(), layout.label()),
            unit: "operations",
            units: 1,
            ids: IdSource::Members(self.distribution, layout, presence),
            sides: Vec::new(),
            ratios: Vec::new(),
            qualifier: format!(", {kind}, {}", layout.label()),
        }
    }

    fn contains(&self, sets: &[SetKind]) -> Comparison {
        let side = |kind: SetKind| {
            let commands = kind.contains(KEY, MEMBER);
            Side::new(&label(&commands, kind), self.data(kind), commands.clone())
        };
        let kinds = self.kinds(sets);
        Comparison {
            sides: kinds.iter().map(|&kind| side(kind)).collect(),
            ratios: ratios(&kinds, |kind| match kind {
                SetKind::Hashtable => Some(CONTAINS_TO_HASHTABLE),
                SetKind::Intset => Some(CONTAINS_TO_INTSET),
                _ => None,
            }),
            ..self.comparison(
                "contains",
                "Membership, half of the ids absent",
                Presence::Half,
            )
        }
    }

    fn add(&self, sets: &[SetKind]) -> Comparison {
        let side = |kind: SetKind| {
            let commands = kind.add(KEY, MEMBER);
            Side::new(&label(&commands, kind), self.data(kind), commands.clone())
                .with_undo(kind.remove(KEY, MEMBER))
        };
        let kinds = self.kinds(sets);
        Comparison {
            sides: kinds.iter().map(|&kind| side(kind)).collect(),
            ratios: ratios(&kinds, |kind| match kind {
                SetKind::Hashtable | SetKind::Intset => Some(ADD_TO_SADD),
                _ => None,
            }),
            ..self.comparison("add", "Adding members in random order", Presence::Absent)
        }
    }

    /// Adding a fact, counting it and appending its event.
    fn mark(&self) -> Comparison {
        let ours = mark_command;
        let theirs = |script| format!("EVALSHA <script:{script}> 3 {KEY} cnt:mark x:mark {MEMBER}");
        Comparison {
            name: "mark".into(),
            sides: vec![
                Side::new("RBM.MARK", self.data(SetKind::Rbm), ours("RBM.MARK", 1))
                    .with_undo(ours("RBM.UNMARK", -1)),
                Side::new(
                    "script: SADD, HINCRBY, XADD",
                    self.data(SetKind::Hashtable),
                    theirs("mark"),
                )
                .with_undo(theirs("unmark")),
            ],
            ratios: first_to_others(&[None]),
            ..self.comparison(
                "mark",
                "Adding a fact, its count and its event atomically",
                Presence::Absent,
            )
        }
    }

    /// Adding facts of several users on one entity: in one step with one event, and one after the other.
    fn mmark(&self) -> Comparison {
        let group = |name, delta| {
            let others = GROUP - 1;
            format!(
                "{name} {KEY} {MEMBER} <id>*{others} COUNT cnt:mark 1 EVENT x:mark MAXLEN 100000 delta {delta}"
            )
        };
        let single = |name, delta| format!("{GROUP}x {}", mark_command(name, delta));
        let data = self.data(SetKind::Rbm);
        Comparison {
            name: "mmark".into(),
            units: GROUP,
            sides: vec![
                Side::new("RBM.MMARK", data, group("RBM.MMARK", 1))
                    .with_undo(group("RBM.MUNMARK", -1)),
                Side::new("RBM.MARK", data, single("RBM.MARK", 1))
                    .with_undo(single("RBM.UNMARK", -1)),
            ],
            ratios: first_to_others(&[Some(MMARK_TO_MARK)]),
            ..self.comparison(
                "mmark",
                &format!("Adding {GROUP} facts on one entity, with their counts and events"),
                Presence::Absent,
            )
        }
    }
}

/// A command that adds or removes a fact, counts it and appends its event.
fn mark_command(name: &str, delta: i64) -> String {
    format!(
        "{name} {KEY} {MEMBER} COUNT cnt:mark 1 EVENT x:mark MAXLEN 100000 uid {MEMBER} delta {delta}"
    )
}

/// The ratios of the RBM to each of the others.
fn ratios(kinds: &[SetKind], threshold: impl Fn(SetKind) -> Option<f64>) -> Vec<Ratio> {
    first_to_others(
        &kinds[1..]
            .iter()
            .map(|&kind| threshold(kind))
            .collect::<Vec<_>>(),
    )
}

/// A command's name, with the encoding of the Set.
fn label(commands: &str, kind: SetKind) -> String {
    let name = command_name(commands);
    match kind {
        SetKind::Hashtable => format!("{name}, hashtable"),
        SetKind::Intset => format!("{name}, intset"),
        _ => name.into(),
    }
}

fn command_name(commands: &str) -> &str {
    commands.split(' ').next().unwrap_or_default()
}
