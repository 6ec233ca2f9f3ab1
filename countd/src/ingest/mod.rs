//! What comes in: actions and envelopes, checked, limited, and written to Redis.

pub mod actions;
pub mod envelopes;
pub mod limits;
