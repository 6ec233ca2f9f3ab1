//! Hot entities: `GET /hot`, and the cache of their counters.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, metric, on_note, set_schema, with};
use countint_tests::{Server, reply, wait_until};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long counters are cached.
const CACHE: Duration = Duration::from_secs(1);

/// Entities are hot from 20 requests per second on, and their counters are cached.
const CONFIG: &str = "[limits.user]\nper_second = 0\n[hot]\nmin_rate = 20\ncache_ms = 1000\n";

fn serve(server: &Server) -> Countd {
    let (command, config) = ("serve", CONFIG);
    Countd::with(server, &Settings { command, config })
}

/// Reads a note 500 times with one request.
fn read_often(api: &Api, eid: u64) {
    let items = vec![json!({ "etype": "note", "eid": eid }); 500];
    api.ok(api.post(
        "/counter/batch",
        &json!({ "items": items, "metrics": ["like"] }),
    ));
}

/// Writes to a note 500 times with one request.
fn write_often(api: &Api, eid: u64) {
    let line = with(on_note(eid, 1), json!({ "metric": "comment" })).to_string();
    let lines = vec![line; 500].join("\n");
    assert_eq!(
        api.try_post("/actions", &lines).map(|(status, _)| status),
        Ok(200)
    );
}

/// The reads and writes per second of a note, as `GET /hot` lists it.
fn listed(api: &Api, eid: u64) -> Option<(f64, f64)> {
    let hot = api.ok(api.get("/hot"));
    let items = hot["items"].as_array().expect("a list");
    let rate = |item: &Json, name: &str| item[name].as_f64().expect("a rate");
    for (item, next) in items.iter().zip(items.iter().skip(1)) {
        assert!(rate(item, "rate") >= rate(next, "rate"), "{hot}");
    }
    let (mut items, eid) = (items.iter(), eid.to_string());
    let item = items.find(|item| item["eid"] == eid)?;
    assert_eq!(item["etype"], "note");
    let (reads, writes) = (rate(item, "reads"), rate(item, "writes"));
    assert!((rate(item, "rate") - reads - writes).abs() < 0.2, "{item}");
    Some((reads, writes))
}

/// Reads a note until its counters are cached.
fn make_hot(api: &Api, eid: u64) {
    wait_until("counters are cached", || {
        read_often(api, eid);
        metric(api, "countd_hot_cache_hits_total") > 0
    });
}

fn consumers_know_the_hot_entities_of_other_processes(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let (serving, command) = (serve(&store.server), "consume");
    let consuming = Countd::with(
        &store.server,
        &Settings {
            command,
            config: CONFIG,
        },
    );
    write_often(&serving.api(), 1);
    let consumer = consuming.api();
    wait_until("the consumer knows one", || {
        write_often(&serving.api(), 1);
        metric(&consumer, "countd_hot_entities") == 1
    });
    wait_until("its events are committed", || {
        write_often(&serving.api(), 1);
        metric(&consumer, "countd_hot_commits_total") > 0
    });
}

fn hot_entities_of_all_processes_are_listed(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let (one, mut other) = (serve(&store.server), serve(&store.server));
    let apis = [one.api(), other.api()];
    assert_eq!(apis[0].ok(apis[0].get("/hot")), json!({ "items": [] }));
    // Rare entities are not listed.
    for eid in 100..120 {
        apis[0].counts(eid);
    }
    // Note 1 is read at one process, note 2 written at the other one, and note 3 read at one and written at the other.
    wait_until("both processes list all", || {
        for _ in 0..4 {
            read_often(&apis[0], 1);
            write_often(&apis[1], 2);
        }
        read_often(&apis[0], 3);
        write_often(&apis[1], 3);
        apis.iter().all(|api| {
            let [first, second, third] = [1, 2, 3].map(|eid| listed(api, eid));
            let is_read = first.is_some_and(|(reads, writes)| reads > 0.0 && writes == 0.0);
            let is_written = second.is_some_and(|(reads, writes)| reads == 0.0 && writes > 0.0);
            let is_both = third.is_some_and(|(reads, writes)| reads > 0.0 && writes > 0.0);
            is_read && is_written && is_both
        })
    });
    for eid in 100..120 {
        assert_eq!(listed(&apis[0], eid), None, "it is not hot");
    }
    let first = apis[0].ok(apis[0].get("/hot?limit=1"));
    assert_eq!(first["items"].as_array().map(Vec::len), Some(1));
    for query in ["limit=0", "limit=501", "limit=x", "other=1"] {
        assert_eq!(apis[0].get(&format!("/hot?{query}")).0, 400, "{query}");
    }
    let mut client = store.server.client();
    let mut keys = Vec::new();
    wait_until("there is a report of each process", || {
        keys = reply::array(client.ok("KEYS countd:hot:*"));
        keys.len() == 2
    });
    for key in keys {
        let left = reply::int(client.call(&["PTTL", &reply::text(key)]));
        assert!((-2..=10_000).contains(&left) && left != -1, "{left}");
    }
    // The report of a process that was killed expires.
    other.kill();
    wait_until("only the live process is listed", || {
        listed(&apis[0], 2).is_none()
    });
    let (command, config) = ("consume", CONFIG);
    let _consumer = Countd::with(&store.server, &Settings { command, config });
    assert_invariants(&store.server, CONFIG);
}

for_each_store!([module plain cluster]
    hot_entities_of_all_processes_are_listed
    consumers_know_the_hot_entities_of_other_processes
);

mod of_tables {
    use super::*;

    for_each_store! {
        [module cluster]
        cached_reads_do_not_reach_redis
        changes_through_a_process_are_seen_in_its_next_read
        concurrent_reads_never_miss_an_acknowledged_change
        changes_through_another_process_are_seen_when_cached_counters_expire
        without_the_setting_nothing_is_cached
    }
}

/// The calls of the command that reads counters.
fn calls(store: &TestStore) -> u64 {
    store.calls_of("ctab.page")
}

fn cached_reads_do_not_reach_redis(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let countd = serve(&store.server);
    let api = countd.api();
    api.act("like", on_note(1, 7));
    make_hot(&api, 1);
    let totals = ["hits", "misses"].map(|name| format!("countd_hot_cache_{name}_total"));
    let before = (
        calls(&store),
        totals.clone().map(|name| metric(&api, &name)),
    );
    let note = json!({ "etype": "note", "eid": 1 });
    let feed = json!({ "uid": 7, "items": [note], "metrics": ["read"] });
    let batch = json!({ "items": [note, note] });
    for _ in 0..100 {
        assert_eq!(api.counts(1)["like"], 1);
        let page = api.ok(api.post("/counter/batch", &batch));
        assert_eq!(page["items"][1]["counts"]["like"], 1);
        let page = api.ok(api.post("/feed", &feed));
        assert_eq!(page["items"][0]["counts"], json!({ "read": 0 }));
    }
    let after = (calls(&store), totals.map(|name| metric(&api, &name)));
    let [hits, misses] = [0, 1].map(|index| after.1[index] - before.1[index]);
    // Each request reads the note once or twice. Of a page, one command reads all.
    assert_eq!(hits + misses, 400);
    assert!(hits > 0, "{misses} misses");
    let read = after.0 - before.0;
    assert!(
        read <= misses && 2 * read >= misses,
        "{read} calls, {misses} misses"
    );
    // Other notes are not cached.
    let before = calls(&store);
    api.counts(2);
    assert!(calls(&store) > before);
}

/// Cached reads do not pass the router. Clients see no difference.
#[test]
fn cached_reads_are_answered_as_others() {
    let server = Server::start();
    let auth = "[auth]\ntokens = [{ token = \"the-token-of-all\", rights = [\"read\", \"write\", \"admin\"] }, \
                { token = \"the-token-of-writers\", rights = [\"write\"] }]\n[limits]\nexempt = []\n[limits.address]\nper_second = 100000\nburst = 100000\n";
    let config = format!("{auth}{CONFIG}");
    let uncached = config.replace("cache_ms = 1000", "cache_ms = 0");
    assert_ne!(config, uncached);
    set_schema(&server, &config);
    let [cached, other] = [&config, &uncached].map(|config| {
        let command = "serve";
        Countd::with(&server, &Settings { command, config })
    });
    let all = |countd: &Countd| countd.api().authorized("Bearer the-token-of-all");
    let (api, direct) = (all(&cached), all(&other));
    api.act("like", on_note(1, 7));
    make_hot(&api, 1);
    let ids = [("x-trace-id", "t-1"), ("x-request-id", "r-1")];
    let answer = |api: &Api, path: &str| {
        let response = api.request(path, &ids, None);
        let headers = [
            "content-type",
            "x-trace-id",
            "x-request-id",
            "content-length",
        ];
        let headers = headers.map(|name| response.header(name).to_owned());
        let policies = response.header("ratelimit-policy").to_owned();
        (response.status, headers, policies, response.json)
    };
    let read = "/counter/note/1";
    let hits = || metric(&api, "countd_hot_cache_hits_total");
    let line = "countd_http_requests_total{route=\"/counter/{etype}/{eid}\",method=\"GET\",status=\"200\"}";
    let before = (hits(), metric(&api, line));
    for path in [read, "/api/v1/counter/note/1"] {
        for _ in 0..10 {
            let found = answer(&api, path);
            assert_eq!(
                (found.0, &found.1[1], &found.1[2]),
                (200, &"t-1".to_owned(), &"r-1".to_owned())
            );
            assert_eq!(found, answer(&direct, path), "{path}");
        }
    }
    // A read after the counters have expired is no hit.
    assert!(hits() > before.0 && hits() <= before.0 + 20);
    assert_eq!(metric(&api, line), before.1 + 20);
    for path in [
        "/counter/note/1?metrics=like",
        "/counter/note/1?metrics=unknown",
        "/counter/note/1?",
        "/counter/note/1/",
        "/counter/note/1/2",
        "/counter//note/1",
        "/counter/note/%31",
        "/counter/n%6Fte/1",
        "/counter/note/a%20b",
        "/counter/other/1",
        "/counter/note/",
        "/counter/note",
        "/Counter/note/1",
    ] {
        assert_eq!(answer(&api, path), answer(&direct, path), "{path}");
    }
    // Without the right to read, nothing is answered.
    for (token, status) in [
        ("", 401),
        ("Bearer another", 401),
        ("Bearer the-token-of-writers", 403),
    ] {
        let [found, expected] = [&cached, &other].map(|countd| {
            let (status, _, policies, json) = answer(&countd.api().authorized(token), read);
            (status, policies, json)
        });
        assert_eq!(found.0, status, "{token}");
        assert_eq!(found, expected, "{token}");
    }
    let head = api.request_text("HEAD", read, &ids, "");
    assert_eq!((head.status, head.header("x-trace-id")), (200, "t-1"));
    assert_eq!(api.request_text("DELETE", read, &ids, "").status, 405);
}

/// Web pages of other origins need the headers of CORS.
#[test]
fn cached_reads_of_other_origins_are_permitted() {
    let server = Server::start();
    let config = format!("[http.cors]\norigins = [\"https://app.example\"]\n{CONFIG}");
    set_schema(&server, &config);
    let (command, config) = ("serve", config.as_str());
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    make_hot(&api, 1);
    for _ in 0..20 {
        let response = api.request(
            "/counter/note/1",
            &[("origin", "https://app.example")],
            None,
        );
        assert_eq!(
            response.header("access-control-allow-origin"),
            "https://app.example"
        );
    }
}

fn changes_through_a_process_are_seen_in_its_next_read(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let countd = serve(&store.server);
    let api = countd.api();
    make_hot(&api, 1);
    let like = |uid: u64| with(on_note(1, uid), json!({ "metric": "like" })).to_string();
    for uid in 1..=30 {
        let expected = 2 * uid;
        api.act("like", on_note(1, uid));
        assert_eq!(api.counts(1)["like"], expected - 1);
        let (status, _) = api
            .try_post("/actions", &like(1_000 + uid))
            .expect("a response");
        assert_eq!(
            (status, api.counts(1)["like"].as_u64()),
            (200, Some(expected))
        );
        // From the cache.
        assert_eq!(api.counts(1)["like"], expected);
    }
    api.act("unlike", on_note(1, 1));
    assert_eq!(api.counts(1)["like"], 59);
    let note = json!({ "etype": "note", "eid": 1, "metric": "read" });
    let adjustment = with(note.clone(), json!({ "add": 5, "reason": "test" }));
    api.ok(api.post("/counter/adjust", &adjustment));
    assert_eq!(api.counts(1)["read"], 5);
    api.ok(api.post("/counter/reset", &note));
    assert_eq!(api.counts(1)["read"], 0);
}

fn concurrent_reads_never_miss_an_acknowledged_change(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let countd = serve(&store.server);
    let api = countd.api();
    make_hot(&api, 1);
    let acknowledged = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (api, acknowledged) = (countd.api(), &acknowledged);
            scope.spawn(move || {
                for number in 0..100 {
                    api.act("like", on_note(1, 1_000 * thread + number));
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                    for _ in 0..3 {
                        let at_least = acknowledged.load(Ordering::SeqCst);
                        let found = api.counts(1)["like"].as_u64().expect("a count");
                        assert!(found >= at_least, "{found} of {at_least}");
                    }
                }
            });
        }
    });
    assert_eq!(api.counts(1)["like"], 400);
}

fn changes_through_another_process_are_seen_when_cached_counters_expire(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let (one, other) = (serve(&store.server), serve(&store.server));
    let api = one.api();
    make_hot(&api, 1);
    let mut stale = 0;
    for uid in 1..=3 {
        api.counts(1);
        other.api().act("like", on_note(1, uid));
        let changed = Instant::now();
        loop {
            let age = changed.elapsed();
            if api.counts(1)["like"] == uid {
                break;
            }
            // The read began later than the counters may be cached.
            assert!(age <= CACHE, "a count of {age:?} ago");
            stale += 1;
        }
    }
    assert!(stale > 0, "nothing was cached");
}

fn without_the_setting_nothing_is_cached(store: TestStore) {
    let server = &store.server;
    let config = "[hot]\nmin_rate = 1\n";
    set_schema(server, config);
    let command = "serve";
    let countd = Countd::with(server, &Settings { command, config });
    let api = countd.api();
    wait_until("the note is hot", || {
        read_often(&api, 1);
        metric(&api, "countd_hot_entities") == 1
    });
    let before = calls(&store);
    for _ in 0..20 {
        api.counts(1);
    }
    assert!(calls(&store) >= before + 20);
    let config = "[hot]\nenabled = false\n";
    let disabled = Countd::with(server, &Settings { command, config });
    assert_eq!(disabled.api().get("/hot").0, 200);
}
