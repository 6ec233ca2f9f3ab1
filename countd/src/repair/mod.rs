//! Corrects counters by what they count: the facts of users, or their counts by day.

mod append;
mod check_now;
mod comparison;
mod cost;
pub mod days;
mod exact;
mod flights;
mod hot;
mod lengths;
mod lost;
mod plan;
pub mod ranks;
mod rebuild;
mod rebuild_call;
mod rebuild_followers;
mod recounts;
mod retry;
mod settle;
mod source;
mod users;
mod verify_facts;
mod zeros;

pub use append::{AppendedChecks, CheckRequest, append_checks, append_permissions};
pub use check_now::{
    CheckNow, CheckedCounter, CheckedTable, CounterCheck, Found, FoundOfEntity, Outcome, check_now,
    check_now_permissions, record_difference, record_found,
};
pub use cost::{COST_PERMISSIONS, Costs, DAY_COST_PERMISSIONS};
pub use exact::{CheckSettings, ExactChecks, check_exactly, planned};
pub use hot::HotEntities;
pub use lengths::SuspectObject;
pub use lost::{LostTable, forget_lost, lost_permissions, lost_tables, record_lost};
pub use plan::{PlannedMetric, Planner, TypePlan};
pub use rebuild::Rebuilder;
pub use retry::{retry, retry_permissions};
pub use settle::{other_processes, settle};
pub use source::{Source, Sources, UserSource};
pub use users::{
    CheckUsers, FoundOfUser, ReverseCounter, Sweeps, check_users, check_users_permissions,
    reverse_counters,
};
pub use verify_facts::{SuspectFact, verify_facts, verify_permissions};
