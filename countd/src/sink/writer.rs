//! The transactions of a sink.

use super::changes::Changes;
use super::error::SinkError;
use super::leadership::Leadership;
use super::tables::Tables;
use super::truth::Truth;
use crate::database::Session;
use std::time::Instant;

/// The maximum length of the statements that are sent at once, in bytes.
const MAX_PACKET: usize = 256 * 1024;

/// Writes rows as the process that leads.
pub struct Writer {
    /// The connection.
    pub session: Session,
    /// The tables.
    pub tables: Tables,
    /// The claim of this process.
    pub leadership: Leadership,
    /// When the last transaction has ended.
    pub written: Instant,
}

/// The states that a transaction changes.
#[derive(Default)]
pub struct States {
    /// The names and the values of states.
    pub set: Vec<(String, String)>,
    /// The name of a state that is deleted.
    pub deleted: Option<&'static str>,
}

impl Writer {
    /// Makes the rows of facts and counters equal to Redis, and changes states, in one transaction.
    ///
    /// # Errors
    /// Another process leads, Redis is unavailable, or the database failed. The connection must be dropped then.
    pub async fn write(
        &mut self,
        truth: &Truth,
        changes: Changes,
        states: States,
    ) -> Result<(), SinkError> {
        // While a process that has vanished or is paused has the lock, no other can lead.
        self.session.begin(self.session.timeout() * 2).await?;
        // What is read from now on is written before another process reads.
        self.leadership
            .confirm(&mut self.session, &self.tables)
            .await?;
        let mut rows = 0;
        let mut packet = String::new();
        for statement in truth.statements(&self.tables, changes).await? {
            if packet.len() + statement.len() > MAX_PACKET && !packet.is_empty() {
                let full = std::mem::take(&mut packet);
                rows += self.session.execute(full).await?;
            }
            packet.push_str(&statement);
            packet.push(';');
        }
        if !packet.is_empty() {
            rows += self.session.execute(packet).await?;
        }
        let mut set = states.set;
        set.push(self.leadership.next_sign());
        self.session.execute(self.tables.set_states(&set)).await?;
        if let Some(name) = states.deleted {
            let delete = self.tables.delete_state(name);
            self.session.execute(delete).await?;
        }
        self.session.commit().await?;
        self.written = Instant::now();
        metrics::counter!("countd_sink_rows_total").increment(rows);
        Ok(())
    }

    /// Lets another process lead at once.
    ///
    /// # Errors
    /// Another process leads already, or the database failed.
    pub async fn give_up(&mut self) -> Result<(), SinkError> {
        self.session.begin(self.session.timeout()).await?;
        self.leadership
            .confirm(&mut self.session, &self.tables)
            .await?;
        let nobody = self.tables.set_states(&[Leadership::nobody()]);
        self.session.execute(nobody).await?;
        Ok(self.session.commit().await?)
    }
}
