//! Reads whether facts exist, with as few commands as possible.

use super::reads::Queries;
use crate::domain::error::{Problem, StoreError};
use crate::domain::keys::{Keys, Partition};
use crate::facts::{Fact, FactStore};
use crate::redis::call::RedisCall;
use redis::{FromRedisValue, Value};
use std::collections::BTreeMap;

/// The reads of the facts of one user.
#[derive(Default)]
pub(super) struct FactReads<'a> {
    /// The number of facts.
    len: usize,
    /// The facts that have a command of their own, by their number.
    single: Vec<(usize, RedisCall)>,
    /// The facts that one command can read, by their number; in a cluster those of a partition.
    pages: BTreeMap<Partition, Page<'a>>,
}

struct Page<'a> {
    store: &'a dyn FactStore,
    indexes: Vec<usize>,
    facts: Vec<Fact<'a>>,
}

impl<'a> FactReads<'a> {
    /// Adds a fact.
    pub(super) fn add(&mut self, keys: Keys, store: &'a dyn FactStore, fact: Fact<'a>) {
        let index = self.len;
        self.len += 1;
        if !store.reads_pages() {
            self.single.push((index, store.contains(&fact)));
            return;
        }
        let slot = match keys.tagged() {
            true => keys.of_entity(fact.entity),
            false => 0,
        };
        // Only one kind of fact store reads pages.
        let page = self.pages.entry(slot).or_insert_with(|| Page {
            store,
            indexes: Vec::new(),
            facts: Vec::new(),
        });
        page.indexes.push(index);
        page.facts.push(fact);
    }

    /// Returns whether each fact exists, in the order in which they were added.
    pub(super) async fn send(self, queries: &Queries) -> Result<Vec<bool>, Problem> {
        let pages = self.pages.values();
        let (single, calls): (Vec<usize>, Vec<RedisCall>) = self.single.into_iter().unzip();
        let mut all: Vec<RedisCall> = pages.map(|page| page.store.page_of(&page.facts)).collect();
        all.extend(calls);
        let mut replies = queries.pipeline(&all).await?.into_iter();
        let mut exist = vec![false; self.len];
        for (page, reply) in self.pages.values().zip(&mut replies) {
            for (index, digit) in page.indexes.iter().zip(digits(reply, page.facts.len())?) {
                exist[*index] = digit == b'1';
            }
        }
        for (index, reply) in single.into_iter().zip(replies) {
            let reply = u8::from_redis_value(reply).map_err(redis::RedisError::from);
            exist[index] = reply? == 1;
        }
        Ok(exist)
    }
}

/// A reply of a digit for each fact.
fn digits(reply: Value, len: usize) -> Result<Vec<u8>, StoreError> {
    match reply {
        Value::BulkString(digits) if digits.len() == len => Ok(digits),
        _ => Err(StoreError::Unexpected(
            "facts: a reply of another length".to_owned(),
        )),
    }
}
