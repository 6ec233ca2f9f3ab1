//! Facts: which users did something to an entity. Recording one, counting it and writing its event are one step.

mod rbm;

pub use rbm::Rbm;

use crate::ids::{Entity, Id, Name};
use crate::store::StoreError;
use redis::{Cmd, Value};

/// Whether a fact is recorded or taken back.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// The user does it.
    Add,
    /// He takes it back.
    Remove,
}

impl Op {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Op::Add => "add",
            Op::Remove => "remove",
        }
    }

    /// What it adds to a counter.
    pub fn delta(self) -> i64 {
        match self {
            Op::Add => 1,
            Op::Remove => -1,
        }
    }
}

/// The counter that a fact changes.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Its key.
    pub key: String,
    /// Its field.
    pub idx: usize,
    /// How many fields the object has at least.
    pub len: usize,
}

/// A fact to be recorded or taken back.
pub struct Change<'a> {
    /// What is done.
    pub metric: &'a Name,
    /// To what.
    pub entity: &'a Entity,
    /// By whom.
    pub uid: &'a Id,
    /// Done, or taken back.
    pub op: Op,
    /// What is counted in the same step.
    pub counter: Option<&'a Counter>,
    /// The stream and the event that is appended to it in the same step, each only if the fact is news.
    pub event: (&'a str, &'a str),
}

/// A command and the keys that it uses, for scripts that wrap it.
pub struct Keyed {
    /// The keys.
    pub keys: Vec<String>,
    /// The command with all its arguments.
    pub words: Vec<String>,
}

impl Keyed {
    /// As a command.
    pub fn cmd(&self) -> Cmd {
        let mut cmd = Cmd::new();
        cmd.arg(&self.words);
        cmd
    }
}

/// An id that a way of keeping facts cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this metric keeps user ids as numbers from 0 to 18446744073709551615")]
pub struct Misfit;

/// A page of users, and where the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The users.
    pub users: Vec<String>,
    /// `None` at the end.
    pub next: Option<String>,
}

/// A way of keeping facts.
pub trait Facts {
    /// Whether this user's id can be kept.
    ///
    /// # Errors
    /// It cannot.
    fn fits(&self, uid: &Id) -> Result<(), Misfit>;

    /// The one command that does a change.
    fn change(&self, change: &Change<'_>) -> Keyed;

    /// Whether the change did anything, and the counter after it, from the reply of [`change`](Self::change).
    ///
    /// # Errors
    /// The reply is none.
    fn changed(&self, reply: Value) -> Result<(bool, Option<u64>), StoreError>;

    /// The command that asks whether a user did it; it replies 0 or 1.
    fn contains(&self, metric: &Name, entity: &Entity, uid: &Id) -> Cmd;

    /// The command that lists users, the greatest id first, from where a page ended (`None`: from the start).
    fn page(&self, metric: &Name, entity: &Entity, from: Option<&str>, limit: usize) -> Cmd;

    /// The page in the reply of [`page`](Self::page).
    ///
    /// # Errors
    /// The reply is none.
    fn paged(&self, reply: Value) -> Result<Page, StoreError>;
}
