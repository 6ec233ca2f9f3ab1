//! The payloads of log entries, as JSON: events, envelopes and derived events.

mod author;
mod check;
mod derived;
mod entity_event;
mod envelope;
mod group;
mod journal;
mod reverse;
mod timestamp;
mod written;

pub use author::NewAuthor;
pub use check::{Check, CheckMode, MAX_CHECKS};
pub use derived::{Derived, ForwardedCounterCheck, ForwardedMode, MAX_ADDS, Source, SumIncrement};
pub use entity_event::{Event, MAX_DELTA, MAX_TRACE};
pub use envelope::{Envelope, InvalidEvent, Payload, PayloadForm};
pub use group::{GroupEvent, MEMBERS};
pub use journal::{Cause, Journal};
pub use reverse::{MAX_REVS, Reread, Rev};
pub use timestamp::now_ms;
