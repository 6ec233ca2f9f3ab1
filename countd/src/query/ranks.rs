//! Rankings.

use super::fields::read_page;
use crate::domain::config::{Config, TypeRanking};
use crate::domain::day::{civil, number_of};
use crate::domain::error::{Problem, StoreError};
use crate::domain::event::now_ms;
use crate::domain::ids::{Id, Name};
use crate::domain::keys::Partition;
use crate::domain::text::shorten;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::rank::RANK;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::{FromRedisValue, Value};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

static READ: LazyLock<LoadedScript> = LazyLock::new(|| {
    LoadedScript::reading(&[RANK, include_str!("../lua/rank_read.lua")].join("\n"))
});

/// The minimum number of entities that are first read of each group of partitions.
const FIRST_READ: usize = 16;

/// The permissions that reading rankings requires.
pub fn required_permissions() -> Permissions {
    READ.required_permissions()
}

/// An entity with its score.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedEntity {
    /// The ID of the entity.
    pub eid: Id,
    /// The score.
    pub score: f64,
}

impl RankedEntity {
    /// The order of a ranking: descending scores, and descending IDs with the same score, as in Redis.
    fn compare(&self, other: &RankedEntity) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then_with(|| other.eid.as_str().cmp(self.eid.as_str()))
    }
}

/// The first entities of a ranking.
#[derive(Clone, Debug)]
struct RankedEntities {
    /// The number of days since 1970.
    day: u64,
    is_complete: bool,
    entities: Vec<RankedEntity>,
}

/// A page of a ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct RankPage {
    /// The date (20261231) at which the scores end.
    pub date: u64,
    /// Whether no entity is missing. Otherwise the last entities are missing, and are being read again from the counts by day.
    pub is_complete: bool,
    /// The entities.
    pub entities: Vec<RankedEntity>,
    /// The cursor of the next page.
    pub next: Option<String>,
}

/// Where a page begins: after an entity with this score.
struct Cursor {
    day: u64,
    after: RankedEntity,
}

impl Cursor {
    fn parse(text: &str) -> Option<Cursor> {
        let mut parts = text.splitn(3, '.');
        let day = number_of(parts.next()?.parse().ok()?)?;
        let score = f64::from_bits(u64::from_str_radix(parts.next()?, 16).ok()?);
        let eid = Id::new(parts.next()?).ok()?;
        let after = RankedEntity { eid, score };
        Some(Cursor { day, after })
    }

    fn text(&self) -> String {
        let RankedEntity { eid, score } = &self.after;
        format!("{}.{:x}.{eid}", civil(self.day), score.to_bits())
    }
}

/// The entities that were read last, by the day that was asked for.
type Cache = Mutex<BTreeMap<Option<u64>, (Instant, Arc<RankedEntities>)>>;

/// Reads rankings. Cheap to clone.
#[derive(Clone)]
pub struct Ranks {
    config: Arc<Config>,
    store: Store,
    caches: Arc<HashMap<(Name, Name), Cache>>,
}

impl Ranks {
    /// Reads the configured rankings.
    pub fn new(config: Arc<Config>, store: Store) -> Ranks {
        let names = config
            .rankings()
            .map(|of| (of.name.clone(), of.etype.clone()));
        let caches = names.map(|names| (names, Cache::default())).collect();
        Ranks {
            caches: Arc::new(caches),
            config,
            store,
        }
    }

    /// A page of a ranking of the entities of a type. The pages of a cursor are of the same day.
    ///
    /// # Errors
    /// There is no such ranking or type, the ranking is not filled yet, the cursor is invalid or too old, or Redis failed.
    pub async fn page(
        &self,
        (name, etype): (&str, &Name),
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<RankPage, Problem> {
        let mut rankings = self.config.rankings();
        if !rankings.any(|of| of.name.as_str() == name) {
            return Err(Problem::UnknownRanking(shorten(name)));
        }
        if self.config.schema_of(etype).is_none() {
            return Err(Problem::UnknownType(etype.clone()));
        }
        let mut rankings = self.config.rankings();
        let of = rankings.find(|of| of.name.as_str() == name && of.etype == etype);
        let of = of.ok_or_else(|| {
            let problem = format!("the ranking {name} has no entities of type {etype}");
            Problem::Unprocessable(problem)
        })?;
        let invalid = |problem: &str| Problem::Malformed(format!("cursor: {problem}"));
        let cursor = match cursor {
            Some(text) => Some(Cursor::parse(text).ok_or_else(|| invalid("is invalid"))?),
            None => None,
        };
        let found = self.read(&of, cursor.as_ref().map(|cursor| cursor.day));
        let found = found.await?.ok_or_else(|| match &cursor {
            Some(_) => invalid("its day is over; begin again without a cursor"),
            None => Problem::RankingNotFilled(of.name.clone()),
        })?;
        let start = cursor.map_or(0, |cursor| {
            let is_before = |entity: &RankedEntity| entity.compare(&cursor.after).is_le();
            found.entities.partition_point(is_before)
        });
        let rest = found.entities.get(start..).unwrap_or_default();
        let entities = rest.get(..limit).unwrap_or(rest).to_vec();
        let next = entities.last().filter(|_| rest.len() > entities.len());
        let next = next.map(|after| Cursor {
            day: found.day,
            after: after.clone(),
        });
        Ok(RankPage {
            date: civil(found.day),
            is_complete: found.is_complete,
            next: next.map(|cursor| cursor.text()),
            entities,
        })
    }

    /// The first entities, at most `rank.cache_ms` old. `None` if the day is not complete.
    async fn read(
        &self,
        of: &TypeRanking<'_>,
        day: Option<u64>,
    ) -> Result<Option<Arc<RankedEntities>>, Problem> {
        let names = (of.name.clone(), of.etype.clone());
        let Some(cache) = self.caches.get(&names) else {
            return Ok(None);
        };
        // Requests that arrive while one reads wait for its result.
        let mut cache = cache.lock().await;
        let max_age = Duration::from_millis(self.config.ranks.cache_ms);
        cache.retain(|_, (since, _)| since.elapsed() < max_age);
        if let Some((_, found)) = cache.get(&day) {
            return Ok(Some(Arc::clone(found)));
        }
        let since = Instant::now();
        let found = self.read_groups(of, day).await?.map(Arc::new);
        if let Some(found) = &found {
            cache.insert(day, (since, Arc::clone(found)));
        }
        Ok(found)
    }

    /// Reads the first entities of all groups of partitions, and merges them.
    async fn read_groups(
        &self,
        of: &TypeRanking<'_>,
        day: Option<u64>,
    ) -> Result<Option<RankedEntities>, Problem> {
        let groups: Vec<Partition> = (0..self.store.keys().rank_groups()).collect();
        let top = of.ranking.top() as usize;
        let share = (4 * top / groups.len()).max(FIRST_READ).min(top);
        let mut found = self.read_some(of, &groups, (day, share)).await?;
        let days = || found.iter().map(|found| found.as_ref().map(|of| of.day));
        // Nodes change the day at different moments. All are at the earlier one until all have the later one.
        let Some(Some(first)) = days().min() else {
            return Ok(None);
        };
        if days().any(|day| day != Some(first)) {
            found = self.read_some(of, &groups, (Some(first), share)).await?;
        }
        let mut lists = Vec::with_capacity(found.len());
        for list in found {
            let Some(list) = list else { return Ok(None) };
            lists.push(list);
        }
        // A group may have more of the first entities than its share: if all that was read of it is among them.
        let (merged, is_complete) = merge(&lists, top);
        let last = merged.get(top - 1);
        let is_cut = |list: &RankedEntities| {
            let end = list
                .entities
                .last()
                .filter(|_| list.entities.len() == share);
            end.is_some_and(|end| last.is_none_or(|last| end.compare(last).is_le()))
        };
        let cut = groups.iter().zip(&lists).filter(|(_, list)| is_cut(list));
        let cut: Vec<Partition> = cut.map(|(group, _)| *group).collect();
        let (merged, is_complete) = match cut.is_empty() || share == top {
            true => (merged, is_complete),
            false => {
                let rest = self.read_some(of, &cut, (Some(first), top)).await?;
                for (group, list) in cut.into_iter().zip(rest) {
                    let Some(list) = list else { return Ok(None) };
                    lists[usize::from(group)] = list;
                }
                merge(&lists, top)
            }
        };
        Ok(Some(RankedEntities {
            day: first,
            is_complete,
            entities: merged,
        }))
    }

    /// Reads the first `count` entities of some groups of partitions.
    async fn read_some(
        &self,
        of: &TypeRanking<'_>,
        groups: &[Partition],
        (day, count): (Option<u64>, usize),
    ) -> Result<Vec<Option<RankedEntities>>, Problem> {
        let keys = self.store.keys();
        let today = self.config.days.calendar().day_of(now_ms());
        let calls: Vec<RedisCall> = groups
            .iter()
            .map(|group| {
                let state = keys.rank_state(of.name, of.etype, *group);
                let sets = keys.ranks(of.name, of.etype, *group);
                let mut call = RedisCall::script(&READ, &[state]);
                call.cmd.arg(sets.prefix).arg(sets.suffix).arg(today);
                call.cmd
                    .arg(day.map(|day| day.to_string()).unwrap_or_default());
                call.cmd.arg(count).arg(of.ranking.top());
                call
            })
            .collect();
        let page = read_page(&self.store, &[], &calls).await?;
        let replies = page.replies.into_iter();
        replies.map(|reply| Ok(decode(reply?)?)).collect()
    }
}

/// The first entities of lists, and whether no list lacks any.
fn merge(lists: &[RankedEntities], top: usize) -> (Vec<RankedEntity>, bool) {
    let entities = lists.iter().flat_map(|list| list.entities.iter().cloned());
    let mut entities: Vec<RankedEntity> = entities.collect();
    entities.sort_unstable_by(RankedEntity::compare);
    entities.truncate(top);
    (entities, lists.iter().all(|list| list.is_complete))
}

/// Decodes a reply. `None` if the day is not complete.
fn decode(reply: Value) -> Result<Option<RankedEntities>, StoreError> {
    let malformed = || StoreError::Unexpected("a ranking".to_owned());
    let parts = Vec::<Value>::from_redis_value(reply).map_err(|_| malformed())?;
    let [Value::Int(day), Value::Int(is_complete), entities @ ..] = parts.as_slice() else {
        return Err(malformed());
    };
    let Ok(day) = u64::try_from(*day) else {
        return Ok(None);
    };
    let mut decoded = Vec::with_capacity(entities.len() / 2);
    for pair in entities.chunks(2) {
        let [Value::BulkString(eid), Value::BulkString(score)] = pair else {
            return Err(malformed());
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| malformed());
        let eid = Id::new(text(eid)?).map_err(|_| malformed())?;
        let score = text(score)?.parse().map_err(|_| malformed())?;
        decoded.push(RankedEntity { eid, score });
    }
    Ok(Some(RankedEntities {
        day,
        is_complete: *is_complete == 1,
        entities: decoded,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(eid: &str, score: f64) -> RankedEntity {
        let eid = Id::new(eid).expect("an ID");
        RankedEntity { eid, score }
    }

    #[test]
    fn cursors_are_parsed() {
        for (eid, score) in [("a.7", 0.1 + 0.2), ("1", 5.0)] {
            let after = ranked(eid, score);
            let cursor = Cursor { day: 20_779, after };
            let parsed = Cursor::parse(&cursor.text()).expect("a cursor");
            assert_eq!((parsed.day, &parsed.after), (20_779, &cursor.after));
        }
        for text in [
            "",
            "1",
            "20261122.0",
            "20261122.x.1",
            "20261322.0.1",
            "20261122.0.",
        ] {
            assert!(Cursor::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn lists_are_merged_in_the_order_of_redis() {
        let list = |is_complete, entities| RankedEntities {
            day: 1,
            is_complete,
            entities,
        };
        let one = list(true, vec![ranked("2", 9.0), ranked("10", 2.0)]);
        let other = list(true, vec![ranked("9", 2.0), ranked("1", 1.0)]);
        let (merged, is_complete) = merge(&[one.clone(), other], 3);
        let expected = [ranked("2", 9.0), ranked("9", 2.0), ranked("10", 2.0)];
        assert_eq!(
            (merged.as_slice(), is_complete),
            (expected.as_slice(), true)
        );
        assert!(!merge(&[one, list(false, Vec::new())], 3).1);
    }
}
