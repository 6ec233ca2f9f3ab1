//! Reads of data that does not change while it is converted: each must be right.

use super::setup::{action, send_all};
use crate::support::conversions::Companion;
use crate::support::{Api, pause};
use countint_tests::Server;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The note that all of the users like: more than a page of a Set has at once.
const NOTE: u64 = 2_000_000;
const USERS: std::ops::Range<u64> = 3_000_000..3_000_700;
/// The user who likes all of the notes, most of which are in the older facts of the user's timeline.
const USER: u64 = 3_000_000;
const NOTES: std::ops::Range<u64> = 2_000_000..2_000_060;

/// The interval between rounds, in which the clients have the cores.
const INTERVAL: Duration = Duration::from_millis(200);

/// Reads until it is stopped.
pub struct Reads {
    /// Whether the server restarts meanwhile. A listing of a Set is then not complete: cursors of `SSCAN` are valid until the server ends.
    restarts: bool,
}

impl Reads {
    /// Creates the data.
    pub fn create(server: &Server, api: &Api) -> Reads {
        let likes = USERS.map(|uid| action("like", NOTE, uid));
        let likes = likes.chain(NOTES.skip(1).map(|note| action("like", note, USER)));
        send_all(server, api, &likes.collect::<Vec<_>>());
        Reads { restarts: false }
    }

    /// The same, while the server restarts.
    pub fn with_restarts(self) -> Reads {
        Reads { restarts: true }
    }
}

impl Companion for Reads {
    /// The number of rounds.
    type Done = u64;

    fn run(&self, api: &Api, stop: &AtomicBool) -> u64 {
        let users: BTreeSet<u64> = USERS.collect();
        let notes: BTreeSet<u64> = NOTES.collect();
        let mut rounds = 0;
        while !stop.load(Relaxed) {
            let counts = get(api, &format!("/counter/note/{NOTE}"));
            assert_eq!(
                counts["counts"]["like"],
                USERS.end - USERS.start,
                "{counts}"
            );
            let last = USERS.end - 1;
            for (uid, exists) in [(USER, true), (last, true), (last + 1, false)] {
                let status = get(api, &format!("/status/note/{NOTE}?uid={uid}&metrics=like"));
                assert_eq!(status["status"]["like"], exists, "{uid}: {status}");
            }
            let listed = pages(api, &format!("/who/like/note/{NOTE}"), "users");
            match self.restarts {
                true => assert!(listed.is_subset(&users), "{listed:?}"),
                false => assert_eq!(listed, users),
            }
            let listed = pages(api, &format!("/user/{USER}/like/note"), "items");
            assert_eq!(listed, notes);
            rounds += 1;
            thread::sleep(INTERVAL);
        }
        rounds
    }
}

/// The IDs on all pages. A Set that changes between two pages may return an ID again.
fn pages(api: &Api, path: &str, field: &str) -> BTreeSet<u64> {
    let (mut all, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = get(api, &format!("{path}?limit=25{cursor}"));
        for item in page[field].as_array().expect("a page") {
            let id = item["eid"].as_str().or(item.as_str()).expect("an ID");
            all.insert(id.parse().expect("a number"));
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

/// Reads until there is an answer: processes and the server are killed.
fn get(api: &Api, path: &str) -> Json {
    for _ in 0..3_000 {
        match api.try_get(path) {
            Ok((200, response)) => return serde_json::from_str(&response).expect("JSON"),
            Ok((status, response)) if status < 500 => panic!("{path}: {status} {response}"),
            _ => pause(),
        }
    }
    panic!("retries exhausted");
}
