//! The entries of the tables of calls.

/// A call that changes `k`.
pub struct Change {
    /// The commands to run before.
    pub setup: &'static [&'static str],
    /// The call.
    pub line: &'static str,
    /// The replicated form; empty if that is the call itself.
    pub sent: &'static str,
    /// The keyspace events for `k`, in order.
    pub events: &'static [&'static str],
}

impl Change {
    /// The commands that replicas and append-only files get.
    pub fn sent(&self) -> &'static str {
        if self.sent.is_empty() {
            self.line
        } else {
            self.sent
        }
    }
}

/// A call that changes nothing.
pub struct Noop {
    /// The commands to run before.
    pub setup: &'static [&'static str],
    /// The call.
    pub line: &'static str,
    /// The reply as redis-cli prints it.
    pub reply: &'static str,
}
