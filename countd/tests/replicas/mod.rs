//! `redis.read_from = "replica"`: replicas answer reads, unless their data is too old.

mod staleness;

use crate::support::{
    Api, Countd, Link, Settings, metric, on_note, printed, run, set_schema, wait_until_drained,
    with,
};
use countint_tests::{Cluster, Server, wait_until};
use serde_json::{Value as Json, json};

/// Data that is never too old in a test, and data that soon is.
const LONG: u32 = 600_000;
const SHORT: u32 = 500;

fn config(max_staleness_ms: u32) -> String {
    format!(
        "[redis]\nread_from = \"replica\"\nmax_staleness_ms = {max_staleness_ms}\n[log]\npartitions = 16\n\
         [consumer]\nlinger_ms = 5\n[rebuild]\nzero_seconds = 1\n"
    )
}

fn serve(server: &Server, max_staleness_ms: u32) -> Countd {
    let (command, config) = ("serve", &config(max_staleness_ms));
    Countd::with(server, &Settings { command, config })
}

/// The reads that replicas have answered.
fn answered(api: &Api) -> u64 {
    metric(api, "countd_replica_reads_total")
}

/// Waits until replicas answer.
fn wait_until_read(api: &Api) {
    wait_until("a replica answers", || {
        let before = answered(api);
        api.counts(1);
        answered(api) > before
    });
}

/// A server with a replica behind a link, which has notes with likes of user 7.
struct Setup {
    server: Server,
    link: Link,
    replica: Server,
}

impl Setup {
    fn new() -> Setup {
        let server = Server::start();
        set_schema(&server, "[log]\npartitions = 16\n");
        let link = Link::to(&server);
        let replica = Server::builder()
            .config(&format!("replicaof 127.0.0.1 {}", link.port()))
            .config("repl-timeout 3600")
            .start();
        wait_until("the primary lists the replica", || {
            let info = server.client().info("replication");
            info.get("slave0").is_some_and(|replica| {
                replica.contains(&format!("port={}", replica_port(replica)))
                    && replica.contains("state=online")
            })
        });
        Setup {
            server,
            link,
            replica,
        }
    }
}

fn replica_port(text: &str) -> &str {
    let port = text
        .split(',')
        .find_map(|field| field.strip_prefix("port="));
    port.unwrap_or_default()
}

/// The number of calls of each command since the last reset of the statistics.
fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.client().info("commandstats");
    let mut stats = stats.iter();
    let stat = stats.find(|(name, _)| name.eq_ignore_ascii_case(&format!("cmdstat_{command}")));
    let calls = stat.and_then(|(_, stat)| stat.strip_prefix("calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// All reads of notes that replicas may answer, and their answers.
fn read_notes(api: &Api) -> Vec<Json> {
    let note = json!({ "etype": "note", "eid": "1" });
    let page = json!({ "uid": "7", "items": [note] });
    vec![
        api.ok(api.get("/counter/note/1")),
        api.ok(api.post("/counter/batch", &json!({ "items": [note, note] }))),
        api.ok(api.post("/feed", &page)),
        api.ok(api.post("/status/batch", &page)),
        api.ok(api.get("/who/like/note/1")),
        api.ok(api.get("/user/7/like/note")),
    ]
}

#[test]
fn healthy_replica_answers_reads_and_the_primary_does_not() {
    let server = Server::start();
    let replica = server.replica();
    let config = &config(LONG);
    let mut primary = Countd::start(
        &server,
        "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n",
    );
    let countd = serve(&server, LONG);
    let api = countd.api();
    api.act("like", with(on_note(1, 7), json!({ "author": 9 })));
    wait_until_drained(&server, 16);
    let expected = read_notes(&primary.api());
    let user = primary.api().user(9);
    assert_eq!(user["likesReceived"], 1);
    // A consumer reads, too.
    primary.stop();
    server.wait_for_replica(&replica);
    let commands = ["ctab.page", "rbm.scan", "rbm.page"];
    // The first reads load scripts into the replica.
    wait_until("only the replica answers", || {
        for server in [&server, &replica] {
            server.client().ok("CONFIG RESETSTAT");
        }
        let before = answered(&api);
        assert_eq!(read_notes(&api), expected);
        answered(&api) == before + expected.len() as u64
            && commands.iter().all(|command| {
                let [of_primary, of_replica] = [&server, &replica].map(|of| calls(of, command));
                of_primary == 0 && of_replica > 0
            })
    });
    let before = answered(&api);
    assert_eq!(api.user(9), user);
    wait_until("the replica answers reads of users", || {
        api.user(9);
        answered(&api) > before
    });
    let note = printed(&run(&server, config, &["check"]));
    assert!(!note.contains("redis.read_from"), "{note}");
}

#[test]
fn counters_that_a_replica_does_not_have_yet_are_not_rebuilt() {
    let Setup {
        server,
        link,
        replica,
    } = Setup::new();
    // Counters are compared with facts once a consumer has used the data.
    let consumer = Settings {
        command: "consume",
        config: "[log]\npartitions = 16\n",
    };
    let _consumer = Countd::with(&server, &consumer);
    let countd = serve(&server, LONG);
    let api = countd.api();
    wait_until_read(&api);
    link.pause(true);
    for eid in 2..12 {
        api.act("like", on_note(eid, 7));
    }
    // The replica has neither the fact nor the counter. The primary has both.
    for eid in 2..12 {
        assert_eq!(api.counts(eid)["like"], 1, "note {eid}");
    }
    assert_eq!(metric(&api, "countd_rebuilds_total"), 0);
    assert_eq!(server.client().run("EXISTS x:audit:cntfix"), "(integer) 0");
    // Lost on the primary, too: it is rebuilt there.
    link.pause(false);
    server.wait_for_replica(&replica);
    let table = server.client().run("KEYS tab:v1:note:*");
    assert_ne!(table, "(empty array)");
    for partition in 0..16 {
        server.client().ok(&format!("DEL tab:v1:note:{partition}"));
    }
    wait_until("it is rebuilt", || {
        api.counts(2)["like"] == 1 && metric(&api, "countd_rebuilds_total") > 0
    });
}

#[test]
fn replica_without_a_link_is_not_read() {
    let server = Server::start();
    let mut replica = server.replica();
    set_schema(&server, "[log]\npartitions = 16\n");
    let (patient, config) = (serve(&server, LONG), &config(LONG));
    let api = patient.api();
    wait_until_read(&api);
    // It is a primary of its own now, with the same data.
    replica.client().ok("REPLICAOF NO ONE");
    wait_until("it is not read", || {
        let before = answered(&api);
        (0..5).for_each(|_| drop(api.counts(1)));
        answered(&api) == before
    });
    api.act("like", on_note(1, 7));
    assert_eq!(api.counts(1)["like"], 1);
    replica.stop();
    let note = printed(&run(&server, config, &["check"]));
    assert!(note.contains("redis.read_from is replica, but"), "{note}");
}

#[test]
fn replicas_of_a_cluster_answer_reads_of_their_slots() {
    let cluster = Cluster::start();
    let replica = cluster.replica(0, |builder| builder);
    set_schema(&cluster.nodes[0], "[log]\npartitions = 16\n");
    let countd = serve(&cluster.nodes[0], LONG);
    let api = countd.api();
    for eid in 0..30 {
        api.act("like", on_note(eid, 7));
    }
    cluster.nodes[0].wait_for_replica(&replica);
    let items: Vec<Json> = (0..30)
        .map(|eid| json!({ "etype": "note", "eid": eid }))
        .collect();
    let read = || {
        let page = api.ok(api.post("/counter/batch", &json!({ "items": items })));
        let counts = page["items"].as_array().expect("a list").iter();
        counts.filter(|item| item["counts"]["like"] == 1).count()
    };
    wait_until("the replica answers", || {
        let before = calls(&replica, "ctab.page");
        assert_eq!(read(), 30);
        calls(&replica, "ctab.page") > before
    });
    let of_node = |node: usize| calls(&cluster.nodes[node], "ctab.page");
    wait_until("the node with a replica is not read", || {
        for node in &cluster.nodes {
            node.client().ok("CONFIG RESETSTAT");
        }
        assert_eq!(read(), 30);
        assert!(of_node(1) > 0 && of_node(2) > 0, "they have no replicas");
        of_node(0) == 0
    });
}
