//! Envelopes of outbox relays: each counts once, even if it is sent repeatedly or a process is killed.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{cluster, plain};
use crate::support::{
    Api, Countd, Settings, metric, printed, run, set_schema, wait_until_drained, with,
};
use countint_tests::env::{self, TempDir};
use countint_tests::{Client, Server};
use rusqlite::Connection;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const PARTITIONS: u16 = 8;
const CONFIG: &str = "[log]\npartitions = 8\nretain = 1000\nretain_bytes = 1000000\n[consumer]\nlinger_ms = 5\nbatch = 50\n";

fn like(event_id: &str, eid: u64) -> Json {
    json!({
        "event_id": event_id, "event_type": "like", "aggregate_type": "note", "aggregate_id": eid,
        "payload": { "delta": 1, "uid": 42, "author": 7 },
    })
}

fn accepted(api: &Api, body: &Json) -> u64 {
    let response = api.ok(api.post("/events", body));
    response["accepted"].as_u64().expect("a count")
}

#[test]
fn an_envelope_counts_once_in_every_form_of_body() {
    assert_counts_once(Server::start(), "act:dedup:event:a");
}

#[test]
fn an_envelope_counts_once_in_cluster_mode() {
    assert_counts_once(cluster().server, "act:dedup:event:a:{6}");
}

#[test]
fn an_envelope_counts_once_without_the_module() {
    assert_counts_once(plain().server, "act:dedup:event:a");
}

fn assert_counts_once(server: Server, remembered: &str) {
    set_schema(&server, CONFIG);
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    assert_eq!(accepted(&api, &like("a", 1)), 1);
    // Duplicates in a request and of an earlier request; payloads as an object and as a string.
    let mut text = like("c", 1);
    text["payload"] = json!(text["payload"].to_string());
    let many = json!([like("a", 1), like("b", 1), like("b", 1), text]);
    assert_eq!(accepted(&api, &many), 4);
    let lines = format!("{}\n{}\n", like("d", 1), like("a", 1));
    let (status, response) = api
        .try_send(
            "/api/v1/events",
            "application/x-ndjson; charset=utf-8",
            &lines,
        )
        .expect("a response");
    assert_eq!((status, response.as_str()), (200, r#"{"accepted":2}"#));
    assert_eq!(accepted(&api, &json!([])), 0);
    wait_until_drained(&server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 4);
    assert_eq!(api.user(7)["likesReceived"], 4);
    assert_eq!(metric(&api, "countd_events_appended_total"), 7);
    // In cluster mode the author's counter gets derived events.
    let applied = metric(&api, "countd_events_applied_total");
    assert!(applied == 4 || (applied > 4 && remembered.ends_with('}')));
    assert_eq!(metric(&api, "countd_events_duplicated_total"), 3);
    let mut client = server.client();
    let left = client.run(&format!("TTL {remembered}"));
    let left = left.trim_start_matches("(integer) ").parse::<i64>();
    assert!(left.is_ok_and(|left| (172_000..=172_800).contains(&left)));
}

#[test]
fn a_request_with_an_invalid_envelope_is_refused_as_a_whole() {
    let server = Server::start();
    let countd = Countd::start(&server, "[http]\nmax_actions = 4\n");
    let api = countd.api();
    for (bad, status, code) in [
        (with(like("x", 1), json!({ "more": 1 })), 400, "malformed"),
        (
            with(like("x", 1), json!({ "event_id": "a:b" })),
            400,
            "malformed",
        ),
        (
            with(like("x", 1), json!({ "event_type": "" })),
            400,
            "malformed",
        ),
        (
            with(like("x", 1), json!({ "payload": { "uid": 1 } })),
            400,
            "malformed",
        ),
        (
            with(
                like("x", 1),
                json!({ "payload": { "uid": 1, "delta": 1_u64 << 40 } }),
            ),
            400,
            "malformed",
        ),
        (
            with(like("x", 1), json!({ "aggregate_type": "cat" })),
            422,
            "unknown_type",
        ),
        (
            with(like("x", 1), json!({ "event_type": "later" })),
            422,
            "unknown_metric",
        ),
        (
            with(
                like("x", 1),
                json!({ "payload": { "uid": 1, "delta": 1, "schema": "v9" } }),
            ),
            422,
            "unprocessable",
        ),
        (json!(["no", "envelope"]), 400, "malformed"),
    ] {
        let (found, response) = api.post("/events", &json!([like("good", 1), bad]));
        let item = &response["errors"][0];
        assert_eq!(
            (found, &item["item"], &item["code"]),
            (status, &json!(1), &json!(code)),
            "{bad}: {response}"
        );
        assert!(item["detail"].is_string(), "{response}");
    }
    let (_, response) = api.post(
        "/events",
        &json!([like("a", 1), with(like("x", 1), json!({ "more": 1 }))]),
    );
    assert_eq!(response["errors"][0]["event_id"], "x");
    assert_eq!(api.post("/events", &json!(5)).0, 400);
    assert_eq!(
        api.try_post("/events", "nonsense").expect("a response").0,
        400
    );
    assert_eq!(api.post("/events", &json!(vec![like("a", 1); 5])).0, 413);
    let (status, response) = api
        .try_send(
            "/events",
            "application/x-ndjson",
            &format!("{}\nnonsense", like("a", 1)),
        )
        .expect("a response");
    assert_eq!(status, 400);
    assert!(response.contains(r#""item":1"#), "{response}");
    assert_eq!(
        server.client().run("EXISTS x:cnt-update:941"),
        "(integer) 0",
        "nothing was appended"
    );
}

/// Appends a payload to the log as an envelope.
fn append(client: &mut Client, log: &str, payload: &str) {
    client.call(&["XADD", log, "0-*", "o", payload]);
}

#[test]
fn invalid_envelopes_become_dead_letters_and_count_once_when_retried() {
    let server = Server::start();
    let config = "[log]\npartitions = 1\n[consumer]\nlinger_ms = 5\n";
    let countd = Countd::start(&server, config);
    let mut client = server.client();
    let log = "x:cnt-update:0";
    let later = with(like("later", 1), json!({ "event_type": "later" })).to_string();
    for payload in [
        &like("good", 1).to_string(),
        "nonsense",
        r#"{"event_id":"e"}"#,
        &with(like("e", 1), json!({ "payload": [] })).to_string(),
        // A duplicate of a poison message becomes a dead letter, too.
        &later,
        &later,
    ] {
        append(&mut client, log, payload);
    }
    wait_until_drained(&server, 1);
    let dead = || -> Vec<(String, String)> {
        let listed = printed(&run(&server, config, &["dead", "list"]));
        let dead_letters = listed.lines().map(|line| {
            let dead_letter: Json = serde_json::from_str(line).expect("JSON");
            let text = |field: &str| dead_letter[field].as_str().expect("a text").to_owned();
            (text("kind"), text("reason"))
        });
        dead_letters.collect()
    };
    let reasons = dead();
    let parts = [
        "malformed",
        "missing field",
        "must be an object",
        "no metric later",
        "no metric later",
    ];
    assert_eq!(reasons.len(), parts.len(), "{reasons:?}");
    for ((kind, reason), part) in reasons.iter().zip(parts) {
        assert!(kind == "o" && reason.contains(part), "{part}: {reason}");
    }
    printed(&run(&server, config, &["schema", "extend", "v1", "later"]));
    printed(&run(&server, config, &["dead", "retry", "--all"]));
    wait_until_drained(&server, 1);
    assert_eq!(dead().len(), 3, "repaired dead letters are retried");
    let counts = countd
        .api()
        .ok(countd.api().get("/counter/note/1?metrics=like,later"));
    assert_eq!(counts["counts"], json!({ "like": 1, "later": 1 }));
}

#[test]
fn envelopes_count_once_when_a_log_is_read_again() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    for i in 0..10 {
        let some: Vec<Json> = (0..60).map(|j| like(&format!("{i}-{j}"), j % 6)).collect();
        accepted(&api, &json!(some));
    }
    wait_until_drained(&server, PARTITIONS);
    let mut client = server.client();
    for partition in 0..PARTITIONS {
        client.run(&format!("HSET x:cnt-update:pos {partition} 1"));
    }
    // The next commit conflicts with the stored position, and the consumer reads from there.
    let more: Vec<Json> = (0..60).map(|i| like(&format!("more-{i}"), i % 6)).collect();
    accepted(&api, &json!(more));
    wait_until_drained(&server, PARTITIONS);
    for eid in 0..6 {
        assert_eq!(api.counts(eid)["like"], 110, "note {eid}");
    }
    assert_eq!(metric(&api, "countd_events_duplicated_total"), 600);
}

/// The relay example and its database.
struct Relay {
    program: PathBuf,
    dir: TempDir,
}

impl Relay {
    fn database(&self) -> PathBuf {
        self.dir.path().join("shop.db")
    }

    fn run(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(&self.program);
        command
            .arg(arguments[0])
            .arg(self.database())
            .args(&arguments[1..]);
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("the example starts")
    }

    fn run_to_end(&self, arguments: &[&str]) {
        let ended = self
            .run(arguments)
            .wait()
            .expect("a child can be waited for");
        assert!(ended.success(), "{arguments:?}");
    }
}

#[test]
fn events_of_a_relay_that_is_killed_count_once() {
    let server = Server::builder().append_only(true).start();
    set_schema(&server, CONFIG);
    let settings = |command| Settings {
        command,
        config: CONFIG,
    };
    let mut api = Countd::with(&server, &settings("serve"));
    let consumer = Countd::with(&server, &settings("consume"));
    let relay = Relay {
        program: env::example("outbox_relay"),
        dir: TempDir::new(),
    };
    let url = format!("http://127.0.0.1:{}", api.port());
    relay.run_to_end(&["demo", "2000"]);
    for kill in 0..15 {
        let mut process = relay.run(&["relay", &url]);
        thread::sleep(Duration::from_millis(20 + 7 * kill));
        if kill % 5 == 4 {
            api.kill();
            api.launch();
        }
        // The relay runs until it is killed.
        process.kill().expect("it can be killed");
        process.wait().expect("a child can be waited for");
    }
    relay.run_to_end(&["relay", &url, "--until-empty"]);
    // The state after a kill between the response and the update; and two events that can never be counted.
    let database = Connection::open(relay.database()).expect("a database");
    let changed = database.execute("UPDATE outbox SET state = 'new' WHERE id % 5 = 0", []);
    assert_eq!(changed, Ok(400));
    let bad = "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload) \
               VALUES ('bad-1', 'like', 'note', '1', 'nonsense'), ('bad-2', 'like', 'cat', '1', '{\"delta\":1,\"uid\":1}')";
    assert_eq!(database.execute(bad, []), Ok(2));
    relay.run_to_end(&["relay", &url, "--until-empty"]);
    wait_until_drained(&server, PARTITIONS);
    for note in 0..50 {
        assert_eq!(api.api().counts(note)["like"], 40, "note {note}");
    }
    assert_eq!(api.api().user(7)["likesReceived"], 2_000);
    assert_eq!(
        metric(&consumer.api(), "countd_events_applied_total"),
        2_000
    );
    assert!(metric(&consumer.api(), "countd_events_duplicated_total") >= 400);
    let parked = database.query_row(
        "SELECT count(*) FROM outbox WHERE state = 'refused' AND reason != ''",
        [],
        |row| row.get(0),
    );
    assert_eq!(parked, Ok(2));
    assert_eq!(printed(&run(&server, CONFIG, &["dead", "list"])), "");
    assert_invariants(&server, CONFIG);
}
