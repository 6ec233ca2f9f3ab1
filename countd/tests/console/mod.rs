//! The console and the demo.

pub mod browser;
mod chromium;
mod days;
mod demo;
mod forms;
mod letters;
mod login;
mod migrations;
mod pages;

use crate::support::stores::TestStore;
use crate::support::{Countd, Settings, printed, run, set_schema};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 8;
const CONFIG: &str = "[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\n";

/// Starts `countd all`.
fn start(store: &TestStore, config: &str) -> Countd {
    set_schema(&store.server, config);
    let command = "all";
    Countd::with(&store.server, &Settings { command, config })
}

/// Appends, as another client, an event of a note that cannot be counted, and waits until it is a dead letter. Returns the number of dead letters.
fn bury(store: &TestStore, event: &Json) -> usize {
    let before = letters(store).len();
    let log = store.log(TestStore::partition("note:1", PARTITIONS));
    let event = event.to_string();
    let mut client = store.server.client();
    reply::text(client.call(&["XADD", &log, "0-*", "e", &event]));
    wait_until("there is one more dead letter", || {
        letters(store).len() > before
    });
    before + 1
}

/// The dead letters, as `countd dead list` prints them.
fn letters(store: &TestStore) -> Vec<Json> {
    let printed = printed(&run(&store.server, CONFIG, &["dead", "list"]));
    let letters = printed.lines();
    letters
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// An event of note 1.
fn event(more: &Json) -> Json {
    let mut event =
        json!({ "etype": "note", "eid": "1", "metric": "read", "delta": 1, "uid": "9" });
    for (name, value) in more.as_object().expect("an object") {
        event[name] = value.clone();
    }
    event
}
