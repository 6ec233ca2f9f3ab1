//! Reads the numbers of facts of many entities by plain commands.

use crate::domain::error::StoreError;
use crate::facts::{Card, CardSource, cards, decode_cards};
use crate::query::fields::{hash_tag, read_page};
use crate::redis::call::RedisCall;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use redis::{Cmd, Value};
use std::collections::HashMap;

/// Commands that this file sends, besides those of scripts.
pub(super) const PERMISSIONS: &[&str] = &["RBM.MCARD {ids}"];

/// The numbers of facts to read.
#[derive(Default)]
pub(super) struct CardReads {
    calls: Vec<Call>,
    /// The call of the id sets with each hash tag. On one server there is one call for all.
    by_tag: HashMap<String, usize>,
    /// Where the number of each source is: the index of the call, and the position in its reply.
    places: Vec<(usize, usize)>,
}

/// A call that reads one or several numbers.
enum Call {
    /// `RBM.MCARD` of these sources.
    IdSets(Vec<CardSource>),
    /// A script that counts one source.
    Script(CardSource),
}

impl Call {
    fn request(&self, backend: CounterBackend) -> RedisCall {
        match self {
            Call::IdSets(sources) => {
                let keys: Vec<&str> = sources.iter().filter_map(CardSource::id_set).collect();
                let bytes = keys.iter().map(|key| key.len()).sum();
                let mut cmd = Cmd::with_capacity(1 + keys.len(), bytes);
                cmd.arg("RBM.MCARD").arg(keys);
                RedisCall::command(cmd)
            }
            Call::Script(source) => cards(backend, std::slice::from_ref(source)),
        }
    }
}

impl CardReads {
    /// Adds a source. The numbers are in the order of these calls.
    pub fn add(&mut self, store: &Store, source: CardSource) {
        let new = self.calls.len();
        let Some(key) = source.id_set() else {
            self.places.push((new, 0));
            self.calls.push(Call::Script(source));
            return;
        };
        let tag = match store.keys().tagged() {
            true => hash_tag(key),
            false => "",
        };
        let call = match self.by_tag.get(tag) {
            Some(call) => *call,
            None => {
                self.by_tag.insert(tag.to_owned(), new);
                self.calls.push(Call::IdSets(Vec::new()));
                new
            }
        };
        if let Call::IdSets(sources) = &mut self.calls[call] {
            self.places.push((call, sources.len()));
            sources.push(source);
        }
    }

    /// The calls that read the numbers.
    pub fn requests(&self, backend: CounterBackend) -> Vec<RedisCall> {
        self.calls
            .iter()
            .map(|call| call.request(backend))
            .collect()
    }

    /// The numbers, from the replies of the calls. If one of several keys holds another type, the others are read again.
    ///
    /// # Errors
    /// The store is unavailable or replies something else.
    pub async fn decode(
        self,
        store: &Store,
        replies: impl Iterator<Item = Result<Value, StoreError>>,
    ) -> Result<Vec<Card>, StoreError> {
        let mut found: Vec<Vec<Card>> = Vec::with_capacity(self.calls.len());
        for (call, reply) in self.calls.iter().zip(replies) {
            found.push(match (call, reply) {
                (Call::IdSets(sources), Err(StoreError::WrongType(_))) if sources.len() > 1 => {
                    one_by_one(store, sources).await?
                }
                (_, Ok(reply)) => decode_cards(reply)?,
                (_, Err(StoreError::WrongType(_))) => Vec::new(),
                (_, Err(error)) => return Err(error),
            });
        }
        let card = |(call, position): &(usize, usize)| {
            let cards = found.get(*call)?;
            cards.get(*position).copied()
        };
        let places = self.places.iter();
        Ok(places
            .map(|place| card(place).unwrap_or(Card::WrongType))
            .collect())
    }
}

/// The numbers of id sets of which one holds another type.
async fn one_by_one(store: &Store, sources: &[CardSource]) -> Result<Vec<Card>, StoreError> {
    let calls = sources.iter().map(|source| {
        let call = Call::IdSets(vec![source.clone()]);
        call.request(store.backend())
    });
    let calls: Vec<RedisCall> = calls.collect();
    let mut cards = Vec::with_capacity(calls.len());
    for reply in read_page(store, &[], &calls).await?.replies {
        match reply {
            Ok(reply) => cards.extend(decode_cards(reply)?),
            Err(StoreError::WrongType(_)) => cards.push(Card::WrongType),
            Err(error) => return Err(error),
        }
    }
    Ok(cards)
}
