//! Resets while counters move: what the resets returned and what is left is what was added.

use crate::support::conversions::Companion;
use crate::support::{Api, on_note};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Adds to the comments of notes and resets them until it is stopped.
pub struct Resets {
    first: u64,
}

/// The notes that are used.
const NOTES: u64 = 8;

/// What was added to and taken from each note.
pub struct Sums {
    first: u64,
    added: [u64; NOTES as usize],
    reset: [u64; NOTES as usize],
}

impl Resets {
    /// Uses the notes from `first` on.
    pub fn new(first: u64) -> Resets {
        Resets { first }
    }
}

impl Companion for Resets {
    type Done = Sums;

    /// Each request has an idempotency key, and is sent until it succeeds.
    fn run(&self, api: &Api, stop: &AtomicBool) -> Sums {
        let (mut added, mut reset) = ([0; NOTES as usize], [0; NOTES as usize]);
        for round in 0_u64.. {
            if stop.load(Relaxed) {
                break;
            }
            let at = round % NOTES;
            let note = self.first + at;
            let mut action = on_note(note, 1);
            action["idempotencyKey"] = json!(format!("add-{round}"));
            send(api, "/action/comment", &action);
            added[at as usize] += 1;
            if round % 3 == 0 {
                let request = json!({
                    "metric": "comment", "etype": "note", "eid": note, "idempotencyKey": format!("reset-{round}"),
                });
                let was = send(api, "/counter/reset", &request)["was"].clone();
                reset[at as usize] += was.as_u64().expect("a count");
            }
        }
        Sums {
            first: self.first,
            added,
            reset,
        }
    }
}

impl Sums {
    /// Asserts that nothing was lost or counted twice.
    pub fn assert_complete(&self, api: &Api) {
        assert!(self.added.iter().sum::<u64>() > NOTES, "resets were made");
        for at in 0..NOTES as usize {
            let note = self.first + at as u64;
            let left = api.counts(note)["comment"].as_u64().expect("a count");
            assert_eq!(self.reset[at] + left, self.added[at], "note {note}");
        }
    }
}

fn send(api: &Api, path: &str, request: &serde_json::Value) -> serde_json::Value {
    for _ in 0..3_000 {
        if let Ok((200, response)) = api.try_post(path, &request.to_string()) {
            return serde_json::from_str(&response).expect("JSON");
        }
        crate::support::pause();
    }
    panic!("retries exhausted");
}
