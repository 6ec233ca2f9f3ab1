//! What the permissions that a process requires depend on: its roles, and how the data is stored.

use countd::domain::ids::Name;
use countd::domain::keys::Keys;
use countd::redis::script::CounterBackend;
use countd::redis::store::Store;

/// The roles of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Serves the HTTP API.
    pub serves: bool,
    /// Consumes the log.
    pub consumes: bool,
    /// Relays an outbox table.
    pub relays: bool,
    /// Keeps tables of facts and counters.
    pub sinks: bool,
    /// Runs the commands for operators.
    pub operates: bool,
}

impl Roles {
    /// No role.
    pub const NONE: Roles = Roles {
        serves: false,
        consumes: false,
        relays: false,
        sinks: false,
        operates: false,
    };

    /// All roles.
    pub const ALL: Roles = Roles {
        serves: true,
        consumes: true,
        relays: true,
        sinks: true,
        operates: true,
    };
}

/// How the data of a deployment is stored.
#[derive(Clone)]
pub struct DataLayout<'a> {
    /// The layout of the keys.
    pub keys: Keys,
    /// How counters and id sets are stored.
    pub backend: CounterBackend,
    /// The metrics whose facts are kept for users.
    pub reverse: &'a [Name],
}

/// The backends that data has from now until it is converted to the module's types, if it can be.
pub fn backends_until_adopted(store: &Store) -> Vec<CounterBackend> {
    match store.backend() {
        CounterBackend::Module => vec![CounterBackend::Module],
        backend if !store.has_module() => vec![backend],
        _ => CounterBackend::ALL.to_vec(),
    }
}
