//! Bitmaps with facts in more chunks than a script counts.

use super::setup::{EXACT_ROUNDS, LIKE, NO_ROUNDS, PARTITIONS, audit, differences, forge};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::{Random, StopOnDrop};
use crate::support::{Api, Countd, Settings, metric, printed, run, set_schema, wait_until_drained};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// The number of chunks with facts. A script counts up to 1,024.
const CHUNKS: u64 = 1_200;
const CHUNK: u64 = 32_768;
/// The field of favs in the schema.
const FAV: u16 = 2;

for_each_store! {
    [module objects plain cluster cluster_objects]
    lost_counters_of_a_large_bitmap_are_rebuilt
    an_action_on_a_lost_counter_waits_for_the_recount
    a_recount_goes_on_after_a_kill_and_changes
    right_counters_stay_while_facts_are_recounted
}

/// Tests that use tables.
mod tables {
    use super::*;

    for_each_store! {
        [module cluster]
        followers_in_a_large_bitmap_are_corrected
    }
}

/// Likes change with their fact, favs when the consumer counts them.
fn config(reconcile: &str) -> String {
    format!(
        r#"
[log]
partitions = {PARTITIONS}
[consumer]
linger_ms = 5
session_timeout_ms = 500
[limits]
user = {{ per_second = 0 }}
[reconcile]
{reconcile}
[metrics.like]
nature = "once"
count = "now"
facts = "bitmap"
[metrics.fav]
nature = "once"
count = "batched"
facts = "bitmap"
[metrics.follow]
nature = "once"
count = "never"
facts = "bitmap"
entities = ["user"]
users = [{{ counter = "followers", of = "target" }}]
"#
    )
}

/// A user of each chunk acts on an entity.
fn fill(api: &Api, metrics: &[&str], etype: &str) {
    let uids: Vec<u64> = (0..CHUNKS).map(|chunk| chunk * CHUNK + chunk % 7).collect();
    for uids in uids.chunks(200) {
        let lines = uids.iter().flat_map(|uid| {
            let line = |metric: &&str| {
                json!({ "metric": metric, "op": "add", "etype": etype, "eid": 1, "uid": uid })
                    .to_string()
            };
            metrics.iter().map(line).collect::<Vec<_>>()
        });
        let lines: Vec<String> = lines.collect();
        let (status, text) = api
            .try_post("/actions", &lines.join("\n"))
            .expect("a response");
        assert_eq!(status, 200, "{text}");
        assert_eq!(text.matches("\"changed\":true").count(), lines.len());
    }
}

fn on(uid: u64) -> Json {
    json!({ "etype": "note", "eid": 1, "uid": uid })
}

/// The key of the recount of note 1.
fn recount(store: &TestStore, metric: &str) -> String {
    store.key(&format!("bm:{metric}:note:1:"), "recount", "note:1")
}

fn lose(store: &TestStore) {
    let key = store.counters("v1", "note:1", PARTITIONS);
    store.server.client().ok(&format!("DEL {key}"));
}

/// The likes and favs of note 1.
fn counts(api: &Api) -> [u64; 2] {
    let counts = api.counts(1);
    ["like", "fav"].map(|metric| counts[metric].as_u64().expect("a number"))
}

fn lost_counters_of_a_large_bitmap_are_rebuilt(store: TestStore) {
    let countd = Countd::start(&store.server, &config(NO_ROUNDS));
    let api = countd.api();
    fill(&api, &["like", "fav"], "note");
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(counts(&api), [CHUNKS, CHUNKS]);
    for _ in 0..2 {
        lose(&store);
        wait_until("the counters are rebuilt", || counts(&api) == [CHUNKS; 2]);
    }
    // Another process may have begun a recount.
    for metric in ["like", "fav"] {
        store
            .server
            .client()
            .ok(&format!("DEL {}", recount(&store, metric)));
    }
    lose(&store);
    wait_until("the counters are rebuilt", || counts(&api) == [CHUNKS; 2]);
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(counts(&api), [CHUNKS; 2]);
    assert_invariants(&store.server, &config(NO_ROUNDS));
}

fn an_action_on_a_lost_counter_waits_for_the_recount(store: TestStore) {
    let countd = Countd::start(&store.server, &config(NO_ROUNDS));
    let api = countd.api();
    fill(&api, &["like"], "note");
    wait_until_drained(&store.server, PARTITIONS);
    lose(&store);
    let outcome = api.act("like", on(3 * CHUNK + 100));
    assert_eq!(outcome, json!({ "changed": true, "count": CHUNKS + 1 }));
    lose(&store);
    let outcome = api.act("unlike", on(3 * CHUNK + 100));
    assert_eq!(outcome, json!({ "changed": true, "count": CHUNKS }));
    // A key of another type is no recount.
    let mut client = store.server.client();
    let key = recount(&store, "like");
    client.ok(&format!("DEL {key}"));
    client.ok(&format!("SADD {key} x"));
    api.act("like", on(3 * CHUNK + 100));
    lose(&store);
    wait_until("the counter is rebuilt", || counts(&api)[0] == CHUNKS + 1);
    client.ok(&format!("DEL {key}"));
    assert_invariants(&store.server, &config(NO_ROUNDS));
}

/// A process was killed in the midst of a recount. Facts change in chunks that it has counted and in others, then another process goes on.
fn a_recount_goes_on_after_a_kill_and_changes(store: TestStore) {
    let config = config(NO_ROUNDS);
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    fill(&api, &["like", "fav"], "note");
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    for metric in ["like", "fav"] {
        let key = recount(&store, metric);
        client.ok(&format!("HSET {key} next 600 sum 600"));
        client.ok(&format!("EXPIRE {key} 600"));
        let removal = format!("un{metric}");
        for (action, chunk, bit, sum) in [
            (metric, 3, 100, 601),
            (metric, 599, 100, 602),
            (metric, 599, 100, 602),
            (metric, 600, 100, 602),
            (metric, 1_199, 100, 602),
            // The last fact of a chunk.
            (&removal, 10, 3, 601),
            (&removal, 10, 3, 601),
            (&removal, 700, 0, 601),
            // The first fact of a chunk.
            (metric, 10, 5, 602),
            (metric, 5_000, 5, 602),
        ] {
            api.act(action, on(chunk * CHUNK + bit));
            let found = reply::text(client.ok(&format!("HGET {key} sum")));
            assert_eq!(found, sum.to_string(), "{action} in chunk {chunk}");
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    // Six facts were added, and two removed.
    let facts = CHUNKS + 4;
    assert_eq!(counts(&api), [facts; 2]);
    forge(&store, "note:1", LIKE, 50);
    forge(&store, "note:1", FAV, 30);
    let reconcile = ["reconcile", "--entity", "note", "1", "--json"];
    let report: Json =
        serde_json::from_str(&printed(&run(&store.server, &config, &reconcile))).expect("JSON");
    for metric in ["like", "fav"] {
        assert_eq!(report["metrics"][metric]["corrected"], 1, "{report}");
    }
    assert_eq!(counts(&api), [facts; 2]);
    let mut corrections = differences(&store);
    corrections.sort();
    assert_eq!(corrections, ["-30", "-50"]);
    // The recount does not outlive the facts.
    let uids = api.ok(api.get("/who/like/note/1?limit=1"));
    assert_eq!(uids["users"], json!([(5_000 * CHUNK + 5).to_string()]));
    let users: Vec<u64> = (0..CHUNKS)
        .flat_map(|chunk| {
            [chunk % 7, 5, 100]
                .iter()
                .map(move |bit| chunk * CHUNK + bit)
                .collect::<Vec<_>>()
        })
        .chain([5_000 * CHUNK + 5])
        .collect();
    for uids in users.chunks(500) {
        let line = |uid: &u64| {
            json!({ "metric": "like", "op": "remove", "etype": "note", "eid": 1, "uid": uid })
                .to_string()
        };
        let lines: Vec<String> = uids.iter().map(line).collect();
        let (status, text) = api
            .try_post("/actions", &lines.join("\n"))
            .expect("a response");
        assert_eq!(status, 200, "{text}");
    }
    assert_eq!(counts(&api)[0], 0);
    client.expect(
        &format!("EXISTS {}", recount(&store, "like")),
        "(integer) 0",
    );
    assert_invariants(&store.server, &config);
}

/// Rounds compare all the time, while clients change facts in all chunks, recounts are lost, and the consumer is killed.
fn right_counters_stay_while_facts_are_recounted(store: TestStore) {
    let config = &config(EXACT_ROUNDS);
    set_schema(&store.server, config);
    let serve = Countd::with(
        &store.server,
        &Settings {
            command: "serve",
            config,
        },
    );
    let command = "consume";
    let mut consumer = Countd::with(&store.server, &Settings { command, config });
    let api = serve.api();
    fill(&api, &["like", "fav"], "note");
    let is_done = AtomicBool::new(false);
    let facts: u64 = thread::scope(|scope| {
        let clients_end = StopOnDrop(&is_done);
        let clients = (0..2_u64).map(|client| {
            let (api, is_done) = (serve.api(), &is_done);
            scope.spawn(move || {
                let mut random = Random(client);
                let mut own: BTreeSet<u64> = BTreeSet::new();
                while !is_done.load(Relaxed) {
                    let uid = random.below(CHUNKS + 50) * CHUNK + 1_000 + client;
                    let removes = own.contains(&uid);
                    for metric in ["like", "fav"] {
                        let action = format!("{}{metric}", if removes { "un" } else { "" });
                        api.act(&action, on(uid));
                    }
                    match removes {
                        true => own.remove(&uid),
                        false => own.insert(uid),
                    };
                }
                own.len() as u64
            })
        });
        let clients: Vec<_> = clients.collect();
        let mut client = store.server.client();
        let mut random = Random(9);
        let mut compare = |consumer: &Countd, rounds: u64| {
            let compared = || metric(&consumer.api(), COMPARED);
            let before = compared();
            wait_until("the counters are compared", || {
                if random.below(3) == 0 {
                    let name = ["like", "fav"][random.below(2) as usize];
                    client.ok(&format!("DEL {}", recount(&store, name)));
                }
                compared() >= before + rounds
            });
        };
        for _ in 0..2 {
            compare(&consumer, 3);
            consumer.kill();
            consumer.launch();
        }
        compare(&consumer, 3);
        assert_eq!(audit(&store), []);
        forge(&store, "note:1", LIKE, 500);
        forge(&store, "note:1", FAV, 300);
        wait_until("both are corrected", || differences(&store).len() == 2);
        compare(&consumer, 3);
        drop(clients_end);
        let own = clients.into_iter().map(|own| own.join().expect("a client"));
        own.sum()
    });
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(counts(&api), [CHUNKS + facts; 2]);
    let mut corrections = differences(&store);
    corrections.sort();
    assert_eq!(corrections, ["-300", "-500"]);
    assert_invariants(&store.server, config);
}

/// The number of exact comparisons.
const COMPARED: &str = "countd_counter_difference_count{source=\"reconcile\"}";

fn followers_in_a_large_bitmap_are_corrected(store: TestStore) {
    let config = &config(&format!("{EXACT_ROUNDS}\nuser_seconds = 1"));
    let countd = Countd::start(&store.server, config);
    let api = countd.api();
    fill(&api, &["follow"], "user");
    wait_until_drained(&store.server, PARTITIONS);
    let followers = || {
        let counts = &api.ok(api.get("/relation/counter?uid=1"))["counts"];
        counts["followers"].as_u64().expect("a number")
    };
    assert_eq!(followers(), CHUNKS);
    let key = store.user_counters("1", PARTITIONS);
    let mut client = store.server.client();
    client.ok(&format!("CTAB.BATCHINCR {key} 1 LEN 5 1 40"));
    wait_until("the counter is corrected", || followers() == CHUNKS);
    client.ok(&format!("DEL {key}"));
    wait_until("the counter is rebuilt", || followers() == CHUNKS);
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(followers(), CHUNKS);
    assert_invariants(&store.server, config);
}
