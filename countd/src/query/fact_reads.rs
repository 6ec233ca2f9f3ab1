//! Reads whether facts exist, with as few commands as possible.

use super::reads::Queries;
use crate::domain::error::StoreError;
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
    single: Vec<usize>,
    /// The commands of these facts.
    single_calls: Vec<RedisCall>,
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
            self.single.push(index);
            self.single_calls.push(store.contains(&fact));
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

    /// Adds a fact that is known not to exist. It is not read.
    pub(super) fn add_absent(&mut self) {
        self.len += 1;
    }

    /// Takes the calls that read the facts.
    pub(super) fn take_calls(&mut self) -> Vec<RedisCall> {
        let pages = self.pages.values();
        let pages = pages.map(|page| page.store.page_of(&page.facts));
        pages
            .chain(std::mem::take(&mut self.single_calls))
            .collect()
    }

    /// Returns whether each fact exists, in the order in which they were added, from the replies of [`take_calls`](Self::take_calls). A key of another
    /// type fails only its own facts: those of its page are read again, each by itself.
    ///
    /// # Errors
    /// Redis is unavailable or rejects the commands.
    pub(super) async fn results(
        self,
        queries: &Queries,
        replies: Vec<Result<Value, StoreError>>,
    ) -> Result<Vec<Result<bool, StoreError>>, StoreError> {
        let missing = || StoreError::Unexpected("facts: a reply is missing".to_owned());
        // Absent facts stay as they are; each other one has a reply.
        let mut results: Vec<Result<bool, StoreError>> = Vec::new();
        results.resize_with(self.len, || Ok(false));
        let mut replies = replies.into_iter();
        let mut suspects = Vec::new();
        for page in self.pages.values() {
            match replies.next().unwrap_or_else(|| Err(missing())) {
                Err(StoreError::WrongType(_)) => {
                    let facts = page.indexes.iter().zip(&page.facts);
                    suspects.extend(facts.map(|(index, fact)| (*index, page.store.contains(fact))));
                }
                reply => {
                    let digits = digits(reply?, page.facts.len())?;
                    for (index, digit) in page.indexes.iter().zip(digits) {
                        results[*index] = Ok(digit == b'1');
                    }
                }
            }
        }
        for index in self.single {
            let reply = replies.next().unwrap_or_else(|| Err(missing()));
            results[index] = reply.and_then(is_one);
        }
        if !suspects.is_empty() {
            let (indexes, calls): (Vec<usize>, Vec<RedisCall>) = suspects.into_iter().unzip();
            let mut again = queries.read_page(&[], &calls).await?.replies.into_iter();
            for index in indexes {
                let reply = again.next().unwrap_or_else(|| Err(missing()));
                results[index] = reply.and_then(is_one);
            }
        }
        Ok(results)
    }
}

/// Whether the reply of [`FactStore::contains`] is 1.
fn is_one(reply: Value) -> Result<bool, StoreError> {
    let reply = u8::from_redis_value(reply);
    let malformed = |error| StoreError::Unexpected(format!("a status: {error}"));
    Ok(reply.map_err(malformed)? == 1)
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
