//! Executes prepared actions, and sends those again that had no effect.

use super::action::ActionOutcome;
use super::actions::Actions;
use super::prepared::{CountedEntity, PreparedAction, ReplyKind, problem};
use super::records::no_topic;
use super::requests::Request;
use super::rounds::{Change, Rounds};
use super::windows::{WindowedAction, server_time};
use crate::domain::error::{Problem, StoreError, is_lost_counter, rejected_by_foreign_last_id};
use crate::domain::ids::{Entity, Id};
use crate::domain::keys::Partition;
use crate::log::kafka::OutgoingRecord;
use crate::log::{renumber, renumber_each};
use crate::redis::call::scripts;
use futures_util::future::join_all;
use redis::{Cmd, Pipeline, RedisError, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The partition of an action, the form of its reply and the hash of its request.
type Target = (Partition, ReplyKind, Option<u64>);

/// How often an action is sent again after its log or its counter was repaired.
const MAX_REPAIRS: usize = 2;
/// The number of entities that are rebuilt at once.
const CONCURRENT_REBUILDS: usize = 16;

impl Actions {
    /// Executes one action, alone.
    ///
    /// # Errors
    /// See [`execute`](Self::execute).
    pub(super) async fn execute_alone(
        &self,
        action: &PreparedAction,
    ) -> Result<ActionOutcome, Problem> {
        if let Some(record) = &action.record {
            let mut outcomes = self.append_records(&[(record, action.change)]).await;
            return outcomes.pop().unwrap_or_else(|| Err(no_topic()));
        }
        let counted = action.counted.iter();
        let _changing = self.hot.changing(counted.map(|counted| &counted.entity));
        self.create(action).await;
        let mut reply = action.call.send_confirmed(&self.store).await;
        for _ in 0..MAX_REPAIRS {
            // A rejected action has no effect.
            match (&reply, &action.counted) {
                (Err(error), _) if rejected_by_foreign_last_id(error) => {
                    renumber(&self.store, action.partition).await?;
                }
                (Err(error), Some(counted)) if is_lost_counter(error) => {
                    let CountedEntity {
                        entity,
                        is_base,
                        trace_id,
                    } = &**counted;
                    // The script of a base finds its facts wherever they are. If it is that of an earlier split, the action is prepared again.
                    if !is_base && self.has_moved(entity).await {
                        break;
                    }
                    self.rebuilder.complete(entity, trace_id).await;
                }
                _ => break,
            }
            reply = action.call.send_confirmed(&self.store).await;
        }
        let reply = reply.map_err(problem)?;
        let reply = self.in_window(reply, action.windowed.as_deref()).await?;
        let outcome = action.reply_kind.outcome(reply, action.hash)?;
        self.remember_author(&action.registers, &outcome);
        Ok(outcome)
    }

    /// Executes the command that has to precede an action.
    pub(super) async fn create(&self, action: &PreparedAction) {
        if let Some(create) = &action.creates
            && let Err(error) = create.exec_async(&mut self.store.commands()).await
        {
            tracing::debug!(%error, "a counter could not be created");
        }
    }

    /// Remembers the author that an action registered. A replayed action did not check the author.
    fn remember_author(&self, registers: &Option<(Entity, Id)>, outcome: &ActionOutcome) {
        if let Some((entity, author)) = registers
            && !outcome.replayed
        {
            self.authors.remember(entity.clone(), author.clone());
        }
    }

    /// Sends an action again if its window of time was not among those of its call.
    async fn in_window(
        &self,
        reply: Value,
        windowed: Option<&WindowedAction>,
    ) -> Result<Value, Problem> {
        let (Some(windowed), Some(now)) = (windowed, server_time(&reply)?) else {
            return Ok(reply);
        };
        let call = windowed.call(self.store.backend(), now);
        let reply = call.send_confirmed(&self.store).await.map_err(problem)?;
        match server_time(&reply)? {
            None => Ok(reply),
            Some(_) => Err(StoreError::Unexpected("the clock of Redis jumps".to_owned()).into()),
        }
    }

    /// Executes many actions in order, in one pipeline per node; an action that undoes an earlier one after the reply of that one. If that one
    /// failed and can be sent again, the action is not sent and fails, too.
    pub async fn execute_all(
        &self,
        actions: Vec<PreparedAction>,
    ) -> Vec<Result<ActionOutcome, Problem>> {
        let requests: Vec<Option<Arc<Request>>> = actions
            .iter()
            .map(|action| action.request.clone())
            .collect();
        let mut outcomes = Vec::with_capacity(actions.len());
        // An action whose entity was split or merged meanwhile is retried, in order.
        for (request, outcome) in requests.into_iter().zip(self.execute_once(actions).await) {
            outcomes.push(self.repeated(request, outcome).await);
        }
        outcomes
    }

    /// Executes many actions. Those on split entities concern other facts than those on other entities.
    async fn execute_once(
        &self,
        actions: Vec<PreparedAction>,
    ) -> Vec<Result<ActionOutcome, Problem>> {
        if actions.iter().all(|action| action.split.is_none()) {
            return self.execute_unsplit(actions).await;
        }
        let (mut splits, mut others, mut of_others) = (Vec::new(), Vec::new(), Vec::new());
        for (place, action) in actions.into_iter().enumerate() {
            match action.split {
                Some(_) => splits.push((place, action)),
                None => {
                    others.push(action);
                    of_others.push(place);
                }
            }
        }
        let (mut all, others) =
            tokio::join!(self.execute_splits(splits), self.execute_unsplit(others));
        all.extend(of_others.into_iter().zip(others));
        all.sort_unstable_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn execute_unsplit(
        &self,
        actions: Vec<PreparedAction>,
    ) -> Vec<Result<ActionOutcome, Problem>> {
        if actions.iter().all(|action| action.record.is_none()) {
            return self.execute_commands(actions).await;
        }
        let total = actions.len();
        let (mut records, mut commands) = (Vec::new(), Vec::new());
        let (mut of_records, mut of_commands) = (Vec::new(), Vec::new());
        for (place, mut action) in actions.into_iter().enumerate() {
            match action.record.take() {
                Some(record) => {
                    records.push((record, action.change));
                    of_records.push(place);
                }
                None => {
                    commands.push(action);
                    of_commands.push(place);
                }
            }
        }
        let records: Vec<(&OutgoingRecord, Change)> = records
            .iter()
            .map(|(record, change)| (&**record, *change))
            .collect();
        let (appended, executed) = tokio::join!(
            self.append_records(&records),
            self.execute_commands(commands)
        );
        let mut outcomes: Vec<Option<Result<ActionOutcome, Problem>>> =
            (0..total).map(|_| None).collect();
        let appended = of_records.into_iter().zip(appended);
        let executed = of_commands.into_iter().zip(executed);
        for (place, outcome) in appended.chain(executed) {
            outcomes[place] = Some(outcome);
        }
        outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(|| Err(no_topic())))
            .collect()
    }

    /// Executes the commands of many actions.
    async fn execute_commands(
        &self,
        actions: Vec<PreparedAction>,
    ) -> Vec<Result<ActionOutcome, Problem>> {
        if actions.is_empty() {
            return Vec::new();
        }
        let targets: Vec<Target> = actions
            .iter()
            .map(|action| (action.partition, action.reply_kind, action.hash))
            .collect();
        let mut registers = Vec::with_capacity(actions.len());
        let mut pipeline = redis::pipe();
        // Scripts are loaded first: an action that is retried after NOSCRIPT would be executed after later actions.
        let scripts = scripts(actions.iter().map(|action| &action.call));
        for script in &scripts {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        }
        let created = actions
            .iter()
            .filter_map(|action| action.creates.as_deref());
        let mut prefix = scripts.len();
        for create in created {
            pipeline.add_command(create.clone());
            prefix += 1;
        }
        let changes: Vec<Change> = actions.iter().map(|action| action.change).collect();
        let mut windowed = Vec::with_capacity(actions.len());
        let mut counted = Vec::with_capacity(actions.len());
        for action in actions {
            pipeline.add_command(action.call.cmd);
            registers.push(action.registers);
            windowed.push(action.windowed);
            counted.push(action.counted);
        }
        pipeline.ignore_errors();
        let entities = counted.iter().flatten().map(|counted| &counted.entity);
        let _changing = self.hot.changing(entities);
        let mut replies = self.send_in_rounds(&pipeline, prefix, &changes).await;
        for _ in 0..MAX_REPAIRS {
            let lost = self.rebuild_lost(&counted, &replies).await;
            let commands = pipeline.cmd_iter().skip(prefix);
            let sent = commands.zip(&targets);
            if !self.resend_rejected(sent, &lost, &mut replies).await {
                break;
            }
        }
        let mut outcomes = Vec::with_capacity(targets.len());
        let replies = targets.into_iter().zip(replies);
        let more = registers.into_iter().zip(windowed);
        for (((_, reply_kind, hash), reply), (registers, windowed)) in replies.zip(more) {
            let reply = match reply {
                Ok(reply) => self.in_window(reply, windowed.as_deref()).await,
                Err(error) => Err(problem(error)),
            };
            let outcome = reply.and_then(|reply| reply_kind.outcome(reply, hash));
            if let Ok(outcome) = &outcome {
                self.remember_author(&registers, outcome);
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Sends a pipeline: its first `prefix` commands, and one for each action. Returns the replies of the actions.
    async fn send_in_rounds(
        &self,
        pipeline: &Pipeline,
        prefix: usize,
        changes: &[Change],
    ) -> Vec<Result<Value, RedisError>> {
        let rounds = Rounds::of(changes);
        if rounds.count() == 1 {
            return self.send_each(pipeline, prefix, changes.len()).await;
        }
        let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
        let mut replies = vec![Ok(Value::Nil); changes.len()];
        for round in 0..rounds.count() {
            let indexes = rounds.sendable(round, &mut replies);
            let first = if round == 0 { prefix } else { 0 };
            let sent = commands[..first].iter();
            let sent = sent.chain(indexes.iter().map(|index| &commands[prefix + index]));
            let mut pipeline = redis::pipe();
            for command in sent {
                pipeline.add_command(Cmd::clone(command));
            }
            pipeline.ignore_errors();
            let received = self.send_each(&pipeline, first, indexes.len()).await;
            for (index, reply) in indexes.into_iter().zip(received) {
                replies[index] = reply;
            }
        }
        replies
    }

    /// Sends a pipeline of `prefix` commands and `count` others. Returns the replies of these.
    async fn send_each(
        &self,
        pipeline: &Pipeline,
        prefix: usize,
        count: usize,
    ) -> Vec<Result<Value, RedisError>> {
        if count == 0 {
            return Vec::new();
        }
        let sent: Result<Vec<Result<Value, RedisError>>, RedisError> =
            pipeline.query_async(&mut self.store.writes()).await;
        match sent {
            Ok(replies) => replies.into_iter().skip(prefix).collect(),
            Err(error) => vec![Err(error); count],
        }
    }

    /// Rebuilds the entities whose counters actions found lost. Returns which actions these are.
    async fn rebuild_lost(
        &self,
        counted: &[Option<Box<CountedEntity>>],
        replies: &[Result<Value, RedisError>],
    ) -> Vec<bool> {
        let mut entities: Vec<&CountedEntity> = Vec::new();
        let all = counted.iter().zip(replies);
        let is_lost = all.map(|(counted, reply)| match (counted, reply) {
            (Some(counted), Err(error)) if is_lost_counter(error) => {
                entities.push(counted);
                true
            }
            _ => false,
        });
        let is_lost = is_lost.collect();
        entities.sort_by(|a, b| a.entity.cmp(&b.entity));
        entities.dedup_by(|a, b| a.entity == b.entity);
        for entities in entities.chunks(CONCURRENT_REBUILDS) {
            let rebuilds = entities.iter();
            let rebuilds =
                rebuilds.map(|counted| self.rebuilder.complete(&counted.entity, &counted.trace_id));
            join_all(rebuilds).await;
        }
        is_lost
    }

    /// Resends actions that were rejected because the stream's last ID is foreign or because their counters were lost, which have had no
    /// effect. Later actions of the same partition that changed no fact are resent, too: they may undo or repeat a rejected action. Returns
    /// whether any were.
    async fn resend_rejected(
        &self,
        sent: impl Iterator<Item = (&Cmd, &Target)>,
        lost: &[bool],
        replies: &mut [Result<Value, RedisError>],
    ) -> bool {
        let (mut partitions, mut rejected) = (BTreeSet::new(), Vec::new());
        let mut closed = BTreeSet::new();
        for (index, (command, (partition, reply_kind, _))) in sent.enumerate() {
            let must_resend = match &replies[index] {
                Err(error) if rejected_by_foreign_last_id(error) => {
                    closed.insert(*partition);
                    true
                }
                Err(_) => lost[index],
                Ok(reply) => partitions.contains(partition) && reply_kind.is_unchanged_fact(reply),
            };
            if must_resend {
                partitions.insert(*partition);
                rejected.push((index, *partition, command));
            }
        }
        // A log that only an operator can repair fails only the actions of its own partition.
        let repaired = renumber_each(&self.store, closed.clone()).await;
        let (mut pipeline, mut indexes) = (redis::pipe(), Vec::new());
        for (index, partition, command) in rejected {
            if repaired.contains(&partition) || !closed.contains(&partition) {
                pipeline.add_command(command.clone());
                indexes.push(index);
            }
        }
        if indexes.is_empty() {
            return false;
        }
        pipeline.ignore_errors();
        let resent = self.send_each(&pipeline, 0, indexes.len()).await;
        for (index, reply) in indexes.into_iter().zip(resent) {
            replies[index] = reply;
        }
        true
    }
}
