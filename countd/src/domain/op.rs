//! The direction of an action.

/// Whether an action records a fact or removes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Perform the action.
    Add,
    /// Undo it.
    Remove,
}

impl Op {
    /// The name in requests and keys.
    pub fn name(self) -> &'static str {
        match self {
            Op::Add => "add",
            Op::Remove => "remove",
        }
    }

    /// The increment of the counter.
    pub fn delta(self) -> i64 {
        match self {
            Op::Add => 1,
            Op::Remove => -1,
        }
    }
}
