//! A pass over the keys of all servers.

use crate::domain::error::StoreError;
use crate::redis::store::{NodeMap, Store};
use redis::aio::ConnectionManager;
use std::time::{Duration, Instant};

/// Commands of a pass.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1", "INFO server"];

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// A pass pauses for a multiple of the time that its work took, so that it uses a fraction of a server.
const PAUSE_FACTOR: u32 = 4;
/// The maximum pause.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// A pass over the keys of all servers that match a pattern.
pub(super) struct KeyPass<'a> {
    store: &'a Store,
    pattern: &'a str,
    nodes: NodeMap,
    servers: Vec<ConnectionManager>,
    /// The cursor of the last server of the list; 0 before the first page.
    cursor: u64,
    /// The run ID of that server at its first page. A cursor is valid in one run.
    run: Option<String>,
    /// When the last page was read.
    since: Option<Instant>,
}

impl<'a> KeyPass<'a> {
    /// Begins a pass.
    ///
    /// # Errors
    /// The servers are unknown.
    pub fn new(store: &'a Store, pattern: &'a str) -> Result<KeyPass<'a>, StoreError> {
        Ok(KeyPass {
            nodes: store.node_map(),
            servers: store.servers()?,
            store,
            pattern,
            cursor: 0,
            run: None,
            since: None,
        })
    }

    /// The next page, which may be empty. `None` at the end. Pauses after the work on the page before.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn next_page(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        if let Some(since) = self.since {
            tokio::time::sleep((since.elapsed() * PAUSE_FACTOR).min(MAX_PAUSE)).await;
        }
        let Some(server) = self.servers.last_mut() else {
            return Ok(None);
        };
        self.since = Some(Instant::now());
        // Both run on one connection, so in one run of the server.
        let mut page = redis::pipe();
        page.cmd("INFO").arg("server").cmd("SCAN");
        page.arg(self.cursor).arg("MATCH").arg(self.pattern);
        page.arg("COUNT").arg(SCAN_COUNT);
        let (info, (next, found)): (String, (u64, Vec<Vec<u8>>)) = page.query_async(server).await?;
        let run = run_id(&info);
        if self.run.as_ref().is_some_and(|known| *known != run) {
            // The server was restarted or replaced: its keys are visited again.
            (self.cursor, self.run) = (0, None);
            return Ok(Some(Vec::new()));
        }
        self.cursor = next;
        self.run = Some(run);
        if next == 0 {
            self.servers.pop();
            self.run = None;
        }
        let keys = found.into_iter();
        let keys = keys.filter_map(|key| String::from_utf8(key).ok());
        Ok(Some(keys.collect()))
    }

    /// Whether the pass has met all keys that existed throughout: no slot has moved to another server.
    pub fn is_complete(&self) -> bool {
        self.nodes.is_same(&self.store.node_map())
    }
}

/// The run ID in the reply of `INFO server`.
fn run_id(info: &str) -> String {
    let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    run.unwrap_or_default().trim().to_owned()
}
