//! Processes that are suspended while the first entity of all is split.

use super::{CONFIG, hot};
use crate::support::{Countd, Settings, on_note, set_schema, wait_until_drained};
use countint_tests::{Server, wait_until};
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_process_that_was_suspended_during_the_first_split_answers_with_the_shards() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let processes = ["all", "serve"].map(|command| {
        let config = CONFIG;
        Countd::with(&server, &Settings { command, config })
    });
    let [other, suspended] = [processes[0].api(), processes[1].api()];
    other.ok(other.post("/action/like", &on_note(7, 1)));
    wait_until("the like is counted", || suspended.counts(7)["like"] == 1);
    processes[1].suspend();
    hot(
        &server,
        CONFIG,
        &["split", "note:7", "--shards", "4", "--grace", "31"],
    );
    for uid in 2..=40 {
        other.ok(other.post("/action/like", &on_note(7, uid)));
    }
    wait_until_drained(&server, 16);
    // Its first attempt to read the layout fails, unless a request opens the connection again before.
    server.client().ok("CLIENT KILL TYPE normal SKIPME yes");
    processes[1].resume();
    // It refuses until it has read the layout.
    let mut refused = 0;
    let count = loop {
        let (status, body) = suspended.try_get("/counter/note/7").expect("a response");
        match status {
            503 => refused += 1,
            _ => break body,
        }
        sleep(Duration::from_millis(5));
    };
    assert!(
        count.contains(r#""like":40"#),
        "{count} after {refused} refusals"
    );
}
