//! The size and the metrics of a workload, its random numbers and their seed.

use countd::domain::config::DEFAULTS;

/// A seeded random number generator: SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

/// The seed of a randomised test: `COUNTINT_SEED`, or another one in each run. It is printed, so that the run can be repeated:
/// `scripts/test --retry` looks for this line in the output of a failed test.
pub fn seed() -> u64 {
    let seed = number("COUNTINT_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000));
    eprintln!("COUNTINT_SEED={seed}");
    seed
}

/// The number of actions of a test whose size can be set: `COUNTINT_ACTIONS`, or `default`.
pub fn actions_or(default: u64) -> u64 {
    number("COUNTINT_ACTIONS").unwrap_or(default)
}

/// The number in an environment variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// The size of a workload.
#[derive(Clone, Copy)]
pub struct WorkloadSize {
    /// The number of concurrent clients.
    pub clients: u64,
    /// The number of users of each client. No other client acts for them, so their last action is known.
    pub users: u64,
    /// The number of notes.
    pub notes: u64,
    /// The number of actions of each client.
    pub actions_per_client: u64,
    /// The maximum number of actions in a request. About half of the requests are single actions.
    pub batch: u64,
    /// How often each of the clients that have an [own note](Self::own_note) erases it.
    pub erasures: u64,
}

/// The number of clients that erase notes. Their notes have authors of each kind.
const ERASING: u64 = 3;

impl WorkloadSize {
    /// The number of actions of all clients.
    pub fn total(&self) -> u64 {
        self.clients * self.actions_per_client
    }

    /// The note that a client erases. Only this client acts on it, and it waits for the end of the job: whether an action is erased that
    /// arrives while the job runs is undefined.
    pub fn own_note(&self, client: u64) -> Option<u64> {
        (self.erasures > 0 && client < ERASING.min(self.clients)).then_some(self.notes + client)
    }

    /// All notes.
    pub fn all_notes(&self) -> Vec<u64> {
        let own = (0..self.clients).filter_map(|client| self.own_note(client));
        (0..self.notes).chain(own).collect()
    }
}

/// A configured counter of users that a metric of each role feeds.
pub const ACTIVITY: &str = "activity";

/// The metrics of the default configuration, which also feed [`ACTIVITY`]: that of the actors of `publish`, of the authors of liked notes,
/// and of the targets of `follow`. The end of a configuration file.
pub fn metrics() -> String {
    let (_, metrics) = DEFAULTS.split_once("[metrics.read]").expect("metrics");
    let mut metrics = format!("[users]\ncounters = [\"{ACTIVITY}\"]\n[metrics.read]{metrics}");
    for (counter, role) in [
        ("posts", "actor"),
        ("likesReceived", "author"),
        ("followers", "target"),
    ] {
        let feed = format!("{{ counter = \"{counter}\", of = \"{role}\" }}");
        assert!(metrics.contains(&feed), "{metrics}");
        let both = format!("{feed}, {{ counter = \"{ACTIVITY}\", of = \"{role}\" }}");
        metrics = metrics.replace(&feed, &both);
    }
    for metric in DAILY {
        let table = format!("[metrics.{metric}]\n");
        assert!(metrics.contains(&table), "{metrics}");
        metrics = metrics.replace(&table, &format!("{table}daily = true\n"));
    }
    metrics
}

/// The metrics with counts by day: one whose counter changes with the action, and one that the consumer counts.
pub const DAILY: [&str; 2] = ["read", "like"];
