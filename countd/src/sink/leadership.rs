//! Which process of a sink writes: the one that the row `leader` names.
//!
//! The row is locked while a process reads Redis and writes rows, so that two never do at once. It changes with each transaction and each sign of
//! life. If it has not changed for `sink.takeover_ms`, another process writes its name there.

use super::error::SinkError;
use super::statements::LEADER;
use super::tables::Tables;
use crate::database::Session;
use std::time::{Duration, Instant};

/// The value of the row when no process leads.
const NOBODY: &str = "-";

/// The claim of this process to lead.
pub struct Leadership {
    name: String,
    signs: u64,
    /// What the row was when it was read last, and since when.
    seen: Option<(String, Instant)>,
}

impl Leadership {
    /// A name for this process.
    pub fn new_name() -> String {
        format!("{}-{:016x}", std::process::id(), fastrand::u64(..))
    }

    /// The claim of a process that does not lead, or has led until its connection failed.
    pub fn of(name: String) -> Leadership {
        Leadership {
            name,
            signs: 0,
            seen: None,
        }
    }

    /// Whether this process may lead now: no process leads, or the one that leads has shown no sign of life for `takeover`.
    ///
    /// # Errors
    /// The database failed.
    pub async fn take(
        &mut self,
        session: &mut Session,
        tables: &Tables,
        takeover: Duration,
    ) -> Result<bool, SinkError> {
        let current = leader(session, tables, false).await?;
        let is_stale = match &self.seen {
            Some((seen, since)) if *seen == current => since.elapsed() >= takeover,
            _ => {
                self.seen = Some((current.clone(), Instant::now()));
                false
            }
        };
        let name = current.split('/').next();
        let is_free = current == NOBODY || name == Some(&self.name);
        if !is_free && !is_stale {
            return Ok(false);
        }
        session.begin(takeover).await?;
        // Another process may be faster.
        if leader(session, tables, true).await? != current {
            session.roll_back().await?;
            return Ok(false);
        }
        session
            .execute(tables.set_states(&[self.next_sign()]))
            .await?;
        session.commit().await?;
        Ok(true)
    }

    /// Locks the row in a transaction, until its end.
    ///
    /// # Errors
    /// [`SinkError::Replaced`] if another process leads, or the database failed.
    pub async fn confirm(&self, session: &mut Session, tables: &Tables) -> Result<(), SinkError> {
        let current = leader(session, tables, true).await?;
        match current == self.value() {
            true => Ok(()),
            false => Err(SinkError::Replaced),
        }
    }

    /// The next value of the row: a sign of life.
    pub fn next_sign(&mut self) -> (String, String) {
        self.signs += 1;
        (LEADER.to_owned(), self.value())
    }

    /// The value of the row when this process has given up.
    pub fn nobody() -> (String, String) {
        (LEADER.to_owned(), NOBODY.to_owned())
    }

    fn value(&self) -> String {
        format!("{}/{}", self.name, self.signs)
    }
}

async fn leader(session: &mut Session, tables: &Tables, locks: bool) -> Result<String, SinkError> {
    let rows = session.texts(tables.leader(locks)).await?;
    let value = rows.into_iter().flatten().flatten().next();
    Ok(value.unwrap_or_else(|| NOBODY.to_owned()))
}
