//! Timelines: what a user did, and the latest users of an entity, newest first.
//!
//! A cursor names the part of the timeline in which the previous page ended: `t{time}.{id}` among the facts with times, `n{cursor}` in the
//! older facts with numeric IDs, `s{cursor}` in the other older facts after them, `a{cursor}` in all older facts of data without the module,
//! `m{cursor}` in those with numeric IDs after them, and `i{time}.{cursor}` in the facts of an entity.

use super::reads::{PageSource, Queries, invalid_cursor};
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::TimelineKeys;
use crate::facts::{
    Fact, FactPage, FactStore, InvalidCursor, decode_set_page, set_page, set_page_permissions,
};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::timeline::{self, NewestFacts, read_call};
use redis::FromRedisValue;
use std::collections::HashSet;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["RBM.SCAN {older_ids} 0 COUNT 1 REV"];
/// The maximum number of reads for a page of an entity's users.
const MAX_READS: usize = 8;

/// A page of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelinePage {
    /// The ID of each entity, and the time in milliseconds since 1970 if it is known.
    pub items: Vec<(Id, Option<u64>)>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

/// The part of a timeline in which a page begins.
#[derive(Debug, PartialEq, Eq)]
enum Start<'a> {
    Newest(Option<(Id, u64)>),
    OlderIds(&'a str),
    OlderSet(Option<&'a str>),
    /// As data without the module has older facts: all in the Set. An adoption moves those with numeric IDs to the set of IDs, which is
    /// therefore listed after it.
    AllOlderSet(Option<&'a str>),
    /// The older facts with numeric IDs, after the others.
    LastOlderIds(&'a str),
    /// The facts of an entity, after the facts with times up to this one.
    Facts(u64, Option<&'a str>),
}

impl<'a> Start<'a> {
    fn parse(cursor: Option<&'a str>) -> Result<Start<'a>, Problem> {
        let Some(text) = cursor else {
            return Ok(Start::Newest(None));
        };
        let invalid = || invalid_cursor(cursor);
        // A cursor is ASCII, unless no page returned it.
        let (part, rest) = text.split_at_checked(1).ok_or_else(invalid)?;
        let timed = || {
            let (time, rest) = rest.split_once('.')?;
            Some((time.parse::<u64>().ok()?, rest))
        };
        match part {
            "t" => {
                let (time, id) = timed().ok_or_else(invalid)?;
                let id = Id::new(id).map_err(|_| invalid())?;
                Ok(Start::Newest(Some((id, time))))
            }
            "n" | "m" => {
                let id = Id::new(rest).ok().and_then(|id| id.number());
                id.ok_or_else(invalid)?;
                Ok(match part {
                    "n" => Start::OlderIds(rest),
                    _ => Start::LastOlderIds(rest),
                })
            }
            "s" => Ok(Start::OlderSet((!rest.is_empty()).then_some(rest))),
            "a" => Ok(Start::AllOlderSet((!rest.is_empty()).then_some(rest))),
            "i" => {
                let (time, rest) = timed().ok_or_else(invalid)?;
                Ok(Start::Facts(time, (!rest.is_empty()).then_some(rest)))
            }
            _ => Err(invalid()),
        }
    }
}

impl Queries {
    /// The permissions that reading timelines requires.
    pub fn timeline_permissions(backend: CounterBackend) -> Permissions {
        Permissions::of_commands(PERMISSIONS)
            .and(timeline::required_permissions())
            .and(set_page_permissions(backend))
    }

    /// Returns a page of the entities of a type on which a user performed a metric: the latest ones by time, then the others by ID.
    ///
    /// # Errors
    /// The metric or the entity type is unknown, the facts of the metric are not kept for users, the cursor is invalid, or Redis failed.
    pub async fn timeline(
        &self,
        uid: &Id,
        (metric, etype): (&str, &Name),
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<TimelinePage, Problem> {
        let (name, metric) = self.catalog.metric(metric)?;
        self.catalog.schema_id(etype)?;
        self.facts.require(name, metric)?;
        if !self.store.layout().has_reverse(name) {
            return Err(Problem::NoReverse {
                metric: name.clone(),
                is_configured: metric.reverse,
            });
        }
        self.check_batch_size(limit)?;
        let keys = self.store.keys().reverse(name, etype, uid);
        let mut page = TimelinePage::default();
        let start = match Start::parse(cursor)? {
            Start::Newest(last) => {
                let newest = self.newest_facts(&keys).await?;
                let facts = newest.after(last.as_ref().map(|(id, time)| (id, *time)));
                let taken = facts.iter().take(limit);
                page.items
                    .extend(taken.map(|(id, time)| (id.clone(), Some(*time))));
                if let Some(last) = facts
                    .get(limit.wrapping_sub(1))
                    .filter(|_| facts.len() > limit)
                {
                    page.next = Some(time_cursor(last));
                    return Ok(page);
                }
                let has_strings = self.store.backend().has_strings();
                match (newest.has_older_ids, newest.has_older_set) {
                    (false, false) => return Ok(page),
                    (_, true) if has_strings => Start::AllOlderSet(None),
                    (true, _) => Start::OlderIds("0"),
                    (false, true) => Start::OlderSet(None),
                }
            }
            Start::Facts(..) => return Err(invalid_cursor(cursor)),
            start => start,
        };
        let left = limit - page.items.len();
        let older = self.older_facts(&keys, start, cursor, left).await?;
        // A fact may have become an older one meanwhile.
        let known: HashSet<Id> = page.items.iter().map(|(id, _)| id.clone()).collect();
        for id in older.users {
            let id = Id::new(id).map_err(|_| unexpected())?;
            if !known.contains(&id) {
                page.items.push((id, None));
            }
        }
        page.next = older.next;
        Ok(page)
    }

    async fn newest_facts(&self, keys: &TimelineKeys) -> Result<NewestFacts, Problem> {
        let call = read_call(keys, self.store.backend());
        Ok(timeline::decode(
            call.send_replica_read(&self.store).await?,
        )?)
    }

    /// Up to `limit` older facts of a timeline: those with numeric IDs in descending order, then the others.
    async fn older_facts(
        &self,
        keys: &TimelineKeys,
        start: Start<'_>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FactPage, Problem> {
        let backend = self.store.backend();
        let mut page = FactPage {
            users: Vec::new(),
            next: None,
        };
        let (Some(older_ids), Some(older_set)) = (&keys.older_ids, &keys.older_set) else {
            return Ok(page);
        };
        let (mut from, mut part) = (None, 's');
        match start {
            Start::OlderIds(from) | Start::LastOlderIds(from) if backend.has_tables() => {
                let is_last = matches!(start, Start::LastOlderIds(_));
                let part = if is_last { 'm' } else { 'n' };
                if limit == 0 {
                    page.next = Some(format!("{part}{from}"));
                    return Ok(page);
                }
                let count = limit.to_string();
                let args = ["RBM.SCAN", older_ids, from, "COUNT", &count, "REV"];
                let reply = RedisCall::guarded(&args, &[], None);
                let reply = reply.send_read(&self.store).await?;
                let (next, ids) =
                    <(String, Vec<String>)>::from_redis_value(reply).map_err(|_| unexpected())?;
                page.users = ids;
                if next != "0" {
                    page.next = Some(format!("{part}{next}"));
                    return Ok(page);
                }
                if is_last {
                    return Ok(page);
                }
            }
            // Another process has begun to follow an adoption before this one. There is no set of IDs yet.
            Start::LastOlderIds(_) => return Ok(page),
            Start::OlderSet(cursor) => from = cursor,
            Start::AllOlderSet(cursor) => (from, part) = (cursor, 'a'),
            _ => return Err(invalid_cursor(cursor)),
        }
        let call = set_page(backend, older_set, from, limit - page.users.len());
        let call = call.map_err(|InvalidCursor| invalid_cursor(cursor))?;
        let others = decode_set_page(call.send_read(&self.store).await?)?;
        page.users.extend(others.users);
        page.next = match others.next {
            Some(next) => Some(format!("{part}{next}")),
            None if part == 'a' && backend.has_tables() => Some("m0".to_owned()),
            None => None,
        };
        Ok(page)
    }

    /// A page of the users who performed a metric on an entity: the latest ones by time, then the others in the order of the fact store.
    pub(super) async fn users_by_time(
        &self,
        (metric, facts): (&Name, &dyn FactStore),
        entity: &Entity,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FactPage, Problem> {
        let keys = self.store.keys().latest_users(metric, entity);
        let newest = self.newest_facts(&keys).await?;
        let mut page = FactPage {
            users: Vec::new(),
            next: None,
        };
        let (until, mut from) = match Start::parse(cursor)? {
            Start::Newest(last) => {
                let mut rest = newest.after(last.as_ref().map(|(id, time)| (id, *time)));
                for _ in 0..MAX_READS {
                    let left = limit - page.users.len();
                    let (chunk, others) = rest.split_at(left.min(rest.len()));
                    let Some(last) = chunk.last() else {
                        break;
                    };
                    // A fact may have been removed since its time was recorded.
                    let exist = self.exist((metric, facts), entity, chunk).await?;
                    let existing = chunk.iter().zip(exist).filter(|(_, exists)| *exists == 1);
                    page.users
                        .extend(existing.map(|((uid, _), _)| uid.to_string()));
                    page.next = Some(time_cursor(last));
                    rest = others;
                }
                if !rest.is_empty() {
                    return Ok(page);
                }
                (newest.facts.first().map_or(0, |(_, time)| *time), None)
            }
            Start::Facts(until, from) => (until, from.map(str::to_owned)),
            _ => return Err(invalid_cursor(cursor)),
        };
        // Those whose times are known have been listed.
        let listed = newest.facts.iter().filter(|(_, time)| *time <= until);
        let listed: HashSet<&str> = listed.map(|(uid, _)| uid.as_str()).collect();
        for _ in 0..MAX_READS {
            let left = limit - page.users.len();
            if left == 0 {
                break;
            }
            let found = self
                .users_by_id(
                    (metric, facts),
                    (entity, PageSource::Primary),
                    from.as_deref(),
                    left,
                )
                .await
                .map_err(|problem| match problem {
                    Problem::Malformed(_) => invalid_cursor(cursor),
                    problem => problem,
                })?;
            let users = found.users.into_iter();
            page.users
                .extend(users.filter(|uid| !listed.contains(uid.as_str())));
            from = found.next;
            if from.is_none() {
                page.next = None;
                return Ok(page);
            }
        }
        page.next = Some(format!("i{until}.{}", from.unwrap_or_default()));
        Ok(page)
    }

    /// For each user, 1 if the fact exists or 0.
    async fn exist(
        &self,
        (metric, facts): (&Name, &dyn FactStore),
        entity: &Entity,
        users: &[(Id, u64)],
    ) -> Result<Vec<u8>, Problem> {
        let contains = |(uid, _): &(Id, u64)| {
            facts.contains(&Fact {
                metric,
                entity,
                uid,
            })
        };
        let calls: Vec<RedisCall> = users.iter().map(contains).collect();
        let replies = self.pipeline(&calls).await?.into_iter();
        let bits: Result<Vec<u8>, _> = replies.map(u8::from_redis_value).collect();
        Ok(bits.map_err(|_| unexpected())?)
    }
}

/// The cursor after a fact with a time.
fn time_cursor((id, time): &(Id, u64)) -> String {
    format!("t{time}.{id}")
}

fn unexpected() -> StoreError {
    StoreError::Unexpected("the facts of a user".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_parsed() {
        let id = |text: &str| Id::new(text).expect("an ID");
        let parse = |text| Start::parse(Some(text)).ok();
        let last = (id("a.b-1"), 1_700_000_000_000);
        let cursor = time_cursor(&last);
        assert_eq!(parse(&cursor), Some(Start::Newest(Some(last))));
        assert_eq!(parse("n7"), Some(Start::OlderIds("7")));
        assert_eq!(parse("s0.all."), Some(Start::OlderSet(Some("0.all."))));
        assert_eq!(parse("i5."), Some(Start::Facts(5, None)));
        assert_eq!(parse("i5.0.1."), Some(Start::Facts(5, Some("0.1."))));
        for bad in [
            "", "x", "7", "t", "t5", "t5.", "tx.7", "t5.a:b", "n", "nx", "i", "i.7", "\u{20ac}",
        ] {
            assert!(Start::parse(Some(bad)).is_err(), "{bad}");
        }
    }
}
