//! `countd top`: rates, lag, hot entities, consumers, corrections and the nodes of Redis, as a live view or as one.
//!
//! `sample` reads Redis and `service` a countd; `view` computes the rates between two samples; `screen` has the order of the tables and what keys
//! do; `draw` draws it; `live` runs it in a terminal.

mod draw;
mod live;
mod options;
mod sample;
mod screen;
mod service;
mod tables;
mod view;

pub use options::TopCommand;

use self::sample::Sources;
use self::screen::Screen;
use self::service::ServiceClient;
use self::view::View;
use super::error::CommandError;
use countd::domain::config::Config;
use countd::domain::error::StoreError;
use countd::monitor;
use countd::query::audit;
use countd::redis::permissions::Permissions;
use countd::redis::store::Store;
use countd::storage::hot::HotList;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// The permissions that the command requires beside those of every process.
pub fn required_permissions() -> Permissions {
    monitor::required_permissions()
        .and(audit::required_permissions())
        .and(HotList::required_permissions())
}

/// Checks that the options fit to stdout, before anything is connected.
///
/// # Errors
/// A live view needs a terminal.
pub fn check(options: &TopCommand) -> Result<(), CommandError> {
    match options.is_live() && !io::stdout().is_terminal() {
        true => Err(CommandError::Unsuccessful(
            "stdout is not a terminal: use --once for text, or --json".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Runs `countd top`.
///
/// # Errors
/// The countd of `--url` cannot be asked, or the terminal or stdout cannot be used.
pub async fn run(config: &Config, store: Store, options: &TopCommand) -> Result<(), CommandError> {
    let service = ServiceClient::of(options)?;
    let title = title(&store, options)?;
    let sources = Sources::new(config, store, service);
    let interval = Duration::from_secs(options.interval);
    if options.is_live() {
        return Ok(live::run(sources, interval, title).await?);
    }
    let before = sources.sample().await;
    tokio::time::sleep(interval).await;
    let view = View::of(Some(&before), &sources.sample().await);
    let mut out = io::stdout().lock();
    match options.json {
        // Strings and finite numbers can always be serialized.
        true => writeln!(out, "{}", serde_json::to_string(&view).unwrap_or_default())?,
        false => out.write_all(draw::text(&Screen::new(view), &title).as_bytes())?,
    }
    Ok(())
}

/// What is read: a node of Redis, the number of the others, and a countd.
fn title(store: &Store, options: &TopCommand) -> Result<String, StoreError> {
    let servers = store.named_servers()?;
    let mut title = servers
        .first()
        .map_or(String::new(), |(name, _)| name.clone());
    if servers.len() > 1 {
        title.push_str(&format!(" and {} nodes", servers.len() - 1));
    }
    if let Some(url) = &options.url {
        title.push_str(&format!(", {url}"));
    }
    Ok(title)
}
