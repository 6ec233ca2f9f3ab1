//! ACL of the Redis user: the check at the start, and `countd acl`.

mod check;
mod examples;
mod fact_keys;
mod key_kinds;
mod required;
mod roles;
mod setuser;

pub use check::{check, check_adoption};
pub use roles::Roles;
pub use setuser::run;
