//! Executes actions that are records of the topic.

use super::action::ActionOutcome;
use super::actions::Actions;
use super::records::no_topic;
use super::rounds::{Change, Rounds};
use crate::domain::error::Problem;
use crate::log::kafka::OutgoingRecord;
use redis::{RedisError, Value};
use std::io;

impl Actions {
    /// Appends the records of actions, in order. A record that undoes an earlier one is sent after that one was confirmed. If that one
    /// was not, the record is not sent and fails, too.
    pub(super) async fn append_records(
        &self,
        records: &[(&OutgoingRecord, Change)],
    ) -> Vec<Result<ActionOutcome, Problem>> {
        let Some(topic) = &self.topic else {
            return records.iter().map(|_| Err(no_topic())).collect();
        };
        if let Some(refusal) = topic.refusal(&self.store.layout()) {
            let refused = || Err(Problem::TopicUnavailable(refusal.to_string()));
            return records.iter().map(|_| refused()).collect();
        }
        let changes: Vec<Change> = records.iter().map(|(_, change)| *change).collect();
        let rounds = Rounds::of(&changes);
        let mut replies: Vec<Result<Value, RedisError>> = vec![Ok(Value::Nil); records.len()];
        for round in 0..rounds.count() {
            let places = rounds.sendable(round, &mut replies);
            let sent: Vec<&OutgoingRecord> = places.iter().map(|place| records[*place].0).collect();
            let results = topic.producer().send(&sent).await;
            for (place, result) in places.into_iter().zip(results) {
                if let Err(error) = result {
                    let error = io::Error::new(io::ErrorKind::TimedOut, error.to_string());
                    replies[place] = Err(error.into());
                }
            }
        }
        replies.into_iter().map(outcome).collect()
    }
}

fn outcome(reply: Result<Value, RedisError>) -> Result<ActionOutcome, Problem> {
    match reply {
        Ok(_) => Ok(ActionOutcome {
            changed: true,
            count: None,
            replayed: false,
        }),
        Err(error) => Err(Problem::TopicUnavailable(error.to_string())),
    }
}
