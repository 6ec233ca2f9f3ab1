//! FactStore: which users did something to an entity. Recording one, counting it and writing its event are one step.

mod bitmap;
pub(crate) mod compaction;
mod daily;
mod day;
mod layout;
mod mark;
mod rbm;
mod sets;

pub use bitmap::Bitmap;
pub use daily::Daily;
pub use layout::{check, claim};
pub use rbm::Rbm;
pub use sets::Sets;

use crate::domain::config::{FactKind, Metric};
use crate::domain::error::StoreError;
use crate::domain::error::{Problem, UnsupportedUserId};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::domain::op::Op;
use crate::redis::call::{IdempotencyGuard, RedisCall};
use crate::redis::script::CounterBackend;
use redis::{FromRedisValue, Value};

/// The counter that a fact changes.
#[derive(Clone, Debug)]
pub struct CounterField {
    /// Its key.
    pub key: String,
    /// Its field.
    pub idx: usize,
    /// How many fields the object has afterwards, at least.
    pub len: usize,
    /// How many it must have, if it is there.
    pub least: usize,
}

/// A fact.
#[derive(Clone, Copy)]
pub struct Fact<'a> {
    /// What is done.
    pub metric: &'a Name,
    /// To what.
    pub entity: &'a Entity,
    /// By whom.
    pub uid: &'a Id,
}

/// A fact to be recorded or taken back.
pub struct FactChange<'a> {
    /// The fact.
    pub fact: Fact<'a>,
    /// Done, or taken back.
    pub op: Op,
    /// When, in milliseconds since 1970.
    pub ts: u64,
    /// What is counted in the same step.
    pub counter: Option<&'a CounterField>,
    /// The stream and the event that is appended to it in the same step, each only if the fact is news.
    pub event: (&'a str, &'a str),
    /// The idempotency key: if it is there, nothing is done.
    pub guard: Option<&'a IdempotencyGuard>,
}

/// A cursor that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCursor;

/// A page of users, and where the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The users.
    pub users: Vec<String>,
    /// `None` at the end.
    pub next: Option<String>,
}

/// A way of keeping facts.
pub trait FactStore: Send + Sync {
    /// Whether this user's id can be kept.
    ///
    /// # Errors
    /// It cannot.
    fn check_uid(&self, uid: &Id) -> Result<(), UnsupportedUserId>;

    /// The one step that does a change. It replies whether that was news and the counter after it (see [`changed`]), or nil if
    /// the idempotency key was there. The user's id must fit.
    fn change(&self, change: &FactChange<'_>) -> RedisCall;

    /// The question whether a fact is there; the reply is 0 or 1. The user's id must fit.
    fn contains(&self, fact: &Fact<'_>) -> RedisCall;

    /// The question for users, `limit` of them at most, from where a page ended (`None`: from the start).
    ///
    /// # Errors
    /// `from` is no cursor of this way of keeping facts.
    fn page(
        &self,
        metric: &Name,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor>;

    /// The page in the reply of [`page`](Self::page), which was asked the same.
    ///
    /// # Errors
    /// The reply is none.
    fn paged(&self, reply: Value, from: Option<&str>, limit: usize) -> Result<Page, StoreError>;
}

/// Whether a change was news, and the counter after it, from the reply of [`FactStore::change`].
///
/// # Errors
/// The reply is none.
pub fn changed(reply: Value) -> Result<(bool, Option<u64>), StoreError> {
    let (changed, count) = <(u8, Option<u64>)>::from_redis_value(reply)
        .map_err(|why| StoreError::Unexpected(format!("a mark: {why}")))?;
    Ok((changed == 1, count))
}

/// All ways of keeping facts.
#[derive(Clone)]
pub struct FactStores {
    rbm: Rbm,
    plain: Sets,
    bitmap: Bitmap,
    daily: Daily,
    sharded: Sets,
    backend: CounterBackend,
}

impl FactStores {
    /// On a server.
    pub fn new(keys: Keys, backend: CounterBackend, shards: u16) -> FactStores {
        FactStores {
            rbm: Rbm(keys),
            plain: Sets::of_ids(keys, backend),
            bitmap: Bitmap { keys, backend },
            daily: Daily { keys, backend },
            sharded: Sets::sharded(keys, backend, shards),
            backend,
        }
    }

    /// One of them.
    pub fn get(&self, kind: FactKind) -> &dyn FactStore {
        match (kind, self.backend) {
            (FactKind::Rbm, CounterBackend::Module) => &self.rbm,
            (FactKind::Rbm, CounterBackend::Strings) => &self.plain,
            (FactKind::Bitmap, _) => &self.bitmap,
            (FactKind::Daily, _) => &self.daily,
            (FactKind::Sharded, _) => &self.sharded,
        }
    }

    /// The way in which the facts of a metric are kept; `None` if it is repeatable.
    pub fn of(&self, metric: &Metric) -> Option<&dyn FactStore> {
        metric.fact_kind().map(|kind| self.get(kind))
    }

    /// The same for a metric whose facts a client reads.
    ///
    /// # Errors
    /// The metric is repeatable: it has no facts.
    pub fn require(&self, name: &Name, metric: &Metric) -> Result<&dyn FactStore, Problem> {
        let unkept =
            || Problem::Unprocessable(format!("{name} is repeatable: nobody knows who did it"));
        self.of(metric).ok_or_else(unkept)
    }
}
