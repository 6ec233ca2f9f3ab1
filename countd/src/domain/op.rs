//! The direction of an action.

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
