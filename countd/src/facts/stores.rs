//! The fact stores of a deployment.

use super::bitmap::BitmapFacts;
use super::daily::DailyFacts;
use super::rbm::RbmFacts;
use super::set::SetFacts;
use super::store::FactStore;
use crate::domain::config::{FactKind, Metric};
use crate::domain::error::Problem;
use crate::domain::ids::Name;
use crate::domain::keys::Keys;
use crate::redis::script::CounterBackend;

/// A fact store of each kind. Cheap to clone.
#[derive(Clone)]
pub struct FactStores {
    rbm: RbmFacts,
    /// Replaces `rbm` on data without the module.
    id_sets: SetFacts,
    bitmap: BitmapFacts,
    daily: DailyFacts,
    sharded: SetFacts,
    backend: CounterBackend,
}

impl FactStores {
    /// The fact stores for a backend.
    pub fn new(keys: Keys, backend: CounterBackend, shards: u16) -> FactStores {
        FactStores {
            rbm: RbmFacts(keys),
            id_sets: SetFacts::id_sets(keys, backend),
            bitmap: BitmapFacts { keys, backend },
            daily: DailyFacts { keys, backend },
            sharded: SetFacts::sharded(keys, backend, shards),
            backend,
        }
    }

    /// The fact store of a kind.
    pub fn get(&self, kind: FactKind) -> &dyn FactStore {
        match (kind, self.backend) {
            (FactKind::Rbm, CounterBackend::Module) => &self.rbm,
            (FactKind::Rbm, CounterBackend::Strings) => &self.id_sets,
            (FactKind::Bitmap, _) => &self.bitmap,
            (FactKind::Daily, _) => &self.daily,
            (FactKind::Sharded, _) => &self.sharded,
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
