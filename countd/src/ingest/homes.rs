//! Which users of split entities have their home at the base: those who had a fact when its facts were frozen, or got one before the shards
//! were open. No user is added until the merge, so a process scans them once and keeps a filter of them. An action of any other user
//! goes to the shard without asking the base. Erased users are removed: the base replies that their home is a shard.

use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::split::{SplitPhase, SplitState};
use crate::facts::{FactStores, SplitFacts};
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use scalable_cuckoo_filter::{DefaultHasher, ScalableCuckooFilter, ScalableCuckooFilterBuilder};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The number of users for which a new filter has room. It grows by doubling.
const INITIAL_CAPACITY: usize = 1 << 14;
/// The probability that a filter has a user whose home is a shard: the base is asked.
const FALSE_POSITIVES: f64 = 0.001;
/// The number of users that are read at once.
const PAGE: usize = 5_000;
/// The delay before a filter that could not be built is built again.
const RETRY: Duration = Duration::from_secs(2);
/// The maximum number of users of a filter: about 40 MB. The base of a larger entity is asked for each action.
const MAX_USERS: usize = 20_000_000;

type Filter = ScalableCuckooFilter<u64, DefaultHasher, SmallRng>;

/// A metric of a split entity: the entity, the generation and the metric.
type Key = (Entity, u64, Name);

enum Home {
    /// A task builds the filter, or has failed to since this moment.
    Unknown(Instant),
    Known(Arc<Filter>),
}

/// The filters of this process. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Homes(Arc<Mutex<HashMap<Key, Home>>>);

impl Homes {
    fn with<T>(&self, f: impl FnOnce(&mut HashMap<Key, Home>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the home of a user is certainly a shard. The first call starts to build the filter.
    pub fn is_at_shard(
        &self,
        of: (&Store, &FactStores),
        (base, metric): (&Entity, &Name),
        state: &Arc<SplitState>,
        uid: &Id,
    ) -> bool {
        let (store, facts) = of;
        // Before, users get their home at the base.
        let (SplitPhase::Split, Some(number)) = (state.phase, uid.number()) else {
            return false;
        };
        // A cursor of SSCAN is not valid any more if the server is restarted or the slot moves, and users would be missing in the filter.
        if store.backend() != CounterBackend::Module {
            return false;
        }
        let key = (base.clone(), state.generation, metric.clone());
        let filter = self.with(|all| match all.get(&key) {
            Some(Home::Known(filter)) => Some(Arc::clone(filter)),
            Some(Home::Unknown(since)) if since.elapsed() < RETRY => None,
            _ => {
                let layout = store.layout();
                all.retain(|(base, generation, _), _| {
                    let state = layout.split_of(base);
                    state.is_some_and(|state| state.generation == *generation)
                });
                all.insert(key.clone(), Home::Unknown(Instant::now()));
                let (homes, state) = (self.clone(), Arc::clone(state));
                let (store, facts) = (store.clone(), facts.clone());
                tokio::spawn(async move { homes.build((&store, &facts), key, &state).await });
                None
            }
        });
        filter.is_some_and(|filter| !filter.contains(&number))
    }

    async fn build(&self, of: (&Store, &FactStores), key: Key, state: &SplitState) {
        let (base, _, metric) = &key;
        let home = match scan(of, (metric, base), state).await {
            Ok(Some(filter)) => Home::Known(Arc::new(filter)),
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the users of the base of a split entity cannot be read now");
                return;
            }
        };
        self.with(|all| all.insert(key, home));
    }
}

/// A filter with all users whose home is the base. `None` if there are too many. A user who takes their fact back meanwhile is among
/// the former ones, who are read last, unless they are erased.
async fn scan(
    (store, facts): (&Store, &FactStores),
    (metric, base): (&Name, &Entity),
    state: &SplitState,
) -> Result<Option<Filter>, Problem> {
    let mut filter: Filter = ScalableCuckooFilterBuilder::new()
        .initial_capacity(INITIAL_CAPACITY)
        .false_positive_probability(FALSE_POSITIVES)
        .rng(SmallRng::seed_from_u64(fastrand::u64(..)))
        .finish();
    let facts = SplitFacts::new(store.keys(), facts.clone());
    for is_former in [false, true] {
        let mut cursor: Option<String> = None;
        loop {
            let from = cursor.as_deref();
            let call = facts.home_page((metric, base), state, (is_former, from), PAGE);
            let Ok(call) = call else {
                return Ok(None);
            };
            let page = facts.decode_page(call.send_read(store).await?)?;
            for uid in page.users.iter().filter_map(|uid| uid.parse::<u64>().ok()) {
                if !filter.contains(&uid) {
                    filter.insert(&uid);
                }
            }
            if filter.len() > MAX_USERS {
                return Ok(None);
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(Some(filter))
}
