//! What many clients do, and what must come out: a plain model in memory.

use super::{Api, pause};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
    /// Requests of each client.
    pub requests: u64,
    /// Actions in a request.
    pub actions: u64,
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

/// Sends a request until every line of it is done.
fn send(api: &Api, path: &str, body: &str, lines: usize) {
    for _ in 0..3_000 {
        if let Ok((200, answer)) = api.try_post(path, body) {
            let done = answer
                .lines()
                .filter(|line| line.contains("\"changed\""))
                .count();
            let unavailable = answer
                .lines()
                .filter(|line| line.contains("\"unavailable\""))
                .count();
            if done == lines {
                return;
            }
            assert_eq!(done + unavailable, lines, "{answer}");
        }
        pause();
    }
    panic!("never done: {path} {body}");
}

/// One client's part. Some requests are sent twice, as a client does that did not hear the answer.
/// It goes on beyond its requests until `enough`.
pub fn client(api: &Api, number: u64, seed: u64, size: Size, enough: &AtomicBool) -> Model {
    let mut script = Script {
        random: Random(seed.wrapping_mul(1000) + number),
        client: number,
        size,
        keys: 0,
        model: Model::default(),
        comments: Vec::new(),
    };
    let mut requests = 0;
    while requests < size.requests || !enough.load(Relaxed) {
        requests += 1;
        let actions: Vec<Json> = (0..size.actions).map(|_| script.action()).collect();
        if let [action] = actions.as_slice() {
            let mut action = action.clone();
            let metric = action["metric"].take();
            action.as_object_mut().expect("an object").remove("metric");
            let path = format!("/api/v1/action/{}", metric.as_str().expect("a name"));
            send(api, &path, &action.to_string(), 1);
            continue;
        }
        let lines: Vec<String> = actions.iter().map(Json::to_string).collect();
        let body = lines.join("\n");
        send(api, "/actions", &body, lines.len());
        if script.random.below(8) == 0 {
            send(api, "/actions", &body, lines.len());
        }
    }
    script.model
}

/// Compares everything that can be asked with the model.
pub fn compare(api: &Api, model: &Model, size: Size) {
    let notes: Vec<u64> = (0..size.notes).collect();
    for page in notes.chunks(500) {
        let items: Vec<Json> = page
            .iter()
            .map(|note| json!({ "etype": "note", "eid": note }))
            .collect();
        let answer = api.ok(api.post("/counter/batch", &json!({ "items": items })));
        for (note, item) in page.iter().zip(answer["items"].as_array().expect("items")) {
            assert_eq!(item["counts"], model.note(*note), "note {note}");
        }
    }
    let users = model.user_counters();
    let last_uid = size.clients * size.users;
    let uids: Vec<u64> = (1..=last_uid).chain((0..17).map(author)).collect();
    for page in uids.chunks(500) {
        let answer = api.ok(api.post("/relation/counter/batch", &json!({ "uids": page })));
        for (uid, item) in page.iter().zip(answer["items"].as_array().expect("items")) {
            let none = BTreeMap::new();
            let expected = users.get(uid).unwrap_or(&none);
            for (counter, count) in item["counts"].as_object().expect("counters") {
                let expected = expected.get(counter.as_str()).copied().unwrap_or(0);
                assert_eq!(count, &json!(expected), "{counter} of user {uid}");
            }
        }
    }
    let mut random = Random(7);
    for _ in 0..50 {
        let uid = 1 + random.below(last_uid);
        let page: Vec<u64> = (0..100).map(|_| random.below(size.notes)).collect();
        let items: Vec<Json> = page
            .iter()
            .map(|note| json!({ "etype": "note", "eid": note }))
            .collect();
        let question = json!({ "uid": uid, "items": items, "metrics": ["like", "fav"] });
        let answer = api.ok(api.post("/status/batch", &question));
        for (note, item) in page.iter().zip(answer["items"].as_array().expect("items")) {
            let did = |metric| model.facts.contains(&(metric, "note", *note, uid));
            let expected = json!({ "like": did("like"), "fav": did("fav") });
            assert_eq!(item["status"], expected, "user {uid}, note {note}");
        }
    }
    for note in notes.iter().step_by(notes.len() / 10 + 1) {
        let mut expected = model.users("like", "note", *note);
        let mut found = who(api, *note);
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "who likes note {note}");
    }
}

/// All users who like a note, page by page.
fn who(api: &Api, note: u64) -> Vec<u64> {
    let (mut users, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.ok(api.get(&format!("/who/like/note/{note}?limit=7{cursor}")));
        for user in page["users"].as_array().expect("users") {
            users.push(
                user.as_str()
                    .and_then(|user| user.parse().ok())
                    .expect("an id"),
            );
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return users,
        }
    }
}
