//! The fact stores of a deployment.

use super::bitmap::BitmapFacts;
use super::daily::DailyFacts;
use super::mixed::MixedFacts;
use super::rbm::RbmFacts;
use super::set::SetFacts;
use super::store::FactStore;
use crate::domain::config::{FactKind, Metric};
use crate::domain::error::Problem;
use crate::domain::ids::Name;
use crate::domain::keys::Keys;
use crate::redis::script::CounterBackend;
use crate::redis::store::CurrentBackend;

/// A fact store of each kind, for each backend. Cheap to clone.
#[derive(Clone)]
pub struct FactStores {
    of_backends: [OfBackend; CounterBackend::COUNT],
    backend: CurrentBackend,
}

/// The fact stores of a backend.
#[derive(Clone, Copy)]
struct OfBackend {
    rbm: RbmFacts,
    /// Replaces `rbm` on data without the module.
    id_sets: SetFacts,
    /// Replaces `rbm` on data that an adoption converts.
    mixed: MixedFacts,
    bitmap: BitmapFacts,
    daily: DailyFacts,
    sharded: SetFacts,
}

impl OfBackend {
    fn new(keys: Keys, backend: CounterBackend, shards: u16) -> OfBackend {
        OfBackend {
            rbm: RbmFacts(keys),
            id_sets: SetFacts::id_sets(keys, backend),
            mixed: MixedFacts { keys, backend },
            bitmap: BitmapFacts { keys, backend },
            daily: DailyFacts { keys, backend },
            sharded: SetFacts::sharded(keys, backend, shards),
        }
    }
}

impl FactStores {
    /// The fact stores for a backend.
    pub fn new(keys: Keys, backend: impl Into<CurrentBackend>, shards: u16) -> FactStores {
        FactStores {
            of_backends: CounterBackend::ALL.map(|of| OfBackend::new(keys, of, shards)),
            backend: backend.into(),
        }
    }

    /// How the data stores sets of IDs. It changes while an adoption converts the data.
    pub fn backend(&self) -> CounterBackend {
        self.backend.get()
    }

    /// The fact store of a kind. It changes while an adoption converts the data.
    pub fn get(&self, kind: FactKind) -> &dyn FactStore {
        let backend = self.backend.get();
        let of = &self.of_backends[backend as usize];
        match (kind, backend) {
            (FactKind::Rbm, CounterBackend::Module) => &of.rbm,
            (FactKind::Rbm, CounterBackend::Strings) => &of.id_sets,
            (FactKind::Rbm, _) => &of.mixed,
            (FactKind::Bitmap, _) => &of.bitmap,
            (FactKind::Daily, _) => &of.daily,
            (FactKind::Sharded, _) => &of.sharded,
        }
    }

    /// The fact store of a metric; `None` if the metric is repeatable.
    pub fn of(&self, metric: &Metric) -> Option<&dyn FactStore> {
        metric.fact_kind().map(|kind| self.get(kind))
    }

    /// The fact store of a metric whose facts a client reads.
    ///
    /// # Errors
    /// The metric is repeatable, so it has no facts.
    pub fn require(&self, name: &Name, metric: &Metric) -> Result<&dyn FactStore, Problem> {
        let no_facts = || Problem::Unprocessable(format!("{name} is repeatable: it has no facts"));
        self.of(metric).ok_or_else(no_facts)
    }
}
