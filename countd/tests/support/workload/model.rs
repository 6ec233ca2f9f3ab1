//! The model of a workload: the expected result.

use super::size::{ACTIVITY, WorkloadSize};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// The expected result.
#[derive(Default)]
pub struct Model {
    /// Facts: metric, entity type, entity id, user.
    pub facts: BTreeSet<(&'static str, &'static str, u64, u64)>,
    /// Reads and comments of notes.
    pub counts: BTreeMap<(&'static str, u64), u64>,
    /// Notes whose author an action or an envelope has named.
    pub(super) named: BTreeSet<u64>,
    /// The authors of the notes that move.
    pub(super) moved: BTreeMap<u64, Option<u64>>,
}

/// The number of authors who do nothing else.
pub(super) const AUTHORS: u64 = 17;

/// All authors.
pub fn authors() -> impl Iterator<Item = u64> {
    (0..AUTHORS).map(|number| 5_000_000 + number)
}

/// Whether a note moves between authors. Only one client names and changes the author of such a note, so the last change is known.
/// Of the other notes, every client names the same author, or none.
pub(super) fn moves(note: u64) -> bool {
    note.is_multiple_of(3)
}

/// The author of a note that does not move: one of the [`authors`], or a user, who may publish it.
pub(super) fn fixed_author(note: u64, size: WorkloadSize) -> u64 {
    match note % 3 {
        1 => 5_000_000 + note % AUTHORS,
        _ => 1 + note / 3 % (size.users * size.clients),
    }
}

impl Model {
    /// Adds or removes a fact.
    pub(super) fn fact(
        &mut self,
        metric: &'static str,
        etype: &'static str,
        eid: u64,
        uid: u64,
        is_add: bool,
    ) {
        let fact = (metric, etype, eid, uid);
        if is_add {
            self.facts.insert(fact);
        } else {
            self.facts.remove(&fact);
        }
    }

    /// Adds to a count of a note.
    pub(super) fn count(&mut self, metric: &'static str, note: u64, delta: i64) {
        let count = self.counts.entry((metric, note)).or_default();
        *count = count
            .checked_add_signed(delta)
            .expect("only what was added is removed");
    }

    /// Removes everything of a note.
    pub(super) fn erase(&mut self, note: u64) {
        self.facts.retain(|fact| (fact.1, fact.2) != ("note", note));
        self.counts.retain(|of, _| of.1 != note);
        self.named.remove(&note);
    }

    /// Merges the model of another client.
    pub fn merge(&mut self, other: Model) {
        self.facts.extend(other.facts);
        self.named.extend(other.named);
        self.moved.extend(other.moved);
        for (of, count) in other.counts {
            *self.counts.entry(of).or_default() += count;
        }
    }

    /// The counters of a note.
    pub fn note(&self, note: u64) -> Json {
        let users = |metric| self.users(metric, "note", note).len();
        let count = |metric| self.counts.get(&(metric, note)).copied().unwrap_or(0);
        json!({
            "read": count("read"), "comment": count("comment"), "repost": 0,
            "like": users("like"), "fav": users("fav"),
        })
    }

    /// The registered author of a note.
    pub fn author(&self, note: u64, size: WorkloadSize) -> Option<u64> {
        match moves(note) {
            true => self.moved.get(&note).copied().flatten(),
            false => self.named.contains(&note).then(|| fixed_author(note, size)),
        }
    }

    /// The users who have a fact for an entity.
    pub fn users(&self, metric: &'static str, etype: &'static str, eid: u64) -> Vec<u64> {
        let range = (metric, etype, eid, 0)..=(metric, etype, eid, u64::MAX);
        self.facts.range(range).map(|fact| fact.3).collect()
    }

    /// The entities of a type for which a user has a fact, in ascending order.
    pub fn entities(&self, metric: &str, etype: &str, uid: u64) -> Vec<u64> {
        let facts = self.facts.iter();
        let of_user = facts.filter(|fact| (fact.0, fact.1, fact.3) == (metric, etype, uid));
        of_user.map(|fact| fact.2).collect()
    }

    /// The counters of all users that are not zero. An author has received what their notes have (I3).
    pub fn user_counters(&self, size: WorkloadSize) -> BTreeMap<u64, BTreeMap<&'static str, u64>> {
        let mut users: BTreeMap<u64, BTreeMap<&'static str, u64>> = BTreeMap::new();
        let mut add = |uid: u64, counter: &'static str| {
            *users.entry(uid).or_default().entry(counter).or_default() += 1;
        };
        for (metric, _, eid, uid) in &self.facts {
            match *metric {
                "like" => self.author(*eid, size).into_iter().for_each(|author| {
                    add(author, "likesReceived");
                    add(author, ACTIVITY);
                }),
                "fav" => self
                    .author(*eid, size)
                    .into_iter()
                    .for_each(|author| add(author, "favsReceived")),
                "publish" => {
                    add(*uid, "posts");
                    add(*uid, ACTIVITY);
                }
                _ => {
                    add(*uid, "followings");
                    add(*eid, "followers");
                    add(*eid, ACTIVITY);
                }
            }
        }
        users
    }
}
