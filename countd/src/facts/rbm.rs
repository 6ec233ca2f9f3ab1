//! Facts in the module's id sets: 64-bit ids, and `RBM.MARK` for the one step.

use super::{Change, Facts, Keyed, Misfit, Op, Page};
use crate::ids::{Entity, Id, Name};
use crate::keys::Keys;
use crate::store::StoreError;
use redis::{Cmd, FromRedisValue, Value};

/// The way of the module.
#[derive(Clone, Copy)]
pub struct Rbm(pub Keys);

impl Facts for Rbm {
    fn fits(&self, uid: &Id) -> Result<(), Misfit> {
        uid.number().map(|_| ()).ok_or(Misfit)
    }

    fn change(&self, change: &Change<'_>) -> Keyed {
        let name = match change.op {
            Op::Add => "RBM.MARK",
            Op::Remove => "RBM.UNMARK",
        };
        let facts = self.0.facts(change.metric, change.entity);
        let (stream, event) = change.event;
        let mut keys = vec![facts.clone()];
        let mut words = vec![name.to_owned(), facts, change.uid.to_string()];
        if let Some(counter) = change.counter {
            keys.push(counter.key.clone());
            words.extend([
                "COUNT".to_owned(),
                counter.key.clone(),
                counter.idx.to_string(),
            ]);
            words.extend(["LEN".to_owned(), counter.len.to_string()]);
        }
        keys.push(stream.to_owned());
        words.extend(
            [
                "EVENT",
                stream,
                "SEQ",
                crate::log::Kind::Event.field(),
                event,
            ]
            .map(str::to_owned),
        );
        Keyed { keys, words }
    }

    fn changed(&self, reply: Value) -> Result<(bool, Option<u64>), StoreError> {
        let (changed, count) = <(u8, Option<u64>)>::from_redis_value(reply)
            .map_err(|why| StoreError::Unexpected(format!("RBM.MARK: {why}")))?;
        Ok((changed == 1, count))
    }

    fn contains(&self, metric: &Name, entity: &Entity, uid: &Id) -> Cmd {
        let mut cmd = redis::cmd("RBM.CONTAINS");
        cmd.arg(self.0.facts(metric, entity)).arg(uid.as_str());
        cmd
    }

    fn page(&self, metric: &Name, entity: &Entity, from: Option<&str>, limit: usize) -> Cmd {
        let mut cmd = redis::cmd("RBM.SCAN");
        cmd.arg(self.0.facts(metric, entity))
            .arg(from.unwrap_or("0"));
        cmd.arg("COUNT").arg(limit).arg("REV");
        cmd
    }

    fn paged(&self, reply: Value) -> Result<Page, StoreError> {
        let (cursor, users) = <(String, Vec<String>)>::from_redis_value(reply)
            .map_err(|why| StoreError::Unexpected(format!("RBM.SCAN: {why}")))?;
        let next = (cursor != "0").then_some(cursor);
        Ok(Page { users, next })
    }
}
