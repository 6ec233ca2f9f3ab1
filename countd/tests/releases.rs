//! Every version uses the data of every release of countd: it answers the same, counts what had not been counted, and goes on.
//!
//! `tests/fixtures/{version}/countd/{store}` has the data of a release on a kind of server. `scripts/release-fixtures` writes it.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, module, objects, only_node, plain, wait_until_up};
use crate::support::{
    Api, Countd, Settings, dead_reasons, on_note, printed, run, set_schema, wait_until_drained,
};
use countint_tests::env::workspace;
use countint_tests::reply;
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};

const RDB: &str = "dump.rdb";
const CONFIG: &str = "countd.toml";
const ANSWERS: &str = "answers.txt";
const PARTITIONS: u16 = 16;

/// A metric of each fact store, of each way of counting, and of each feed of users' counters.
const SETTINGS: &str = r#"[log]
partitions = 16
[consumer]
linger_ms = 5
session_timeout_ms = 500
[facts]
shards = 3
[reconcile]
enabled = false
[users]
counters = ["unread"]
[metrics.read]
nature = "repeatable"
count = "batched"
daily = true
[metrics.like]
nature = "once"
count = "now"
reverse = true
order = "time"
users = [{ counter = "likesReceived", of = "author" }, { counter = "unread", of = "author" }]
[metrics.fav]
nature = "once"
count = "now"
facts = "bitmap"
[metrics.comment]
nature = "once"
count = "batched"
facts = "daily"
[metrics.repost]
nature = "once"
count = "batched"
facts = "sharded"
[metrics.follow]
nature = "once"
count = "never"
reverse = true
entities = ["user"]
users = [{ counter = "followings", of = "actor" }, { counter = "followers", of = "target" }]
[metrics.publish]
nature = "once"
count = "never"
reverse = true
users = [{ counter = "posts", of = "actor" }]
names_author = "actor"
"#;

/// Starts a server.
type Start = fn() -> TestStore;

/// The kinds of servers.
const STORES: [(&str, Start); 4] = [
    ("module", module),
    ("objects", objects),
    ("plain", plain),
    ("cluster", only_node),
];

/// IDs of notes. The last one is not a number.
const NOTES: [&str; 4] = ["1", "2", "114327608932745216", "n-1"];
const USERS: std::ops::RangeInclusive<u64> = 5..=20;

/// What is read: the answers must not depend on the time of the request. Paths can be added for later releases.
fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for note in NOTES {
        paths.push(format!("/counter/note/{note}"));
        paths.push(format!("/entity/note/{note}"));
        let metrics = ["like", "fav", "comment", "repost", "publish"];
        paths.extend(metrics.map(|metric| format!("/who/{metric}/note/{note}?limit=100")));
        let status = |uid| format!("/status/note/{note}?uid={uid}");
        paths.extend(USERS.step_by(3).map(status));
    }
    for uid in USERS.step_by(3) {
        paths.push(format!("/relation/counter?uid={uid}"));
        paths.push(format!("/user/{uid}/like/note?limit=100"));
        paths.push(format!("/user/{uid}/followings?limit=100"));
        paths.push(format!("/user/{uid}/followers?limit=100"));
    }
    paths
}

/// A line for each path, with the status and the body of its answer, and one with the reasons of the dead letters.
fn answers(api: &Api, store: &TestStore, config: &str) -> Vec<String> {
    let answer = |path: String| {
        let (status, mut body) = api.get(&path);
        // Sets that the server keeps have no order.
        if path.starts_with("/who/") && status == 200 {
            sort(&mut body);
        }
        format!("{path} {status} {body}")
    };
    let mut answers: Vec<String> = paths().into_iter().map(answer).collect();
    let mut dead = dead_reasons(&store.server, config);
    dead.sort();
    answers.push(format!("dead-letters {}", json!(dead)));
    answers
}

/// Sorts the arrays of an answer.
fn sort(body: &mut Json) {
    let Some(fields) = body.as_object_mut() else {
        return;
    };
    for array in fields.values_mut().filter_map(Json::as_array_mut) {
        array.sort_by_key(Json::to_string);
    }
}

/// The directories of a kind of server, one for each release.
fn releases(store: &str) -> Vec<PathBuf> {
    let dir = workspace().join("tests/fixtures");
    let entries = fs::read_dir(dir).expect("there are fixtures");
    let of_store = entries.map(|entry| {
        let dir = entry.expect("it can be read").path();
        dir.join("countd").join(store)
    });
    let mut dirs: Vec<PathBuf> = of_store.filter(|dir| dir.is_dir()).collect();
    dirs.sort();
    dirs
}

#[test]
fn data_of_every_release_is_used() {
    for (name, start) in STORES {
        let releases = releases(name);
        assert!(!releases.is_empty(), "there are no fixtures of {name}");
        for dir in releases {
            assert_used(start(), &dir);
        }
    }
}

fn assert_used(mut store: TestStore, dir: &Path) {
    let name = dir.display();
    let read = |file: &str| fs::read_to_string(dir.join(file)).expect("a fixture");
    let (config, expected) = (read(CONFIG), read(ANSWERS));
    load(&mut store, &dir.join(RDB));
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    // The data has uncounted events.
    wait_until_drained(&store.server, PARTITIONS);
    let found = answers(&api, &store, &config);
    for answer in expected.lines() {
        let (path, _) = answer.split_once(' ').expect("a path and an answer");
        let same_path = found
            .iter()
            .filter(|line| line.starts_with(&format!("{path} ")));
        let same_path: Vec<&String> = same_path.collect();
        assert_eq!(same_path, [answer], "{name}");
    }
    assert_invariants(&store.server, &config);
    printed(&run(&store.server, &config, &["check"]));

    // Old facts are known, and new actions count.
    let before = api.counts(1)["like"].clone();
    let repeated = api.ok(api.post("/action/like", &on_note(1, 5)));
    assert_eq!(repeated["changed"], false, "{name}");
    api.ok(api.post("/action/like", &on_note(1, 99)));
    api.ok(api.post("/action/comment", &on_note(1, 99)));
    wait_until_drained(&store.server, PARTITIONS);
    let after = api.counts(1)["like"].clone();
    assert_eq!(
        after.as_u64(),
        before.as_u64().map(|likes| likes + 1),
        "{name}"
    );
    assert_invariants(&store.server, &config);
}

/// Puts an RDB file in place of the data of a server.
fn load(store: &mut TestStore, file: &Path) {
    store.server.stop();
    // The server would not look at the RDB file.
    let _ = fs::remove_dir_all(store.server.dir().join("appendonlydir"));
    fs::copy(file, store.server.dir().join(RDB)).expect("copied");
    store.server.configure("appendonly no");
    store.server.start_again();
    wait_until_up(std::slice::from_ref(&store.server));
}

/// Writes the fixtures of this version to the directory in `COUNTINT_FIXTURES`.
#[test]
#[ignore = "writes files: run scripts/release-fixtures"]
fn write_fixtures() {
    let root = std::env::var_os("COUNTINT_FIXTURES").expect("scripts/release-fixtures sets it");
    for (name, start) in STORES {
        let dir = Path::new(&root).join("countd").join(name);
        fs::create_dir_all(&dir).expect("created");
        fs::write(dir.join(CONFIG), SETTINGS).expect("written");
        let store = start();
        set_schema(&store.server, SETTINGS);
        let settings = |command| Settings {
            command,
            config: SETTINGS,
        };
        let mut countd = Countd::with(&store.server, &settings("all"));
        act(&countd.api(), USERS);
        let poison = store.log(0);
        store
            .server
            .client()
            .ok(&format!("XADD {poison} 0-* e {{}}"));
        wait_until_drained(&store.server, PARTITIONS);
        match store.is_cluster() {
            true => leave_an_outbox(&store, &mut countd),
            false => countd.stop(),
        }
        // These events are not counted.
        let mut serving = Countd::with(&store.server, &settings("serve"));
        act(&serving.api(), 7..=9);
        unlike(&serving.api());
        serving.stop();
        store.server.client().ok("SAVE");
        fs::copy(store.server.dir().join(RDB), dir.join(RDB)).expect("copied");
        countd.launch();
        wait_until_drained(&store.server, PARTITIONS);
        let answers = answers(&countd.api(), &store, SETTINGS);
        fs::write(dir.join(ANSWERS), answers.join("\n") + "\n").expect("written");
    }
}

/// Actions with every metric.
fn act(api: &Api, users: std::ops::RangeInclusive<u64>) {
    for (at, note) in NOTES.iter().enumerate() {
        let action = |uid: u64| json!({ "etype": "note", "eid": note, "uid": uid });
        api.act("publish", action(5 + at as u64));
        for uid in users.clone() {
            for metric in ["read", "like", "fav", "comment", "repost"] {
                if !(uid + at as u64).is_multiple_of(3) {
                    api.act(metric, action(uid));
                }
            }
        }
    }
    for uid in users.clone() {
        api.act("follow", json!({ "eid": "5", "uid": uid + 1 }));
    }
    api.act("unfollow", json!({ "eid": "5", "uid": users.start() + 1 }));
}

fn unlike(api: &Api) {
    api.act("unlike", on_note(1, 8));
    api.act("uncomment", on_note(2, 8));
}

/// Kills the process until it leaves entries in an outbox that are not forwarded.
fn leave_an_outbox(store: &TestStore, countd: &mut Countd) {
    const ATTEMPTS: u64 = 300;
    let mut client = store.server.client();
    for attempt in 0..ATTEMPTS {
        let api = countd.api();
        for eid in 0..10 {
            let uid = 1_000 + attempt;
            api.act(
                "like",
                json!({ "etype": "note", "eid": 100 + eid, "uid": uid, "author": 2_000 + eid }),
            );
        }
        countd.kill();
        let waits = (0..PARTITIONS).any(|partition| {
            let length = client.ok(&format!("XLEN {}:out", store.log(partition)));
            reply::int(length) > 0
        });
        if waits {
            return;
        }
        countd.launch();
    }
    panic!("every outbox was forwarded in {ATTEMPTS} attempts");
}
