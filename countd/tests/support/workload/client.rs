//! A client of a workload: it generates its actions and applies them to its model.

use super::model::{AUTHORS, Model, fixed_author, moves};
use super::progress::Progress;
use super::request::Request;
use super::size::{Random, WorkloadSize};
use crate::support::api::Api;
use serde_json::{Value as Json, json};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// One client: generates its actions and applies them to its model.
struct ClientScript {
    random: Random,
    client: u64,
    size: WorkloadSize,
    keys: u64,
    model: Model,
    /// The notes of comments that it can remove.
    comments: Vec<u64>,
    /// How often it has erased its note.
    erasures: u64,
}

impl ClientScript {
    fn uid(&mut self) -> u64 {
        1 + self.client * self.size.users + self.random.below(self.size.users)
    }

    /// The note of an action or envelope.
    fn note(&mut self) -> u64 {
        match self.size.own_note(self.client) {
            Some(note) if self.random.below(4) == 0 => note,
            _ => self.random.below(self.size.notes),
        }
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("{}-{}", self.client, self.keys)
    }

    /// The author that an action names: the author of the note, or none.
    fn named_author(&mut self, note: u64) -> Option<u64> {
        if self.random.below(3) == 0 {
            return None;
        }
        if moves(note) {
            return self.model.moved.get(&note).copied().flatten();
        }
        self.model.named.insert(note);
        Some(fixed_author(note, self.size))
    }

    /// The next action, as a line of NDJSON.
    fn action(&mut self) -> Json {
        let (note, uid) = (self.note(), self.uid());
        let is_add = self.random.below(3) != 0;
        let op = if is_add { "add" } else { "remove" };
        let once = |metric: &str, author: Option<u64>| json!({ "metric": metric, "etype": "note", "eid": note, "uid": uid, "op": op, "author": author });
        match self.random.below(10) {
            0..=2 => {
                self.model.fact("like", "note", note, uid, is_add);
                once("like", self.named_author(note))
            }
            3 => {
                self.model.fact("fav", "note", note, uid, is_add);
                let metric = ["fav", "collect"][self.random.below(2) as usize];
                once(metric, self.named_author(note))
            }
            4 => {
                let target = 1 + self.random.below(self.size.users * self.size.clients);
                self.model.fact("follow", "user", target, uid, is_add);
                json!({ "metric": if is_add { "follow" } else { "unfollow" }, "eid": target.to_string(), "uid": uid })
            }
            5 => match self.own_note() {
                Some((note, author)) => {
                    self.model.fact("publish", "note", note, author, is_add);
                    // The user who publishes becomes the author.
                    if is_add {
                        self.model.named.insert(note);
                    }
                    json!({ "metric": "publish", "etype": "note", "eid": note, "uid": author, "op": op })
                }
                None => self.read(note, uid),
            },
            6 => self.comment(note, uid),
            _ => self.read(note, uid),
        }
    }

    /// A note whose author is a user of this client, and that user.
    fn own_note(&mut self) -> Option<(u64, u64)> {
        let uid = self.uid();
        let first = 2 + 3 * (uid - 1);
        let notes =
            (first..self.size.notes).step_by((3 * self.size.users * self.size.clients) as usize);
        let notes: Vec<u64> = notes.collect();
        let at = self.random.below(notes.len().max(1) as u64);
        notes.get(at as usize).map(|note| (*note, uid))
    }

    fn read(&mut self, note: u64, uid: u64) -> Json {
        let author = self.named_author(note);
        self.model.count("read", note, 1);
        json!({ "metric": "view", "etype": "note", "eid": note, "uid": uid, "author": author, "idempotencyKey": self.key() })
    }

    /// A new author, or none, of a note that only this client moves.
    fn transfer(&mut self) -> Option<Request> {
        let clients = self.size.clients;
        let notes =
            (0..self.size.notes).filter(|note| moves(*note) && note / 3 % clients == self.client);
        let notes: Vec<u64> = notes.collect();
        let note = *notes.get(self.random.below(notes.len().max(1) as u64) as usize)?;
        let author = match self.random.below(6) {
            0 => None,
            _ => Some(5_000_000 + self.random.below(AUTHORS)),
        };
        self.model.moved.insert(note, author);
        Some(Request::Put {
            path: format!("/entity/note/{note}"),
            body: json!({ "author": author }).to_string(),
        })
    }

    /// An envelope with a comment, which names the author.
    fn envelope(&mut self) -> Request {
        let (note, uid) = (self.note(), self.uid());
        // An envelope may be counted after the note has moved.
        let author = if moves(note) {
            None
        } else {
            self.named_author(note)
        };
        self.model.count("comment", note, 1);
        let envelope = json!({
            "event_id": self.key(), "event_type": "comment", "aggregate_type": "note", "aggregate_id": note,
            "payload": { "delta": 1, "uid": uid, "author": author },
        });
        Request::Events(envelope.to_string())
    }

    /// The erasure of its note, if one is due: they are spread evenly over its actions.
    fn erasure(&mut self, left: u64) -> Option<Request> {
        let note = self.size.own_note(self.client)?;
        let parts = self.size.erasures + 1;
        let due = parts - (left * parts).div_ceil(self.size.actions_per_client);
        if self.erasures >= due.min(self.size.erasures) {
            return None;
        }
        self.erasures += 1;
        self.model.erase(note);
        self.comments.retain(|commented| *commented != note);
        Some(Request::Erase(format!("/entity/note/{note}")))
    }

    fn request(&mut self, left: u64) -> Request {
        if let Some(erasure) = self.erasure(left) {
            return erasure;
        }
        let request = match self.random.below(16) {
            0..=1 => self.transfer(),
            2 => Some(self.envelope()),
            _ => None,
        };
        request.unwrap_or_else(|| {
            let count = match self.random.below(2) {
                0 => 1,
                _ => self.size.batch.min(left),
            };
            Request::actions(&(0..count).map(|_| self.action()).collect::<Vec<_>>())
        })
    }

    fn comment(&mut self, note: u64, uid: u64) -> Json {
        let removed = match self.random.below(4) {
            0 => self.comments.pop(),
            _ => None,
        };
        let (note, op, delta, author) = match removed {
            Some(note) => (note, "remove", -1, None),
            None => {
                self.comments.push(note);
                (note, "add", 1, self.named_author(note))
            }
        };
        self.model.count("comment", note, delta);
        json!({ "metric": "comment", "etype": "note", "eid": note, "uid": uid, "op": op, "author": author, "idempotencyKey": self.key() })
    }
}

/// The pause between requests of a client that has sent its actions. It leaves the machine to what the test waits for.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs one client. It retries failed requests until they succeed, and sends some requests twice, like a client that lost the
/// response. It continues after its actions, with pauses, until it is stopped.
pub(super) fn run_client(
    api: &Api,
    number: u64,
    seed: u64,
    size: WorkloadSize,
    progress: &Progress,
) -> Model {
    let mut script = ClientScript {
        random: Random(seed.wrapping_mul(1000) + number),
        client: number,
        size,
        keys: 0,
        model: Model::default(),
        comments: Vec::new(),
        erasures: 0,
    };
    let mut done = 0;
    while done < size.actions_per_client || !progress.stop.load(Relaxed) {
        let left = size.actions_per_client.saturating_sub(done).max(1);
        let request = script.request(left);
        let count = request.len();
        let sending = progress.sending.read();
        let mut times = request.send(api);
        if script.random.below(8) == 0 {
            times += request.send(api);
        }
        drop(sending);
        done += count;
        progress.done.fetch_add(count, Relaxed);
        progress.repeated.fetch_add((times - 1) * count, Relaxed);
        progress.requests.fetch_add(times, Relaxed);
        if done >= size.actions_per_client {
            thread::sleep(PAUSE);
        }
    }
    script.model
}
