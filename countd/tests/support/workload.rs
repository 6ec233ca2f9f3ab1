//! What many clients do, and what must come out: a plain model in memory.

use super::{Api, pause};
use countint_tests::env::deadline;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

/// A generator of numbers that a seed decides: SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

/// How big it is.
#[derive(Clone, Copy)]
pub struct Size {
    /// Clients at a time.
    pub clients: u64,
    /// Users of each client: only it acts for them, so that what they do last is known.
    pub users: u64,
    /// Notes.
    pub notes: u64,
    /// Actions of each client.
    pub each: u64,
    /// Actions in a request at most. Where it is more than one, every other request is a single action.
    pub batch: u64,
}

impl Size {
    /// Actions of all clients.
    pub fn total(&self) -> u64 {
        self.clients * self.each
    }
}

/// How far all clients are.
#[derive(Default)]
pub struct Progress {
    done: AtomicU64,
    again: AtomicU64,
    requests: AtomicU64,
    enough: AtomicBool,
    /// Held by each who sends a request.
    sending: RwLock<()>,
}

impl Progress {
    /// Does something while no request is under way.
    pub fn while_idle(&self, what: impl FnOnce()) {
        let _nobody = self.sending.write().expect("no client has panicked");
        what();
    }

    /// Waits until so many actions are done. Gives up when there is no progress.
    pub fn wait_for(&self, actions: u64) {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let done = self.done.load(Relaxed);
            if done >= actions {
                return;
            }
            if done > before {
                (before, since) = (done, Instant::now());
            }
            assert!(since.elapsed() < deadline(120), "{done} of {actions}");
            pause();
        }
    }
}

/// Says that it is over when it is dropped.
struct Enough<'p>(&'p Progress);

impl Drop for Enough<'_> {
    fn drop(&mut self) {
        self.0.enough.store(true, Relaxed);
    }
}

/// Clients act until they have done their part and `meanwhile` is over. Each has one of the processes that serve.
pub fn run_clients(
    apis: &[Api],
    seed: u64,
    size: Size,
    meanwhile: impl FnOnce(&Progress),
) -> Model {
    let progress = Progress::default();
    let mut model = Model::default();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..size.clients)
            .zip(apis.iter().cycle())
            .map(|(number, api)| {
                let progress = &progress;
                scope.spawn(move || client(api, number, seed, size, progress))
            })
            .collect();
        // Also when `meanwhile` panics: else its failure would never be told.
        let enough = Enough(&progress);
        meanwhile(&progress);
        drop(enough);
        for client in clients {
            model.join(client.join().expect("a client ends"));
        }
    });
    let [done, again, requests] =
        [&progress.done, &progress.again, &progress.requests].map(|count| count.load(Relaxed));
    assert!(done >= size.total());
    eprintln!(
        "{done} actions of {} clients in {requests} requests; {again} actions were sent again",
        size.clients
    );
    model
}

/// What must come out.
#[derive(Default)]
pub struct Model {
    /// Who did what: metric, type, id of the entity, user.
    pub facts: BTreeSet<(&'static str, &'static str, u64, u64)>,
    /// Reads and comments of notes.
    pub counts: BTreeMap<(&'static str, u64), u64>,
}

/// Whose note it is.
pub fn author(note: u64) -> u64 {
    5_000_000 + note % 17
}

impl Model {
    fn fact(
        &mut self,
        metric: &'static str,
        etype: &'static str,
        eid: u64,
        uid: u64,
        is_add: bool,
    ) {
        let fact = (metric, etype, eid, uid);
        if is_add {
            self.facts.insert(fact);
        } else {
            self.facts.remove(&fact);
        }
    }

    fn count(&mut self, metric: &'static str, note: u64, delta: i64) {
        let count = self.counts.entry((metric, note)).or_default();
        *count = count
            .checked_add_signed(delta)
            .expect("nothing is taken back that was not done");
    }

    /// Adds what another client did.
    pub fn join(&mut self, other: Model) {
        self.facts.extend(other.facts);
        for (of, count) in other.counts {
            *self.counts.entry(of).or_default() += count;
        }
    }

    /// The counters of a note.
    pub fn note(&self, note: u64) -> Json {
        let users = |metric| self.users(metric, "note", note).len();
        let count = |metric| self.counts.get(&(metric, note)).copied().unwrap_or(0);
        json!({
            "read": count("read"), "comment": count("comment"), "repost": 0,
            "like": users("like"), "fav": users("fav"),
        })
    }

    /// Who did something to an entity.
    pub fn users(&self, metric: &'static str, etype: &'static str, eid: u64) -> Vec<u64> {
        let range = (metric, etype, eid, 0)..=(metric, etype, eid, u64::MAX);
        self.facts.range(range).map(|fact| fact.3).collect()
    }

    /// The counters of all users who have any.
    pub fn user_counters(&self) -> BTreeMap<u64, BTreeMap<&'static str, u64>> {
        let mut users: BTreeMap<u64, BTreeMap<&'static str, u64>> = BTreeMap::new();
        let mut add = |uid: u64, counter: &'static str| {
            *users.entry(uid).or_default().entry(counter).or_default() += 1;
        };
        for (metric, _, eid, uid) in &self.facts {
            match *metric {
                "like" => add(author(*eid), "likesReceived"),
                "fav" => add(author(*eid), "favsReceived"),
                "publish" => add(*uid, "posts"),
                _ => {
                    add(*uid, "followings");
                    add(*eid, "followers");
                }
            }
        }
        users
    }
}

/// One client: what it sends, and what that does to the model.
struct Script {
    random: Random,
    client: u64,
    size: Size,
    keys: u64,
    model: Model,
    /// Comments that it may take back.
    comments: Vec<u64>,
}

impl Script {
    fn uid(&mut self) -> u64 {
        1 + self.client * self.size.users + self.random.below(self.size.users)
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("{}-{}", self.client, self.keys)
    }

    /// A line of NDJSON.
    fn action(&mut self) -> Json {
        let (note, uid) = (self.random.below(self.size.notes), self.uid());
        let is_add = self.random.below(3) != 0;
        let op = if is_add { "add" } else { "remove" };
        let once = |metric: &str| json!({ "metric": metric, "etype": "note", "eid": note, "uid": uid, "op": op, "author": author(note) });
        match self.random.below(10) {
            0..=2 => {
                self.model.fact("like", "note", note, uid, is_add);
                once("like")
            }
            3 => {
                self.model.fact("fav", "note", note, uid, is_add);
                once(if self.random.below(2) == 0 {
                    "fav"
                } else {
                    "collect"
                })
            }
            4 => {
                let target = 1 + self.random.below(self.size.users * self.size.clients);
                self.model.fact("follow", "user", target, uid, is_add);
                json!({ "metric": if is_add { "follow" } else { "unfollow" }, "eid": target.to_string(), "uid": uid })
            }
            5 => {
                self.model.fact("publish", "note", note, uid, is_add);
                json!({ "metric": "publish", "etype": "note", "eid": note, "uid": uid, "op": op })
            }
            6 => self.comment(note, uid),
            _ => {
                self.model.count("read", note, 1);
                json!({ "metric": "view", "etype": "note", "eid": note, "uid": uid, "idempotencyKey": self.key() })
            }
        }
    }

    fn comment(&mut self, note: u64, uid: u64) -> Json {
        let taken_back = match self.random.below(4) {
            0 => self.comments.pop(),
            _ => None,
        };
        let (note, op, delta) = match taken_back {
            Some(note) => (note, "remove", -1),
            None => {
                self.comments.push(note);
                (note, "add", 1)
            }
        };
        self.model.count("comment", note, delta);
        json!({ "metric": "comment", "etype": "note", "eid": note, "uid": uid, "op": op, "idempotencyKey": self.key() })
    }
}

/// Sends a request until every line of it is done, and says how often it was sent.
fn send(api: &Api, path: &str, body: &str, lines: usize) -> u64 {
    for times in 1..=3_000 {
        if let Ok((200, response)) = api.try_post(path, body) {
            let done = response
                .lines()
                .filter(|line| line.contains("\"changed\""))
                .count();
            let unavailable = response
                .lines()
                .filter(|line| line.contains("\"unavailable\""))
                .count();
            if done == lines {
                return times;
            }
            assert_eq!(done + unavailable, lines, "{response}");
        }
        pause();
    }
    panic!("never done: {path} {body}");
}

/// One client's part. Some requests are sent twice, as a client does that did not hear the answer; and those that failed, until
/// they are done. It goes on beyond its part until `enough`.
fn client(api: &Api, number: u64, seed: u64, size: Size, progress: &Progress) -> Model {
    let mut script = Script {
        random: Random(seed.wrapping_mul(1000) + number),
        client: number,
        size,
        keys: 0,
        model: Model::default(),
        comments: Vec::new(),
    };
    let mut done = 0;
    while done < size.each || !progress.enough.load(Relaxed) {
        let left = size.each.saturating_sub(done).max(1);
        let count = match script.random.below(2) {
            0 => 1,
            _ => size.batch.min(left),
        };
        let actions: Vec<Json> = (0..count).map(|_| script.action()).collect();
        let (path, body) = request(&actions);
        let sending = progress.sending.read();
        let mut times = send(api, &path, &body, actions.len());
        if script.random.below(8) == 0 {
            times += send(api, &path, &body, actions.len());
        }
        drop(sending);
        done += count;
        progress.done.fetch_add(count, Relaxed);
        progress.again.fetch_add((times - 1) * count, Relaxed);
        progress.requests.fetch_add(times, Relaxed);
    }
    script.model
}

/// The path and the body for one action, or for many.
fn request(actions: &[Json]) -> (String, String) {
    if let [action] = actions {
        let mut action = action.clone();
        let metric = action["metric"].take();
        action.as_object_mut().expect("an object").remove("metric");
        let path = format!("/api/v1/action/{}", metric.as_str().expect("a name"));
        return (path, action.to_string());
    }
    let lines: Vec<String> = actions.iter().map(Json::to_string).collect();
    ("/actions".to_owned(), lines.join("\n"))
}
