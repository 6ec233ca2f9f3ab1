//! A workload of concurrent clients, and the model of its result in memory.

use super::api::Api;
use super::pause::pause;
use countd::domain::config::DEFAULTS;
use countint_tests::env::deadline;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

/// A seeded random number generator: SplitMix64.
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

/// The size of a workload.
#[derive(Clone, Copy)]
pub struct WorkloadSize {
    /// The number of concurrent clients.
    pub clients: u64,
    /// The number of users of each client. No other client acts for them, so their last action is known.
    pub users: u64,
    /// The number of notes.
    pub notes: u64,
    /// The number of actions of each client.
    pub actions_per_client: u64,
    /// The maximum number of actions in a request. About half of the requests are single actions.
    pub batch: u64,
}

impl WorkloadSize {
    /// The number of actions of all clients.
    pub fn total(&self) -> u64 {
        self.clients * self.actions_per_client
    }
}

/// The progress of all clients.
#[derive(Default)]
pub struct Progress {
    done: AtomicU64,
    repeated: AtomicU64,
    requests: AtomicU64,
    stop: AtomicBool,
    /// Read-locked while a request is in flight.
    sending: RwLock<()>,
}

impl Progress {
    /// Runs a function while no request is in flight.
    pub fn while_idle(&self, run: impl FnOnce()) {
        let _exclusive = self.sending.write().expect("no client has panicked");
        run();
    }

    /// Waits until this many actions are done. Fails when there is no progress.
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

/// Stops the clients when dropped.
struct StopOnDrop<'p>(&'p Progress);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Relaxed);
    }
}

/// A configured counter of users that a metric of each role feeds.
pub const ACTIVITY: &str = "activity";

/// The metrics of the default configuration, which also feed [`ACTIVITY`]: that of the actors of `publish`, of the authors of liked notes,
/// and of the targets of `follow`. The end of a configuration file.
pub fn metrics() -> String {
    let (_, metrics) = DEFAULTS.split_once("[metrics.read]").expect("metrics");
    let mut metrics = format!("[users]\ncounters = [\"{ACTIVITY}\"]\n[metrics.read]{metrics}");
    for (counter, role) in [
        ("posts", "actor"),
        ("likesReceived", "author"),
        ("followers", "target"),
    ] {
        let feed = format!("{{ counter = \"{counter}\", of = \"{role}\" }}");
        assert!(metrics.contains(&feed), "{metrics}");
        let both = format!("{feed}, {{ counter = \"{ACTIVITY}\", of = \"{role}\" }}");
        metrics = metrics.replace(&feed, &both);
    }
    for metric in DAILY {
        let table = format!("[metrics.{metric}]\n");
        assert!(metrics.contains(&table), "{metrics}");
        metrics = metrics.replace(&table, &format!("{table}daily = true\n"));
    }
    metrics
}

/// The metrics with counts by day: one whose counter changes with the action, and one that the consumer counts.
pub const DAILY: [&str; 2] = ["read", "like"];

/// Runs clients until each has sent its actions and `meanwhile` has returned. The clients are spread over the `apis`.
pub fn run_clients(
    apis: &[Api],
    seed: u64,
    size: WorkloadSize,
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
        // The clients must stop when `meanwhile` panics: otherwise the test would hang.
        let stop = StopOnDrop(&progress);
        meanwhile(&progress);
        drop(stop);
        for client in clients {
            model.merge(client.join().expect("a client ends"));
        }
    });
    let [done, repeated, requests] =
        [&progress.done, &progress.repeated, &progress.requests].map(|count| count.load(Relaxed));
    assert!(done >= size.total());
    eprintln!(
        "{done} actions of {} clients in {requests} requests; {repeated} actions were sent again",
        size.clients
    );
    model
}

/// The expected result.
#[derive(Default)]
pub struct Model {
    /// Facts: metric, entity type, entity id, user.
    pub facts: BTreeSet<(&'static str, &'static str, u64, u64)>,
    /// Reads and comments of notes.
    pub counts: BTreeMap<(&'static str, u64), u64>,
    /// Notes whose author an action or an envelope has named.
    named: BTreeSet<u64>,
    /// The authors of the notes that move.
    moved: BTreeMap<u64, Option<u64>>,
}

/// The number of authors who do nothing else.
const AUTHORS: u64 = 17;

/// All authors.
pub fn authors() -> impl Iterator<Item = u64> {
    (0..AUTHORS).map(|number| 5_000_000 + number)
}

/// Whether a note moves between authors. Only one client names and changes the author of such a note, so the last change is known.
/// Of the other notes, every client names the same author, or none.
fn moves(note: u64) -> bool {
    note.is_multiple_of(3)
}

/// The author of a note that does not move: one of the [`authors`], or a user, who may publish it.
fn fixed_author(note: u64, size: WorkloadSize) -> u64 {
    match note % 3 {
        1 => 5_000_000 + note % AUTHORS,
        _ => 1 + note / 3 % (size.users * size.clients),
    }
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
            .expect("only what was added is removed");
    }

    /// Merges the model of another client.
    pub fn merge(&mut self, other: Model) {
        self.facts.extend(other.facts);
        self.named.extend(other.named);
        self.moved.extend(other.moved);
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

    /// The registered author of a note.
    pub fn author(&self, note: u64, size: WorkloadSize) -> Option<u64> {
        match moves(note) {
            true => self.moved.get(&note).copied().flatten(),
            false => self.named.contains(&note).then(|| fixed_author(note, size)),
        }
    }

    /// The users who have a fact for an entity.
    pub fn users(&self, metric: &'static str, etype: &'static str, eid: u64) -> Vec<u64> {
        let range = (metric, etype, eid, 0)..=(metric, etype, eid, u64::MAX);
        self.facts.range(range).map(|fact| fact.3).collect()
    }

    /// The entities of a type for which a user has a fact, in ascending order.
    pub fn entities(&self, metric: &str, etype: &str, uid: u64) -> Vec<u64> {
        let facts = self.facts.iter();
        let of_user = facts.filter(|fact| (fact.0, fact.1, fact.3) == (metric, etype, uid));
        of_user.map(|fact| fact.2).collect()
    }

    /// The counters of all users that are not zero. An author has received what their notes have (I3).
    pub fn user_counters(&self, size: WorkloadSize) -> BTreeMap<u64, BTreeMap<&'static str, u64>> {
        let mut users: BTreeMap<u64, BTreeMap<&'static str, u64>> = BTreeMap::new();
        let mut add = |uid: u64, counter: &'static str| {
            *users.entry(uid).or_default().entry(counter).or_default() += 1;
        };
        for (metric, _, eid, uid) in &self.facts {
            match *metric {
                "like" => self.author(*eid, size).into_iter().for_each(|author| {
                    add(author, "likesReceived");
                    add(author, ACTIVITY);
                }),
                "fav" => self
                    .author(*eid, size)
                    .into_iter()
                    .for_each(|author| add(author, "favsReceived")),
                "publish" => {
                    add(*uid, "posts");
                    add(*uid, ACTIVITY);
                }
                _ => {
                    add(*uid, "followings");
                    add(*eid, "followers");
                    add(*eid, ACTIVITY);
                }
            }
        }
        users
    }
}

/// One client: generates its actions and applies them to its model.
struct ClientScript {
    random: Random,
    client: u64,
    size: WorkloadSize,
    keys: u64,
    model: Model,
    /// The notes of comments that it can remove.
    comments: Vec<u64>,
}

impl ClientScript {
    fn uid(&mut self) -> u64 {
        1 + self.client * self.size.users + self.random.below(self.size.users)
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("{}-{}", self.client, self.keys)
    }

    /// The author that an action names: nobody, or the author of the note.
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
        let (note, uid) = (self.random.below(self.size.notes), self.uid());
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
        let (note, uid) = (self.random.below(self.size.notes), self.uid());
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

    fn request(&mut self, left: u64) -> Request {
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

/// A request of a client.
enum Request {
    /// Actions: path, body, and their number.
    Actions(String, String, u64),
    /// An envelope.
    Events(String),
    /// An author of a note.
    Put { path: String, body: String },
}

impl Request {
    /// A request for one action, or for many.
    fn actions(actions: &[Json]) -> Request {
        if let [action] = actions {
            let mut action = action.clone();
            let metric = action["metric"].take();
            action.as_object_mut().expect("an object").remove("metric");
            let path = format!("/api/v1/action/{}", metric.as_str().expect("a name"));
            return Request::Actions(path, action.to_string(), 1);
        }
        let lines: Vec<String> = actions.iter().map(Json::to_string).collect();
        Request::Actions(
            "/actions".to_owned(),
            lines.join("\n"),
            actions.len() as u64,
        )
    }

    /// The number of actions.
    fn len(&self) -> u64 {
        match self {
            Request::Actions(_, _, count) => *count,
            Request::Events(_) | Request::Put { .. } => 1,
        }
    }

    /// Sends it until it succeeds as a whole. Returns how often it was sent.
    fn send(&self, api: &Api) -> u64 {
        for times in 1..=3_000 {
            let response = match self {
                Request::Actions(path, body, _) => api.try_post(path, body),
                Request::Events(body) => api.try_post("/events", body),
                Request::Put { path, body } => api.try_put(path, body),
            };
            if let Ok((status, response)) = response
                && self.has_succeeded(status, &response)
            {
                return times;
            }
            pause();
        }
        panic!("retries exhausted");
    }

    /// Whether all of it was done. Fails if a part of it can never be.
    fn has_succeeded(&self, status: u16, response: &str) -> bool {
        assert!(!response.contains("author_mismatch"), "{response}");
        if status != 200 {
            return false;
        }
        let Request::Actions(_, _, count) = self else {
            return true;
        };
        let lines = |part: &str| response.lines().filter(|line| line.contains(part)).count() as u64;
        let (done, unavailable) = (lines("\"changed\""), lines("\"unavailable\""));
        assert_eq!(done + unavailable, *count, "{response}");
        unavailable == 0
    }
}

/// Runs one client. It retries failed requests until they succeed, and sends some requests twice, like a client that lost the
/// response. It continues after its actions until it is stopped.
fn client(api: &Api, number: u64, seed: u64, size: WorkloadSize, progress: &Progress) -> Model {
    let mut script = ClientScript {
        random: Random(seed.wrapping_mul(1000) + number),
        client: number,
        size,
        keys: 0,
        model: Model::default(),
        comments: Vec::new(),
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
    }
    script.model
}
