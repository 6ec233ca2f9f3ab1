//! Sets facts as the last event of each says. A fact that is set again does not change.

use super::state::Replay;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::op::Op;
use crate::facts::{Fact, FactChange, SplitFacts};
use crate::redis::call::scripts;
use redis::{RedisError, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["UNLINK {restored}"];

/// The maximum number of facts in a pipeline.
const PIPELINE: usize = 1_000;

impl Replay {
    /// Sets facts. Their events go to streams that are deleted at once.
    pub(super) async fn set_facts(
        &self,
        facts: BTreeMap<(Name, Entity, Id), (Op, u64)>,
    ) -> Result<(), Problem> {
        let (keys, layout) = (self.store.keys(), self.store.layout());
        let splits = SplitFacts::new(keys, self.facts.clone());
        let (mut calls, mut streams) = (Vec::new(), BTreeSet::new());
        for ((name, entity, uid), (op, ts)) in &facts {
            let Some((name, metric)) = self.catalog.config.metrics.get(name.as_str()) else {
                continue;
            };
            let Some(facts) = self.facts.of(metric) else {
                continue;
            };
            if facts.check_uid(uid).is_err() {
                continue;
            }
            let stream = keys.restored_events(keys.of_entity(entity));
            let change = FactChange {
                fact: Fact {
                    metric: name,
                    entity,
                    uid,
                },
                op: *op,
                ts: *ts,
                counter: None,
                day: None,
                event: (&stream, ""),
                guard: None,
                author: None,
            };
            let state = layout.split_of(entity).filter(|state| state.has(name));
            calls.push(match state {
                Some(state) => splits.change(&change, state),
                None => facts.change(&change),
            });
            streams.insert(stream);
        }
        for calls in calls.chunks(PIPELINE) {
            let mut pipeline = redis::pipe();
            for script in scripts(calls.iter()) {
                let load = pipeline.cmd("SCRIPT").arg("LOAD");
                load.arg(&script.source).ignore();
            }
            for call in calls {
                pipeline.add_command(call.cmd.clone());
            }
            pipeline.ignore_errors();
            let replies: Vec<Result<Value, RedisError>> =
                pipeline.query_async(&mut self.store.commands()).await?;
            if let Some(error) = replies.into_iter().find_map(Result::err) {
                return Err(error.into());
            }
        }
        for stream in streams {
            let mut cmd = redis::cmd("UNLINK");
            cmd.arg(stream);
            cmd.exec_async(&mut self.store.commands()).await?;
        }
        Ok(())
    }
}
