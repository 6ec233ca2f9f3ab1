//! Numbers of facts, which scripts compute (`sources.lua`).

use crate::domain::error::StoreError;
use crate::domain::keys::{BaseKeys, KeyTemplate, TimelineKeys};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, SOURCES, ScriptTemplate};
use redis::{Cmd, FromRedisValue, Value};
use std::iter::Sum;

static CARDS: ScriptTemplate =
    ScriptTemplate::reading(&[SOURCES, include_str!("../lua/fact_cards.lua")]);

/// What `sources.lua` replies for facts of which a key holds another type.
const WRONG_TYPE: &[u8] = b"TYPE";
/// What `sources.lua` replies for more facts than one step can count.
const LARGE: &[u8] = b"LARGE";

/// The number of chunks that a script counts without a recount, as in sources.lua.
pub(super) const MAX_CHUNKS: u64 = 1_024;
/// The cost of a key of facts, in tenths of a microsecond.
const SET_COST: u64 = 5;
/// The cost of a chunk of bits.
const CHUNK_COST: u64 = 12;

/// Where a script finds the facts of a metric on an entity to count them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardSource {
    kind: &'static str,
    keys: Vec<String>,
    /// Further keys, whose names an index has.
    indexed: KeyTemplate,
}

/// What counting the facts of a source costs, in tenths of a microsecond of the server's time.
pub struct CardCost<'s> {
    /// The cost without the members of the index.
    pub known: u64,
    /// The index, a sorted set.
    pub index: Option<&'s str>,
    /// The cost of a member of the index.
    pub member: u64,
    /// The maximum number of members that a script counts.
    pub max_members: u64,
}

/// The number of facts of a metric on an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// The number.
    Known(u64),
    /// A key of the facts holds another type.
    WrongType,
    /// There are too many facts to be counted in one step, and no complete recount ([`super::recount`]).
    Large,
}

impl Sum for Card {
    /// [`Card::WrongType`] if any of them is, or else [`Card::Large`].
    fn sum<I: Iterator<Item = Card>>(cards: I) -> Card {
        cards.fold(Card::Known(0), |sum, card| match (sum, card) {
            (Card::WrongType, _) | (_, Card::WrongType) => Card::WrongType,
            (Card::Large, _) | (_, Card::Large) => Card::Large,
            (Card::Known(sum), Card::Known(facts)) => Card::Known(sum + facts),
        })
    }
}

/// Whether a counter may differ from the sum of these numbers of facts. Facts that cannot be counted do not tell; facts that need a
/// recount may differ.
pub fn may_differ(cards: impl IntoIterator<Item = Card>, counter: Option<u64>) -> bool {
    match cards.into_iter().sum() {
        Card::Known(sum) => counter != Some(sum),
        Card::WrongType => false,
        Card::Large => true,
    }
}

impl CardSource {
    fn new(kind: &'static str, keys: Vec<String>) -> CardSource {
        let indexed = KeyTemplate {
            prefix: String::new(),
            suffix: String::new(),
        };
        CardSource {
            kind,
            keys,
            indexed,
        }
    }

    /// The members of the module's id set.
    pub(super) fn ids(key: String) -> CardSource {
        CardSource::new("ids", vec![key])
    }

    /// The members of an id set of the module, or of a Set in its place.
    pub(super) fn mixed_ids(key: String) -> CardSource {
        CardSource::new("mixed_ids", vec![key])
    }

    /// The members of the set of a base, unless its facts are being merged, as its state says.
    pub(super) fn base(keys: BaseKeys) -> CardSource {
        CardSource::new("base", vec![keys.frozen, keys.state, keys.whole])
    }

    /// The members of Sets.
    pub(super) fn sets(keys: Vec<String>) -> CardSource {
        CardSource::new("sets", keys)
    }

    /// The bits of the chunks in an index.
    pub(super) fn bits(index: String, chunks: KeyTemplate) -> CardSource {
        CardSource {
            indexed: chunks,
            ..CardSource::new("bits", vec![index])
        }
    }

    /// The members of the Sets of the days in an index, of the compacted ids and of the compacted non-numeric ids.
    pub(super) fn days(keys: Vec<String>, days: KeyTemplate) -> CardSource {
        CardSource {
            indexed: days,
            ..CardSource::new("days", keys)
        }
    }

    /// The facts that are kept for a user in these timelines.
    pub fn timelines(timelines: impl Iterator<Item = TimelineKeys>) -> CardSource {
        let keys = timelines.flat_map(|timeline| {
            [
                timeline.newest_table,
                timeline.newest_set,
                timeline.older_ids.unwrap_or_default(),
                timeline.older_set.unwrap_or_default(),
            ]
        });
        CardSource::new("timelines", keys.collect())
    }

    /// Its keys, in the order in which scripts take them. All are in the slot of the entity.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The key of the module's id set, if the facts are the members of one.
    pub fn id_set(&self) -> Option<&str> {
        match (self.kind, self.keys.as_slice()) {
            ("ids", [key]) => Some(key),
            _ => None,
        }
    }

    /// What counting its facts costs.
    pub fn cost(&self) -> CardCost<'_> {
        let (member, max_members) = match self.kind {
            "bits" => (CHUNK_COST, MAX_CHUNKS),
            "days" => (SET_COST, u64::MAX),
            _ => (0, 0),
        };
        let index = self.keys.first().filter(|_| member > 0);
        CardCost {
            known: SET_COST * self.keys.len() as u64,
            index: index.map(String::as_str),
            member,
            max_members,
        }
    }

    /// The index and the keys of the chunks, if the facts are bits.
    pub(super) fn chunks(&self) -> Option<(&str, &KeyTemplate)> {
        match (self.kind, self.keys.as_slice()) {
            ("bits", [index]) => Some((index, &self.indexed)),
            _ => None,
        }
    }

    /// Its four arguments.
    pub fn arguments(&self) -> [String; 4] {
        let KeyTemplate { prefix, suffix } = self.indexed.clone();
        [
            self.kind.to_owned(),
            self.keys.len().to_string(),
            prefix,
            suffix,
        ]
    }

    /// Adds its four arguments.
    pub fn add_arguments(&self, cmd: &mut Cmd) {
        cmd.arg(&self.arguments());
    }
}

/// The call that counts the facts of sources in one step. In a cluster all are in one partition. [`decode_cards`] decodes its reply.
pub fn cards(backend: CounterBackend, sources: &[CardSource]) -> RedisCall {
    let keys: Vec<&String> = sources.iter().flat_map(CardSource::keys).collect();
    let mut call = RedisCall::script(CARDS.on(backend), &keys);
    for source in sources {
        source.add_arguments(&mut call.cmd);
    }
    call
}

/// The permissions that [`cards`] requires.
pub fn cards_permissions(backend: CounterBackend) -> Permissions {
    CARDS.required_permissions(backend)
}

/// The numbers in a reply of [`cards`], in the order of the sources.
///
/// # Errors
/// The reply is malformed.
pub fn decode_cards(reply: Value) -> Result<Vec<Card>, StoreError> {
    let unexpected = || StoreError::Unexpected("numbers of facts".to_owned());
    let replies = Vec::<Value>::from_redis_value(reply).map_err(|_| unexpected())?;
    let decode = |reply: Value| decode_card(reply).ok_or_else(unexpected);
    replies.into_iter().map(decode).collect()
}

fn decode_card(reply: Value) -> Option<Card> {
    match reply {
        Value::Int(count) => u64::try_from(count).ok().map(Card::Known),
        Value::BulkString(text) if text == WRONG_TYPE => Some(Card::WrongType),
        Value::BulkString(text) if text == LARGE => Some(Card::Large),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_need_a_recount_may_differ() {
        let [two, three] = [2, 3].map(Card::Known);
        assert!(!may_differ([two, three], Some(5)));
        assert!(may_differ([two, three], Some(4)) && may_differ([two], None));
        assert!(may_differ([two, Card::Large], Some(2)));
        assert!(!may_differ([Card::Large, Card::WrongType], Some(2)));
    }
}
