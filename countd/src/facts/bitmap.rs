//! FactStore as bits: for ids that are small and dense. A chunk holds 32,768 of them, which are 4 KB at most; one that is empty is not
//! there.

use super::mark::{MARK, mark};
use super::{Fact, FactChange, FactStore, InvalidCursor, Page};
use crate::domain::error::StoreError;
use crate::domain::error::UnsupportedUserId;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::redis::call::RedisCall;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use redis::{FromRedisValue, Value};

/// Bits of a chunk.
const CHUNK: u32 = 32_768;

static MARK_BIT: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../lua/facts_bitmap.lua"), MARK]);
static WHO: ScriptTemplate = ScriptTemplate::reading(&[include_str!("../lua/who_bitmap.lua")]);

/// The way of bits.
#[derive(Clone, Copy)]
pub struct Bitmap {
    /// The layout of the keys.
    pub keys: Keys,
    /// How the server keeps counters.
    pub backend: CounterBackend,
}

/// Of an id that fits.
fn number(uid: &Id) -> Option<u32> {
    uid.number().and_then(|number| u32::try_from(number).ok())
}

impl Bitmap {
    /// Chunk and bit of a user.
    fn place(uid: &Id) -> (u32, u32) {
        let number = number(uid).unwrap_or_default();
        (number / CHUNK, number % CHUNK)
    }
}

impl FactStore for Bitmap {
    fn check_uid(&self, uid: &Id) -> Result<(), UnsupportedUserId> {
        number(uid)
            .map(|_| ())
            .ok_or(UnsupportedUserId(u32::MAX.into()))
    }

    fn change(&self, change: &FactChange<'_>) -> RedisCall {
        let Fact {
            metric,
            entity,
            uid,
        } = change.fact;
        let (chunk, bit) = Bitmap::place(uid);
        let family = self.keys.fact_bits(metric, entity);
        let keys = vec![family.key(chunk), family.key("chunks")];
        let arguments = [bit.to_string(), chunk.to_string()];
        let arguments = arguments.each_ref().map(String::as_str);
        mark(MARK_BIT.on(self.backend), change, keys, &arguments)
    }

    fn contains(&self, fact: &Fact<'_>) -> RedisCall {
        let (chunk, bit) = Bitmap::place(fact.uid);
        let key = self.keys.fact_bits(fact.metric, fact.entity).key(chunk);
        RedisCall::guarded(&["GETBIT", &key, &bit.to_string()], &[], None)
    }

    fn page(
        &self,
        metric: &Name,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        let family = self.keys.fact_bits(metric, entity);
        let mut call = RedisCall::script(WHO.on(self.backend), &[family.key("chunks")]);
        call.cmd
            .arg(limit)
            .arg(below(from)?.saturating_sub(1) / u64::from(CHUNK));
        call.cmd.arg(family.before).arg(family.after);
        Ok(call)
    }

    fn paged(&self, reply: Value, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let unexpected = || StoreError::Unexpected("a page of bits".to_owned());
        let chunks = Vec::<(u64, Vec<u8>)>::from_redis_value(reply).map_err(|_| unexpected())?;
        let below = below(from).map_err(|_| unexpected())?;
        let ids = chunks.iter().flat_map(|(chunk, bits)| ids(*chunk, bits));
        let mut ids = ids.skip_while(|id| *id >= below);
        let users: Vec<u64> = ids.by_ref().take(limit).collect();
        let next = ids.next().and(users.last()).map(u64::to_string);
        let users = users.iter().map(u64::to_string).collect();
        Ok(Page { users, next })
    }
}

/// The page has only ids below this one: a cursor is the last id of the page before.
fn below(from: Option<&str>) -> Result<u64, InvalidCursor> {
    let Some(from) = from else {
        return Ok(u64::from(u32::MAX) + 1);
    };
    let id = Id::new(from).map_err(|_| InvalidCursor)?;
    number(&id).map(u64::from).ok_or(InvalidCursor)
}

/// The ids of a chunk, the greatest first. Redis counts bits from the highest of the first byte.
fn ids(chunk: u64, bits: &[u8]) -> impl Iterator<Item = u64> {
    let bytes = bits
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte != 0);
    bytes.flat_map(move |(at, byte)| {
        let set = (0..8_u64)
            .rev()
            .filter(move |bit| byte & (0x80 >> bit) != 0);
        set.map(move |bit| chunk * u64::from(CHUNK) + at as u64 * 8 + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_from_the_greatest_down() {
        assert_eq!(
            ids(0, &[0b1000_0001, 0, 0b0100_0000]).collect::<Vec<_>>(),
            [17, 7, 0]
        );
        assert_eq!(ids(2, &[0x80]).collect::<Vec<_>>(), [65_536]);
        assert_eq!(ids(2, &[]).count(), 0);
    }

    #[test]
    fn cursors_are_ids() {
        assert_eq!(below(None), Ok(1 << 32));
        assert_eq!(below(Some("7")), Ok(7));
        for bad in ["", "x", "4294967296", "07", "-1"] {
            assert_eq!(below(Some(bad)), Err(InvalidCursor), "{bad}");
        }
    }
}
