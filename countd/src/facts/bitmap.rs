//! Facts as bits, for small and dense ids. A String holds a chunk of 32,768 bits, at most 4 KB. Empty chunks are deleted.

use super::card::CardSource;
use super::change::{FACT_CHANGE, change_call};
use super::member::MemberSource;
use super::recount::RECOUNT;
use super::store::{Fact, FactChange, FactPage, FactStore, InvalidCursor};
use crate::domain::error::{StoreError, UnsupportedUserId};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use redis::{FromRedisValue, Value};

/// The number of bits of a chunk.
const CHUNK: u32 = 32_768;

static CHANGE: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../lua/facts_bitmap.lua"), FACT_CHANGE])
        .with_days();
static USERS: ScriptTemplate = ScriptTemplate::reading(&[include_str!("../lua/users_bitmap.lua")]);
/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["GETBIT {bits} 0"];

/// Facts as bits.
#[derive(Clone, Copy)]
pub struct BitmapFacts {
    /// The layout of the keys.
    pub keys: Keys,
    /// How the data stores counters.
    pub backend: CounterBackend,
}

/// The numeric value of a supported id.
fn number(uid: &Id) -> Option<u32> {
    uid.number().and_then(|number| u32::try_from(number).ok())
}

impl BitmapFacts {
    /// The chunk of a user, and the bit in it.
    fn location(uid: &Id) -> (u32, u32) {
        let number = number(uid).unwrap_or_default();
        (number / CHUNK, number % CHUNK)
    }
}

impl FactStore for BitmapFacts {
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
        let (chunk, bit) = BitmapFacts::location(uid);
        let template = self.keys.fact_bits(metric, entity);
        let keys = vec![
            template.key(chunk),
            template.key("chunks"),
            template.key(RECOUNT),
        ];
        let arguments = [bit.to_string(), chunk.to_string()];
        let arguments = arguments.each_ref().map(String::as_str);
        change_call((&CHANGE, self.backend), change, keys, &arguments)
    }

    fn contains(&self, fact: &Fact<'_>) -> RedisCall {
        let (chunk, bit) = BitmapFacts::location(fact.uid);
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
        let template = self.keys.fact_bits(metric, entity);
        let mut call = RedisCall::script(USERS.on(self.backend), &[template.key("chunks")]);
        call.cmd
            .arg(limit)
            .arg(below(from)?.saturating_sub(1) / u64::from(CHUNK));
        call.cmd.arg(template.prefix).arg(template.suffix);
        Ok(call)
    }

    fn has_portable_cursors(&self) -> bool {
        true
    }

    fn decode_page(
        &self,
        reply: Value,
        from: Option<&str>,
        limit: usize,
    ) -> Result<FactPage, StoreError> {
        let unexpected = || StoreError::Unexpected("a page of bits".to_owned());
        let chunks = Vec::<(u64, Vec<u8>)>::from_redis_value(reply).map_err(|_| unexpected())?;
        let below = below(from).map_err(|_| unexpected())?;
        let ids = chunks.iter().flat_map(|(chunk, bits)| ids(*chunk, bits));
        let mut ids = ids.skip_while(|id| *id >= below);
        let users: Vec<u64> = ids.by_ref().take(limit).collect();
        let next = ids.next().and(users.last()).map(u64::to_string);
        let users = users.iter().map(u64::to_string).collect();
        Ok(FactPage { users, next })
    }

    fn contains_permissions(&self) -> Permissions {
        Permissions::of_commands(PERMISSIONS)
    }

    fn root_keys(&self, metric: &Name, entity: &Entity) -> Vec<String> {
        vec![self.keys.fact_bits(metric, entity).key("chunks")]
    }

    fn card_source(&self, metric: &Name, entity: &Entity) -> CardSource {
        let chunks = self.keys.fact_bits(metric, entity);
        CardSource::bits(chunks.key("chunks"), chunks)
    }

    fn member_source(&self, fact: &Fact<'_>) -> MemberSource {
        let (chunk, bit) = BitmapFacts::location(fact.uid);
        let key = self.keys.fact_bits(fact.metric, fact.entity).key(chunk);
        MemberSource::bit(key, bit.into())
    }

    fn required_permissions(&self) -> Permissions {
        RedisCall::guarded_permissions(PERMISSIONS)
            .and(CHANGE.required_permissions(self.backend))
            .and(USERS.required_permissions(self.backend))
    }
}

/// The exclusive upper limit of the ids of a page. A cursor is the last id of the previous page.
fn below(from: Option<&str>) -> Result<u64, InvalidCursor> {
    let Some(from) = from else {
        return Ok(u64::from(u32::MAX) + 1);
    };
    let id = Id::new(from).map_err(|_| InvalidCursor)?;
    number(&id).map(u64::from).ok_or(InvalidCursor)
}

/// The ids of a chunk in descending order. Redis numbers bits from the most significant one of the first byte.
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
    fn ids_of_a_chunk_are_in_descending_order() {
        assert_eq!(
            ids(0, &[0b1000_0001, 0, 0b0100_0000]).collect::<Vec<_>>(),
            [17, 7, 0]
        );
        assert_eq!(ids(2, &[0x80]).collect::<Vec<_>>(), [65_536]);
        assert_eq!(ids(2, &[]).count(), 0);
    }

    #[test]
    fn cursors_are_numeric_ids() {
        assert_eq!(below(None), Ok(1 << 32));
        assert_eq!(below(Some("7")), Ok(7));
        for bad in ["", "x", "4294967296", "07", "-1"] {
            assert_eq!(below(Some(bad)), Err(InvalidCursor), "{bad}");
        }
    }
}
