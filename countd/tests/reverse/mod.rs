//! What users did: their facts, newest first, and the latest users of an entity.

mod memory;

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, printed, run, wait_until_drained};
use countint_tests::reply;
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const PARTITIONS: u16 = 16;
const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";
/// Metrics whose timelines have few times.
const FEW: &str = r#"
[log]
partitions = 16
[consumer]
linger_ms = 5
[metrics.like]
nature = "once"
count = "now"
reverse = true
order = "time"
latest = 3
[metrics.fav]
nature = "once"
count = "now"
facts = "sharded"
reverse = true
order = "time"
latest = 8
"#;

for_each_store! {
    [module plain cluster]
    likes_are_listed_newest_first
    older_likes_are_listed_by_id
    pages_follow_each_other
    ids_of_every_form_are_listed
    followings_and_followers_are_listed
    the_last_of_many_changes_holds
    a_retried_event_does_not_overwrite_a_later_change
    a_retried_event_does_not_list_a_former_user_of_an_entity
    a_damaged_timeline_delays_its_own_facts_only
    a_metric_that_was_not_kept_from_the_start_is_refused
    the_latest_users_of_an_entity_come_first
    removed_facts_free_their_keys
    earlier_facts_are_added_while_clients_act
    a_fact_that_is_read_again_is_what_holds
    a_user_whose_fact_was_just_removed_is_not_listed
}

struct Setup {
    store: TestStore,
    config: &'static str,
    countd: Countd,
    api: Api,
}

impl Setup {
    fn new(store: TestStore, config: &'static str) -> Setup {
        let countd = Countd::start(&store.server, config);
        let api = countd.api();
        Setup {
            store,
            config,
            countd,
            api,
        }
    }

    fn drain(&self) {
        wait_until_drained(&self.store.server, PARTITIONS);
    }

    fn act(&self, metric: &str, eid: impl Into<Json>, uid: impl Into<Json>) {
        let (eid, uid): (Json, Json) = (eid.into(), uid.into());
        let etype = match metric.ends_with("follow") {
            true => "user",
            false => "note",
        };
        // Actions within a millisecond have no order.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let action = json!({ "etype": etype, "eid": eid, "uid": uid });
        assert_eq!(self.api.act(metric, action)["changed"], true);
    }

    /// The ids of all pages, and how many have a time.
    fn timeline(&self, path: &str, limit: usize) -> (Vec<String>, usize) {
        self.drain();
        let (mut ids, mut times) = (Vec::new(), Vec::new());
        for item in pages(&self.api, path, "items", limit) {
            ids.push(item["eid"].as_str().expect("an ID").to_owned());
            times.extend(item["ts"].as_u64());
        }
        assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
        (ids, times.len())
    }

    fn users(&self, path: &str, limit: usize) -> Vec<String> {
        self.drain();
        let users = pages(&self.api, path, "users", limit);
        let id = |user: Json| user.as_str().expect("an ID").to_owned();
        users.into_iter().map(id).collect()
    }
}

/// The items of all pages.
fn pages(api: &Api, path: &str, field: &str, limit: usize) -> Vec<Json> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    for _ in 0..1_000 {
        let page = api.ok(api.get(&format!("{path}?limit={limit}{cursor}")));
        let items = page[field].as_array().expect("a list");
        assert!(items.len() <= limit, "{page}");
        all.extend(items.iter().cloned());
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
    panic!("pages do not end");
}

fn likes_are_listed_newest_first(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for note in [5, 3, 9, 7] {
        setup.act("like", note, 42);
    }
    let path = "/user/42/like/note";
    let first = setup.timeline(path, 10);
    assert_eq!(first, (["7", "9", "3", "5"].map(str::to_owned).to_vec(), 4));
    setup.act("unlike", 9, 42);
    setup.act("unlike", 5, 42);
    setup.act("like", 5, 42);
    assert_eq!(setup.timeline(path, 10).0, ["5", "7", "3"]);
    assert_eq!(setup.timeline("/user/43/like/note", 10).0, [""; 0]);
    assert_eq!(setup.timeline("/user/42/fav/note", 10).0, [""; 0]);
}

fn older_likes_are_listed_by_id(store: TestStore) {
    let setup = Setup::new(store, FEW);
    let path = "/user/42/like/note";
    for note in [50, 30, 90, 70, 20, 60, 10, 40] {
        setup.act("like", note, 42);
        setup.drain();
    }
    for limit in [1, 2, 3, 100] {
        let (ids, times) = setup.timeline(path, limit);
        assert_eq!(
            (&ids[..3], times),
            (&["40", "10", "60"].map(str::to_owned)[..], 3)
        );
        let mut others = ids[3..].to_vec();
        if setup.store.has_module {
            assert_eq!(others, ["90", "70", "50", "30", "20"]);
        }
        others.sort();
        assert_eq!(others, ["20", "30", "50", "70", "90"]);
    }
    // One of the older facts is removed, another one becomes the newest.
    setup.act("unlike", 70, 42);
    setup.act("unlike", 90, 42);
    setup.act("like", 90, 42);
    let (mut ids, _) = setup.timeline(path, 100);
    assert_eq!(ids[0], "90");
    ids.sort();
    assert_eq!(ids, ["10", "20", "30", "40", "50", "60", "90"]);
}

fn pages_follow_each_other(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for note in 1..=9 {
        setup.act("like", note, 42);
    }
    setup.drain();
    let api = &setup.api;
    let first = api.ok(api.get("/user/42/like/note?limit=4"));
    // The last fact of the page is removed, and another one is added.
    setup.act("unlike", 6, 42);
    setup.act("like", 10, 42);
    setup.drain();
    let cursor = first["cursor"].as_str().expect("a cursor");
    let next = api.ok(api.get(&format!("/user/42/like/note?limit=9&cursor={cursor}")));
    let ids = |page: &Json| {
        let items = page["items"].as_array().expect("items").iter();
        items
            .map(|item| item["eid"].as_str().expect("an ID").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ["9", "8", "7", "6"]);
    assert_eq!(ids(&next), ["5", "4", "3", "2", "1"]);
    for (path, status, code) in [
        ("/user/42/like/note?limit=0", 400, "malformed"),
        ("/user/42/like/note?limit=501", 400, "malformed"),
        ("/user/42/like/note?cursor=x", 400, "malformed"),
        ("/user/42/like/note?cursor=i5.", 400, "malformed"),
        ("/user/42/like/note?cursor=sx", 400, "malformed"),
        ("/who/like/note/1?cursor=t5.7", 400, "malformed"),
        ("/user/42/like/9", 400, "malformed"),
        ("/user/42/like/cat", 404, "unknown_type"),
        ("/user/42/nope/note", 404, "unknown_metric"),
        ("/user/42/read/note", 422, "unprocessable"),
    ] {
        let (found, problem) = api.get(path);
        assert_eq!(
            (found, problem["code"].as_str()),
            (status, Some(code)),
            "{path}"
        );
    }
}

fn ids_of_every_form_are_listed(store: TestStore) {
    let setup = Setup::new(store, FEW);
    let user = "b7c0-uuid.x";
    let notes = [
        "7",
        "a-7",
        "18446744073709551615",
        "007",
        "z",
        "18446744073709551616",
    ];
    for note in notes {
        setup.act("fav", note, user);
    }
    let expected: Vec<&str> = notes.into_iter().rev().collect();
    for limit in [1, 4, 100] {
        let (ids, times) = setup.timeline(&format!("/user/{user}/fav/note"), limit);
        assert_eq!(
            (ids, times),
            (expected.iter().map(|id| id.to_string()).collect(), 6)
        );
    }
    for number in 0..20 {
        setup.act("fav", number + 100, user);
        setup.act("fav", format!("x{number}"), user);
        setup.drain();
    }
    for limit in [3, 100] {
        let (mut ids, times) = setup.timeline(&format!("/user/{user}/fav/note"), limit);
        assert!((8..=18).contains(&times), "{times}");
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!((count, ids.len()), (46, 46));
    }
}

fn followings_and_followers_are_listed(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for (uid, target) in [(1, 2), (1, 9), (1, 5), (3, 2), (4, 2)] {
        setup.act("follow", target, uid);
    }
    setup.act("unfollow", 2, 3);
    assert_eq!(setup.users("/user/1/followings", 2), ["5", "9", "2"]);
    assert_eq!(setup.users("/user/3/followings", 2), [""; 0]);
    let mut followers = setup.users("/user/2/followers", 1);
    followers.sort();
    assert_eq!(followers, ["1", "4"]);
    let who = setup.users("/who/follow/user/2", 100);
    assert_eq!(setup.users("/user/2/followers", 100), who);
    let counts = setup.api.user(1);
    assert_eq!(
        (&counts["followings"], &counts["followers"]),
        (&json!(3), &json!(0))
    );
}

fn the_last_of_many_changes_holds(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for round in 0..20 {
        for note in 1..=6 {
            let op = if round % 2 == 0 { "add" } else { "remove" };
            if note > round % 7 {
                continue;
            }
            let action = json!({ "etype": "note", "eid": note, "uid": 42, "op": op });
            setup.api.act("like", action);
        }
    }
    let (mut ids, _) = setup.timeline("/user/42/like/note", 100);
    ids.sort();
    let liked: Vec<String> = (1..=6)
        .filter(|note| {
            let status = setup
                .api
                .get(&format!("/status/note/{note}?uid=42&metrics=like"));
            setup.api.ok(status)["status"]["like"] == true
        })
        .map(|note| note.to_string())
        .collect();
    assert_eq!(ids, liked);
}

/// The event of a like becomes a dead letter. The like is taken back before the event is retried.
fn a_retried_event_does_not_overwrite_a_later_change(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    let mut client = setup.store.server.client();
    let form = if setup.store.has_module { "" } else { ":s" };
    let newest = setup
        .store
        .key(&format!("rtl:like:note:42{form}"), "", "42");
    client.ok(&format!("SET {newest} damaged"));
    setup.act("like", 1, 42);
    setup.act("like", 2, 42);
    setup.drain();
    let dead = || printed(&run(&setup.store.server, setup.config, &["dead", "list"]));
    assert!(dead().contains("holds another type"), "{}", dead());
    client.ok(&format!("DEL {newest}"));
    setup.act("unlike", 1, 42);
    setup.drain();
    let retried = run(
        &setup.store.server,
        setup.config,
        &["dead", "retry", "--all"],
    );
    assert!(retried.status.success(), "{retried:?}");
    assert_eq!(setup.timeline("/user/42/like/note", 10).0, ["2"]);
    assert_eq!(dead(), "");
}

/// As above, with a metric whose facts are not kept for users.
fn a_retried_event_does_not_list_a_former_user_of_an_entity(store: TestStore) {
    const ORDERED: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\norder = \"time\"\n";
    let setup = Setup::new(store, ORDERED);
    let mut client = setup.store.server.client();
    let form = if setup.store.has_module { "" } else { ":s" };
    let newest = format!("wtl:like:note:1{form}");
    let newest = setup.store.key(&newest, "", "note:1");
    client.ok(&format!("SET {newest} damaged"));
    setup.act("like", 1, 42);
    setup.drain();
    let dead = || printed(&run(&setup.store.server, setup.config, &["dead", "list"]));
    assert!(dead().contains("holds another type"), "{}", dead());
    client.ok(&format!("DEL {newest}"));
    setup.act("unlike", 1, 42);
    setup.drain();
    let retry = ["dead", "retry", "--all"];
    let retried = run(&setup.store.server, setup.config, &retry);
    assert!(retried.status.success(), "{retried:?}");
    setup.drain();
    assert_eq!(dead(), "");
    let left = client.ok(&format!("EXISTS {newest}"));
    assert_eq!(
        reply::int(left),
        0,
        "{newest} lists a user whose like was taken back"
    );
}

fn a_damaged_timeline_delays_its_own_facts_only(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    let mut client = setup.store.server.client();
    let form = if setup.store.has_module { "" } else { ":s" };
    for (part, uid) in [("rtl", "42"), ("rev", "43")] {
        let key = setup
            .store
            .key(&format!("{part}:like:note:{uid}{form}"), "", uid);
        client.ok(&format!("SET {key} damaged"));
    }
    for uid in [42, 43, 44] {
        setup.act("like", 1, uid);
    }
    assert_eq!(setup.timeline("/user/44/like/note", 10).0, ["1"]);
    let dead = printed(&run(&setup.store.server, setup.config, &["dead", "list"]));
    assert_eq!(dead.matches("holds another type").count(), 2, "{dead}");
    assert_eq!(setup.api.get("/user/42/like/note").1["code"], "damaged");
}

/// Data that a version without timelines created, or that was begun without them.
fn a_metric_that_was_not_kept_from_the_start_is_refused(store: TestStore) {
    let without = FEW.replace("reverse = true\n", "");
    drop(Countd::start(&store.server, &without));
    let setup = Setup::new(store, FEW);
    setup.act("like", 1, 42);
    setup.drain();
    let (status, problem) = setup.api.get("/user/42/like/note");
    assert_eq!((status, &problem["code"]), (422, &json!("no_reverse")));
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("countd reverse backfill like"), "{detail}");
    let checked = printed(&run(&setup.store.server, setup.config, &["check"]));
    assert!(
        checked.contains("note: facts of like are not kept for users"),
        "{checked}"
    );
    let mut client = setup.store.server.client();
    let keys = reply::array(client.ok("KEYS r*:like:note:42*"));
    assert!(keys.is_empty(), "{keys:?}");
    drop(setup.countd);
}

fn the_latest_users_of_an_entity_come_first(store: TestStore) {
    let setup = Setup::new(store, FEW);
    for uid in [50, 30, 90, 70, 20, 60] {
        setup.act("like", 1, uid);
        setup.drain();
    }
    for limit in [1, 2, 3, 100] {
        let mut users = setup.users("/who/like/note/1", limit);
        assert_eq!(users[..3], ["60", "20", "70"]);
        users.sort();
        assert_eq!(users, ["20", "30", "50", "60", "70", "90"]);
    }
    setup.act("unlike", 1, 20);
    setup.act("unlike", 1, 30);
    setup.act("like", 1, 30);
    let mut users = setup.users("/who/like/note/1", 2);
    assert_eq!(users[0], "30");
    users.sort();
    assert_eq!(users, ["30", "50", "60", "70", "90"]);
    // Users of any form.
    for number in 0..12 {
        setup.act("fav", 1, format!("u{number}"));
        setup.act("fav", 1, number);
        setup.drain();
    }
    let users = setup.users("/who/fav/note/1", 3);
    assert_eq!(users[..4], ["11", "u11", "10", "u10"]);
    let mut sorted = users.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((users.len(), sorted.len()), (24, 24));
}

fn removed_facts_free_their_keys(store: TestStore) {
    let setup = Setup::new(store, FEW);
    for (metric, uid) in [("like", json!(42)), ("fav", json!("u-1"))] {
        for op in ["", "un"] {
            for note in 0..12 {
                setup.act(&format!("{op}{metric}"), note, uid.clone());
                setup.act(&format!("{op}{metric}"), format!("n{note}"), uid.clone());
                setup.drain();
            }
        }
    }
    let mut client = setup.store.server.client();
    for pattern in ["rtl:*", "rev:*", "wtl:*"] {
        let keys = reply::array(client.ok(&format!("KEYS {pattern}")));
        assert!(keys.is_empty(), "{keys:?}");
    }
}

/// The facts of each fact store, recorded without `reverse`, are added while others are recorded and removed.
fn earlier_facts_are_added_while_clients_act(store: TestStore) {
    const STORES: [(&str, &str); 4] = [
        ("like", "rbm"),
        ("fav", "bitmap"),
        ("pin", "daily"),
        ("save", "sharded"),
    ];
    let config = |reverse: &str| {
        let metrics = STORES.map(|(metric, facts)| {
            format!(
                "[metrics.{metric}]\nnature = \"once\"\ncount = \"never\"\nfacts = \"{facts}\"\n{reverse}"
            )
        });
        format!(
            "{CONFIG}[limits]\nuser = {{ per_second = 0 }}\n{}",
            metrics.concat()
        )
    };
    let users = 20;
    let without = Countd::start(&store.server, &config(""));
    let api = without.api();
    let act = |api: &Api, metric: &str, note: u64, uid: u64, op: &str| {
        let action = json!({ "etype": "note", "eid": note, "uid": uid, "op": op });
        api.act(metric, action);
    };
    for (metric, _) in STORES {
        for note in 0..30 {
            act(&api, metric, note, 1 + note % users, "add");
        }
    }
    drop(without);
    let config = config("reverse = true\n");
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    assert_eq!(api.get("/user/1/like/note").1["code"], "no_reverse");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Toggles earlier facts, and adds and removes others.
        let toggling = scope.spawn(|| {
            for round in 0.. {
                for (metric, _) in STORES {
                    let note = round * 7 % 40;
                    let op = if round % 3 == 0 { "add" } else { "remove" };
                    act(&api, metric, note, 1 + note % users, op);
                }
                if stop.load(Relaxed) {
                    return;
                }
            }
        });
        for (metric, _) in STORES {
            let arguments = ["reverse", "backfill", metric, "--grace", "0"];
            let output = run(&store.server, &config, &arguments);
            assert!(output.status.success(), "{output:?}");
            assert_eq!(api.get(&format!("/user/1/{metric}/note")).0, 200);
        }
        stop.store(true, Relaxed);
        toggling.join().expect("the actions");
    });
    wait_until_drained(&store.server, PARTITIONS);
    for (metric, _) in STORES {
        for uid in 1..=users {
            let path = format!("/user/{uid}/{metric}/note");
            let items = pages(&api, &path, "items", 100);
            let mut listed: Vec<u64> = items
                .iter()
                .map(|item| {
                    item["eid"]
                        .as_str()
                        .expect("an ID")
                        .parse()
                        .expect("a number")
                })
                .collect();
            listed.sort_unstable();
            let has = |note: &u64| {
                let status = api.get(&format!("/status/note/{note}?uid={uid}&metrics={metric}"));
                api.ok(status)["status"][metric] == true
            };
            let expected: Vec<u64> = (0..40).filter(has).collect();
            assert_eq!(listed, expected, "{path}");
        }
    }
    assert_eq!(printed(&run(&store.server, &config, &["dead", "list"])), "");
    // Nothing is left to do.
    let again = run(
        &store.server,
        &config,
        &["reverse", "backfill", "like", "--grace", "0"],
    );
    assert!(again.status.success(), "{again:?}");
    let refused = run(&store.server, &config, &["reverse", "backfill", "nope"]);
    assert!(!refused.status.success());
}

fn a_fact_that_is_read_again_is_what_holds(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for uid in [42, 43] {
        setup.act("like", 1, uid);
    }
    setup.act("unlike", 1, 42);
    setup.drain();
    let mut client = setup.store.server.client();
    let form = if setup.store.has_module { "" } else { ":s" };
    let lost = setup
        .store
        .key(&format!("rtl:like:note:43{form}"), "", "43");
    assert_eq!(reply::int(client.ok(&format!("DEL {lost}"))), 1);
    let mut append = |of: &str, field: &str, payload: Json| {
        let log = setup.store.log(TestStore::partition(of, PARTITIONS));
        client.call(&["XADD", &log, "0-*", field, &payload.to_string()]);
    };
    let reread =
        json!({ "metric": "like", "etype": "note", "eid": "1", "uids": ["42", "43", "44"] });
    append("note:1", "b", reread);
    // Changes that were retried.
    for (uid, exists) in [("42", 1), ("43", 0)] {
        let revs = json!({ "revs": [[uid, "like", "note", "1", exists, 1_700_000_000_000_u64]] });
        append(uid, "d", revs);
    }
    assert_eq!(
        setup.timeline("/user/43/like/note", 10),
        (vec!["1".to_owned()], 0)
    );
    for uid in [42, 44] {
        assert_eq!(
            setup.timeline(&format!("/user/{uid}/like/note"), 10).0,
            [""; 0]
        );
    }
}

fn a_user_whose_fact_was_just_removed_is_not_listed(store: TestStore) {
    let setup = Setup::new(store, FEW);
    for uid in [42, 43, 44] {
        setup.act("like", 1, uid);
    }
    setup.drain();
    let Setup { store, countd, .. } = setup;
    drop(countd);
    // Nobody commits the removal.
    let (command, config) = ("serve", FEW);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    api.act("unlike", json!({ "etype": "note", "eid": 1, "uid": 43 }));
    for limit in [1, 2, 100] {
        let users = pages(&api, "/who/like/note/1", "users", limit);
        assert_eq!(users, ["44", "42"], "{limit}");
    }
}
