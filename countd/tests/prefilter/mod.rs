//! The prefilter: statuses of users who have not acted do not reach Redis, and no fact is ever denied.

mod clients;
mod cluster;
mod limits;
mod moves;
mod servers;
mod split_filters;
mod splits;

use crate::support::invariants::assert_invariants;
use crate::support::{
    Api, Countd, Settings, assert_refused, metric, on_note, printed, run, set_schema,
};
use countint_tests::env::TempDir;
use countint_tests::{Client, Server, wait_until};
use serde_json::{Value as Json, json};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The number of pages of each of the 8 clients of a flood.
const PAGES: u64 = 10;
/// The number of requests of one entity after each page.
const SINGLE: u64 = 5;
/// The number of statuses of a flood.
const STATUSES: u64 = 8 * PAGES * (500 + SINGLE);

const CONFIG: &str = "[limits.user]\nper_second = 0\n[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\n\
    [http]\nmax_connections = 64\n[prefilter]\nenabled = true\n";

fn start(server: &Server, command: &'static str) -> Countd {
    let config = CONFIG;
    Countd::with(server, &Settings { command, config })
}

fn has(api: &Api, eid: u64, uid: u64) -> bool {
    let path = format!("/status/note/{eid}?uid={uid}&metrics=like");
    let status = api.ok(api.get(&path));
    status["status"]["like"].as_bool().expect("a status")
}

fn answers(api: &Api) -> u64 {
    metric(api, "countd_prefilter_answers_total")
}

fn builds(api: &Api) -> u64 {
    metric(api, "countd_prefilter_builds_total")
}

/// Waits until the filters answer.
fn wait_until_built(api: &Api) {
    let before = answers(api);
    wait_until("the filters answer", || {
        assert!(!has(api, 1, u64::MAX));
        answers(api) > before
    });
}

/// The calls of commands that read facts, and the number of all commands, of all nodes.
fn commands(nodes: &mut [Client]) -> (u64, u64) {
    let (mut reads, mut all) = (0, 0);
    for node in nodes {
        for (name, stat) in node.info("commandstats") {
            let is_read = ["cmdstat_rbm.page", "cmdstat_rbm.contains"]
                .iter()
                .any(|command| name.eq_ignore_ascii_case(command));
            if is_read {
                let calls = stat
                    .strip_prefix("calls=")
                    .and_then(|stat| stat.split(',').next());
                reads += calls.expect("calls").parse::<u64>().expect("a number");
            }
        }
        all += node.info_number("stats", "total_commands_processed");
    }
    (reads, all)
}

/// 500 notes.
fn items() -> Vec<Json> {
    let items = (1..=500).map(|eid| json!({ "etype": "note", "eid": eid }));
    items.collect()
}

/// Asserts that statuses of users who have not acted cost the nodes little more than the synchronizations: pages, and requests of one entity.
fn assert_flood_is_answered_from_memory(countd: &Countd, nodes: &mut [Client]) {
    let (api, items) = (countd.api(), items());
    wait_until("a flood is answered from memory", || {
        let (answers_before, before) = (answers(&api), commands(nodes));
        thread::scope(|scope| {
            for thread in 0..8 {
                let (api, items) = (countd.api(), &items);
                scope.spawn(move || {
                    for number in 0..PAGES {
                        let uid = 1_000 + 100 * thread + number;
                        let page = json!({ "uid": uid, "items": items, "metrics": ["like"] });
                        let page = api.ok(api.post("/status/batch", &page));
                        let page = page["items"].as_array().expect("a list");
                        assert_eq!(page.len(), 500);
                        assert!(page.iter().all(|item| item["status"]["like"] == false));
                        for eid in 1..=SINGLE {
                            assert!(!has(&api, eid, uid));
                        }
                    }
                });
            }
        });
        let (answered, after) = (answers(&api) - answers_before, commands(nodes));
        let (reads, all) = (after.0 - before.0, after.1 - before.1);
        // The rest are false positives, and requests that have waited too long. Each reads some facts.
        let rest = STATUSES - answered;
        assert!(reads <= rest, "{reads} reads of {rest} facts");
        100 * answered >= 99 * STATUSES && 40 * all < STATUSES * nodes.len() as u64
    });
}

#[test]
fn statuses_of_users_who_have_not_acted_do_not_reach_redis() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let countd = start(&server, "serve");
    let api = countd.api();
    for uid in 1..=20 {
        api.act("like", on_note(uid, uid));
    }
    wait_until_built(&api);
    assert!(metric(&api, "countd_prefilter_facts") >= 20);
    assert!(metric(&api, "countd_prefilter_bytes") > 0);
    assert_flood_is_answered_from_memory(&countd, &mut [server.client()]);
    // Of a page, only the facts that may exist are read.
    let page = json!({ "uid": 7, "items": items(), "metrics": ["like"] });
    let page = api.ok(api.post("/status/batch", &page));
    let page = page["items"].as_array().expect("a list");
    let liked = page.iter().filter(|item| item["status"]["like"] == true);
    let liked: Vec<&str> = liked
        .map(|item| item["eid"].as_str().expect("an ID"))
        .collect();
    assert_eq!(liked, ["7"]);
    // Without `metrics`, and with a user who cannot have facts.
    let status = api.ok(api.get("/status/note/7?uid=7"));
    assert_eq!(
        status["status"],
        json!({ "fav": false, "like": true, "publish": false })
    );
    let status = api.ok(api.get("/status/note/7?uid=a"));
    assert_eq!(
        status["status"],
        json!({ "fav": false, "like": false, "publish": false })
    );
    let none = json!({ "uid": 7, "items": [], "metrics": [] });
    assert_refused(&api, "/status/batch", &none, 400, "malformed");
}

#[test]
fn acknowledged_facts_of_other_processes_are_never_denied() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    // The consumer counts and trims the logs meanwhile.
    let (filtering, acting) = (start(&server, "serve"), start(&server, "all"));
    let before = answers(&filtering.api());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (api, other) = (filtering.api(), acting.api());
            scope.spawn(move || {
                for number in 0..150 {
                    let (eid, uid) = (number % 7, 1_000 * thread + number);
                    assert!(!has(&api, eid, uid));
                    other.act("like", on_note(eid, uid));
                    assert!(has(&api, eid, uid), "note {eid}, user {uid}");
                    if number % 5 == 0 {
                        other.act("unlike", on_note(eid, uid));
                        assert!(!has(&api, eid, uid));
                        other.act("like", on_note(eid, uid));
                        assert!(has(&api, eid, uid), "note {eid}, user {uid}, again");
                    }
                }
            });
        }
    });
    wait_until_built(&filtering.api());
    assert!(answers(&filtering.api()) > before);
}

#[test]
fn facts_are_never_denied_when_processes_and_redis_are_killed() {
    let mut server = Server::builder().append_only(true).start();
    set_schema(&server, CONFIG);
    let (filtering, mut acting) = (start(&server, "serve"), start(&server, "all"));
    let api = filtering.api();
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        wait_until_built(&api);
        let is_over = AtomicBool::new(false);
        let liked = thread::scope(|scope| {
            let (other, is_over) = (acting.api(), &is_over);
            let likes = scope.spawn(move || {
                let mut liked = Vec::new();
                let mut uid = 1_000 * (round + 1);
                while !is_over.load(Ordering::SeqCst) {
                    uid += 1;
                    let sent = other.try_post("/action/like", &on_note(uid % 5, uid).to_string());
                    if sent.is_ok_and(|(status, _)| status == 200) {
                        liked.push((uid % 5, uid));
                    }
                }
                liked
            });
            // Facts while some are added, and while Redis is away.
            for _ in 0..10 {
                assert!(!has(&api, 1, u64::MAX));
            }
            if round % 2 == 0 {
                server.kill();
                server.start_again();
            }
            is_over.store(true, Ordering::SeqCst);
            likes.join().expect("likes")
        });
        if round % 2 == 1 {
            acting.kill();
            acting.launch();
        }
        acknowledged.extend(liked);
        for (eid, uid) in &acknowledged {
            let path = format!("/status/note/{eid}?uid={uid}&metrics=like");
            let mut status = None;
            wait_until("Redis replies", || {
                let (code, json) = api.get(&path);
                status = json["status"]["like"].as_bool();
                code == 200
            });
            assert_eq!(status, Some(true), "note {eid}, user {uid}");
        }
    }
    wait_until_built(&api);
    for (eid, uid) in &acknowledged {
        assert!(has(&api, *eid, *uid), "note {eid}, user {uid}");
    }
    assert!(!acknowledged.is_empty());
    assert!(builds(&api) >= 3);
    assert_invariants(&server, CONFIG);
}

#[test]
fn imported_and_restored_facts_are_not_denied() {
    let mut server = Server::builder().append_only(true).start();
    set_schema(&server, CONFIG);
    let countd = start(&server, "all");
    let api = countd.api();
    api.act("like", on_note(1, 1));
    wait_until_built(&api);
    let dir = TempDir::new();
    let file = dir.path().join("facts.csv");
    let lines: Vec<String> = (1..=2_000)
        .map(|uid| format!("{},{uid}", uid % 50))
        .collect();
    fs::write(&file, format!("eid,uid\n{}\n", lines.join("\n"))).expect("a file");
    let file = file.display().to_string();
    let arguments = [
        "import", "facts", "--job", "j", "--metric", "like", "--etype", "note", &file,
    ];
    printed(&run(&server, CONFIG, &arguments));
    for uid in 1..=2_000 {
        assert!(has(&api, uid % 50, uid), "user {uid}");
    }
    // Facts that are in the data when Redis starts again, as after a restore. No event says so.
    wait_until_built(&api);
    countd.suspend();
    server.kill();
    server.start_again();
    let mut client = server.client();
    for uid in 5_000..5_100 {
        client.ok(&format!("RBM.ADD rbm:like:note:3 {uid}"));
    }
    countd.resume();
    for uid in 5_000..5_100 {
        wait_until("Redis replies", || {
            api.get(&format!("/status/note/3?uid={uid}&metrics=like")).0 == 200
        });
        assert!(has(&api, 3, uid), "user {uid}");
    }
    wait_until_built(&api);
    assert!(has(&api, 3, 5_050));
}

#[test]
fn a_log_that_is_not_continued_is_noticed() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let countd = start(&server, "all");
    let api = countd.api();
    for eid in 0..100 {
        api.act("like", on_note(eid, 1));
    }
    let mut client = server.client();
    let event = r#"{"etype":"note","eid":"1","metric":"like","delta":1,"uid":"9","ts":1}"#;
    // A foreign ID, which the consumer renumbers, entries that cannot be decoded, and a log whose entries are deleted.
    let cases: [&[&str]; 3] = [
        &["XADD", "x:cnt-update:3", "*", "e", event],
        &["XADD", "x:cnt-update:3", "0-*", "e", "nonsense"],
        &["XTRIM", "x:cnt-update:2", "MAXLEN", "0"],
    ];
    for command in cases {
        wait_until_built(&api);
        let before = builds(&api);
        client.call(command);
        wait_until("the filters are built again", || builds(&api) > before);
        for eid in 0..100 {
            assert!(has(&api, eid, 1), "{command:?}");
        }
    }
}

#[test]
fn too_many_facts_are_not_filtered() {
    let server = Server::start();
    let config = "[limits.user]\nper_second = 0\n[prefilter]\nenabled = true\nmax_facts = 10\n";
    set_schema(&server, config);
    let command = "serve";
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    wait_until_built(&api);
    for uid in 0..12 {
        api.act("like", on_note(1, uid));
    }
    wait_until("there are too many", || {
        metric(&api, "countd_prefilter_bytes") == 0
    });
    let before = answers(&api);
    for uid in 0..14 {
        assert_eq!(has(&api, 1, uid), uid < 12);
    }
    assert_eq!(answers(&api), before);
    let other = Countd::with(&server, &Settings { command, config });
    wait_until("it gives up", || {
        other.log().contains("prefilter.max_facts")
    });
    assert!(has(&other.api(), 1, 11));
}
