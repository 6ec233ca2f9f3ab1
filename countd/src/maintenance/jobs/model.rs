//! What a job does, and how far it is.

use crate::domain::ids::{Entity, Id, Name};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use utoipa::ToSchema;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum JobKind {
    /// Erases an entity.
    EraseEntity,
    /// Erases a user.
    EraseUser,
}

impl JobKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            JobKind::EraseEntity => "eraseEntity",
            JobKind::EraseUser => "eraseUser",
        }
    }
}

/// What a job erases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An entity.
    Entity(Entity),
    /// A user.
    User(Id),
}

impl Target {
    /// The kind of the job.
    pub fn kind(&self) -> JobKind {
        match self {
            Target::Entity(_) => JobKind::EraseEntity,
            Target::User(_) => JobKind::EraseUser,
        }
    }

    /// Parses the form of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Option<Target> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["entity", etype, eid] => Some(Target::Entity(Entity {
                etype: Name::new(*etype).ok()?,
                eid: Id::new(*eid).ok()?,
            })),
            ["user", uid] => Some(Target::User(Id::new(*uid).ok()?)),
            _ => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Entity(Entity { etype, eid }) => write!(f, "entity:{etype}:{eid}"),
            Target::User(uid) => write!(f, "user:{uid}"),
        }
    }
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// No process has started it.
    Queued,
    /// A process has started it. After a failure it is tried again.
    Running,
    /// It has ended.
    Done,
}

/// How far a job is. It is saved together with the lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of the pass through the data. The last pass finds nothing.
    pub pass: u64,
    /// The step of the pass.
    pub step: String,
    /// Whether this pass has found anything.
    pub is_dirty: bool,
    /// Where the scan of each server continues: its run ID, and the cursor or `done`.
    pub scan: HashMap<String, String>,
    /// The run IDs of all servers when the pass began, and the epoch of the layout if entities can be split.
    pub servers: Vec<String>,
    /// What the counters were when the pass began.
    pub expected: Vec<String>,
    /// The number of facts that were removed.
    pub facts: u64,
    /// The number of entities that lost their author.
    pub authors: u64,
    /// The number of keys that were deleted.
    pub keys: u64,
    /// The number of entries of logs, dead letters and audits that were removed.
    pub entries: u64,
    /// The number of keys that could not be read, because they hold another type.
    pub damaged: u64,
}

/// The separator of the counters at several keys. It is not part of any counters.
const SEPARATOR: &str = "|";

impl Progress {
    pub(super) fn parse(fields: &HashMap<String, String>) -> Progress {
        let text = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let number = |name: &str| text(name).parse().unwrap_or(0);
        let scan = text("scan");
        let scan = scan.split(' ').filter_map(|part| part.split_once('='));
        Progress {
            pass: number("pass"),
            step: text("step"),
            is_dirty: text("dirty") == "1",
            scan: scan.map(|(a, b)| (a.to_owned(), b.to_owned())).collect(),
            servers: text("servers")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            expected: text("expected")
                .split(SEPARATOR)
                .map(str::to_owned)
                .collect(),
            facts: number("facts"),
            authors: number("authors"),
            keys: number("keys"),
            entries: number("entries"),
            damaged: number("damaged"),
        }
    }

    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let scan = self.scan.iter();
        let scan: Vec<String> = scan
            .map(|(run, cursor)| format!("{run}={cursor}"))
            .collect();
        vec![
            ("pass", self.pass.to_string()),
            ("step", self.step.clone()),
            ("dirty", u8::from(self.is_dirty).to_string()),
            ("scan", scan.join(" ")),
            ("servers", self.servers.join(" ")),
            ("expected", self.expected.join(SEPARATOR)),
            ("facts", self.facts.to_string()),
            ("authors", self.authors.to_string()),
            ("keys", self.keys.to_string()),
            ("entries", self.entries.to_string()),
            ("damaged", self.damaged.to_string()),
        ]
    }
}

/// A job that a process runs.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its ID.
    pub id: Id,
    /// What it erases.
    pub target: Target,
    /// How far it is.
    pub progress: Progress,
}

/// A job, as the API describes it. It does not name its target.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobStatus {
    /// The ID of the job.
    #[schema(value_type = String, example = "8f14e45fceea167a5a36dedd4bea2543")]
    pub id: Id,
    /// What it does.
    pub kind: JobKind,
    /// Its state.
    pub state: JobState,
    /// The current step; empty before the first one and at the end.
    #[schema(example = "facts")]
    pub step: String,
    /// The number of the pass through the data. The last pass finds nothing more.
    pub pass: u64,
    /// The number of facts that were removed.
    pub facts: u64,
    /// The number of entities that lost their author.
    pub authors: u64,
    /// The number of keys that were deleted.
    pub keys: u64,
    /// The number of entries of logs, dead letters and audits that were removed.
    pub entries: u64,
    /// The number of keys that hold another type and could not be read. What they hold is not erased.
    pub damaged: u64,
    /// When it was created, in milliseconds since 1970.
    #[schema(example = 1764000000000_u64)]
    pub created: u64,
    /// When it ended, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Why the job waits, or why its last attempt failed. It is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl JobStatus {
    pub(super) fn parse(id: &Id, fields: &HashMap<String, String>) -> Option<JobStatus> {
        let text = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let Progress {
            pass,
            step,
            facts,
            authors,
            keys,
            entries,
            damaged,
            ..
        } = Progress::parse(fields);
        let kinds = [JobKind::EraseEntity, JobKind::EraseUser];
        Some(JobStatus {
            id: id.clone(),
            kind: kinds.into_iter().find(|kind| kind.name() == text("kind"))?,
            state: match text("state").as_str() {
                "queued" => JobState::Queued,
                "running" => JobState::Running,
                "done" => JobState::Done,
                _ => return None,
            },
            step,
            pass,
            facts,
            authors,
            keys,
            entries,
            damaged,
            created: text("created").parse().unwrap_or(0),
            ended: text("ended").parse().ok(),
            error: fields.get("error").filter(|e| !e.is_empty()).cloned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_as_they_are_written() {
        for text in ["entity:note:a.7", "user:42"] {
            let target = Target::parse(text).expect("a target");
            assert_eq!(target.to_string(), text);
        }
        for bad in [
            "",
            "user",
            "user:",
            "user:a:b",
            "entity:note",
            "entity:7:note:1",
        ] {
            assert_eq!(Target::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn progress_survives_a_round_trip() {
        let progress = Progress {
            pass: 2,
            step: "facts".to_owned(),
            is_dirty: true,
            scan: HashMap::from([
                ("a".to_owned(), "17".to_owned()),
                ("b".to_owned(), "done".to_owned()),
            ]),
            servers: vec!["a".to_owned(), "b".to_owned()],
            expected: vec!["5:1,2".to_owned(), String::new()],
            facts: 3,
            authors: 4,
            keys: 5,
            entries: 6,
            damaged: 7,
        };
        let fields = progress.fields().into_iter();
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(Progress::parse(&fields.collect()), progress);
    }
}
