//! Jobs: they are started once, wait for what they need, and can be read.

use super::{CONFIG, PARTITIONS, Setup, entities, users, wait_until_done};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster, module};
use crate::support::{Countd, Settings, metric, set_schema, wait_until_drained};
use countint_tests::{Server, reply, wait_until};
use serde_json::json;

#[test]
fn a_job_is_started_once_for_a_target() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let settings = |command| Settings {
        command,
        config: CONFIG,
    };
    let serve = Countd::with(&server, &settings("serve"));
    let api = serve.api();
    let (first, second) = (api.delete("/user/42"), api.delete("/user/42"));
    assert_eq!(first, second);
    assert_eq!(first.1["state"], "queued");
    let other = api.delete("/user/43");
    assert_ne!(other.1["id"], first.1["id"]);
    let entity = api.delete("/entity/note/42");
    assert_eq!((entity.0, &entity.1["kind"]), (202, &json!("eraseEntity")));
    // Only a process that consumes runs jobs.
    let mut client = server.client();
    assert_eq!(reply::int(client.ok("HLEN countd:{jobs}")), 3);
    let consume = Countd::with(&server, &settings("consume"));
    for (_, job) in [&first, &other, &entity] {
        let path = format!("/jobs/{}", job["id"].as_str().expect("an ID"));
        wait_until_done(&api, &path);
    }
    assert_eq!(reply::int(client.ok("HLEN countd:{jobs}")), 0);
    let finished = metric(
        &consume.api(),
        "countd_jobs_finished_total{kind=\"eraseUser\"}",
    );
    assert_eq!(finished, 2);
    // The next job is another one.
    assert_ne!(api.delete("/user/42").1["id"], first.1["id"]);
}

#[test]
fn a_job_waits_for_a_partition_that_is_not_counted() {
    let setup = Setup::new(module(), CONFIG);
    entities::act(&setup, entities::ERASED);
    setup.drain();
    let mut client = setup.store.server.client();
    let entity = format!("note:{}", entities::ERASED);
    let partition = TestStore::partition(&entity, PARTITIONS).to_string();
    let position = client.call(&["HGET", "x:cnt-update:pos", &partition]);
    let position = reply::text(position);
    client.call(&["HSET", "x:cnt-update:pos", &partition, "x"]);
    let job = setup.delete(&format!("/user/{}", users::ERASED));
    wait_until("the job says why it waits", || {
        let (_, status) = setup.api.get(&job);
        status["error"]
            .as_str()
            .is_some_and(|e| e.contains(&format!("partition {partition}")))
    });
    let (_, status) = setup.api.get(&job);
    assert_eq!(status["state"], "running");
    client.call(&["HSET", "x:cnt-update:pos", &partition, &position]);
    let status = wait_until_done(&setup.api, &job);
    assert_eq!(status.get("error"), None, "{status}");
}

#[test]
fn keys_of_another_type_are_reported() {
    let setup = Setup::new(cluster(), CONFIG);
    users::act(&setup, users::ERASED);
    let mut client = setup.store.server.client();
    let partition = TestStore::partition("note:77", PARTITIONS);
    let key = format!("rbm:like:note:77:{{{partition}}}");
    client.call(&["SET", &key, "x"]);
    let job = setup.delete(&format!("/user/{}", users::ERASED));
    let mut last = json!(null);
    wait_until("the job ends", || {
        last = setup.api.get(&job).1;
        last["state"] == "done"
    });
    assert!(last["damaged"].as_u64() > Some(0), "{last}");
    assert_eq!(reply::text(client.call(&["GET", &key])), "x");
}

/// Dead letters are counted again; what stays dead does not name the user any more.
#[test]
fn dead_letters_are_redacted() {
    let setup = Setup::new(module(), CONFIG);
    users::act(&setup, users::ERASED);
    setup.drain();
    let mut client = setup.store.server.client();
    let uid = users::ERASED;
    for event in [
        json!({ "etype": "note", "eid": "1", "metric": "none", "delta": 1, "uid": uid }),
        json!({ "etype": "note", "eid": "1", "metric": "none", "delta": 1, "uid": "5", "author": uid }),
        json!({ "etype": "note", "eid": "1", "metric": "none", "delta": 1, "uid": "5" }),
    ] {
        client.call(&["XADD", "x:cnt-update:14", "0-*", "e", &event.to_string()]);
    }
    let letters =
        |client: &mut countint_tests::Client| reply::int(client.ok("XLEN x:cnt-update:dead"));
    wait_until("they are dead letters", || letters(&mut client) == 3);
    setup.erase(&format!("/user/{uid}"));
    assert_eq!(letters(&mut client), 2);
    let found = super::search::holders(&mut client, uid);
    assert!(found.is_empty(), "{found:#?}");
}

/// IDs of entities, amounts and partitions can be the number of an erased user.
#[test]
fn numbers_that_are_no_users_are_kept() {
    let config = format!("{CONFIG}[changes]\nenabled = true\n");
    let setup = Setup::new(module(), &config);
    let adjustment = json!({
        "etype": "note", "eid": "42", "metric": "read", "set": 42, "reason": "as 42 asked",
    });
    let (status, _) = setup.api.post("/counter/adjust", &adjustment);
    assert_eq!(status, 200);
    let mut client = setup.store.server.client();
    let event = json!({ "etype": "note", "eid": "42", "metric": "none", "delta": 42, "uid": "9" });
    let derived = json!({ "adds": [["9", "none", 42]] });
    for (kind, payload) in [("e", &event), ("d", &derived)] {
        let payload = payload.to_string();
        client.call(&["XADD", "x:cnt-update:14", "0-*", kind, &payload]);
    }
    let letters = |client: &mut countint_tests::Client| {
        let entries = reply::array(client.ok("XRANGE x:cnt-update:dead - +")).into_iter();
        // The payload is the third field.
        let payload = |entry| reply::array(reply::array(entry)[1].clone())[5].clone();
        entries.map(payload).map(reply::text).collect::<Vec<_>>()
    };
    wait_until("they are dead letters", || {
        reply::int(client.ok("XLEN x:cnt-update:dead")) == 2
    });
    let before = letters(&mut client);
    let announced = reply::int(client.ok("XLEN x:changes"));
    assert!(announced > 0);
    setup.erase("/user/42");
    assert_eq!(letters(&mut client), before);
    assert_eq!(reply::int(client.ok("XLEN x:changes")), announced);
    let mut entries = reply::array(client.ok("XRANGE x:audit:cntfix - +"));
    let entry = reply::array(entries.pop().expect("an entry"));
    let fields = reply::array(entry[1].clone()).into_iter().map(reply::text);
    let fields: Vec<String> = fields.collect();
    let field = |name: &str| {
        let at = fields.iter().step_by(2).position(|field| field == name);
        fields[2 * at.expect("a field") + 1].clone()
    };
    assert_eq!((field("after"), field("eid")), ("42".into(), "42".into()));
    assert_eq!(field("reason"), "as erased asked");
}

/// The stream of changes stays when announcements are disabled.
#[test]
fn announcements_from_before_they_were_disabled_are_removed() {
    let config = format!("{CONFIG}[changes]\nenabled = true\n");
    let mut setup = Setup::new(module(), &config);
    users::act(&setup, users::ERASED);
    setup.drain();
    setup.countd.kill();
    setup.countd = Countd::start(&setup.store.server, CONFIG);
    setup.api = setup.countd.api();
    let mut client = setup.store.server.client();
    let found = super::search::holders(&mut client, users::ERASED);
    let is_announced = found.iter().any(|holder| holder.starts_with("x:changes"));
    assert!(is_announced, "{found:#?}");
    setup.erase(&format!("/user/{}", users::ERASED));
    let found = super::search::holders(&mut client, users::ERASED);
    assert!(found.is_empty(), "{found:#?}");
    assert_invariants(&setup.store.server, CONFIG);
}

/// A node whose keys were visited before a slot moved to it.
#[test]
fn the_keys_of_an_entity_are_searched_twice_in_a_cluster() {
    let store = cluster();
    set_schema(&store.server, CONFIG);
    let start = |command| {
        let config = CONFIG;
        Countd::with(&store.server, &Settings { command, config })
    };
    let (serve, mut consume) = (start("serve"), start("consume"));
    let api = serve.api();
    let read = json!({ "etype": "note", "eid": 1, "uid": 42, "idempotencyKey": "k-1" });
    api.act("read", read);
    wait_until_drained(&store.server, PARTITIONS);
    consume.stop();
    let mut client = store.server.client();
    let mut keys = || reply::array(client.call(&["KEYS", "act:dedup:note:1:*"])).len();
    assert_eq!(keys(), 1);
    let (_, job) = api.delete("/entity/note/1");
    let id = job["id"].as_str().expect("an ID");
    let visited = format!("{}=done", store.server.client().info("server")["run_id"]);
    let job = format!("countd:{{jobs}}:{id}");
    let set = ["HSET", &job, "step", "keys", "scan", &visited];
    store.server.client().call(&set);
    consume.launch();
    wait_until_done(&api, &format!("/jobs/{id}"));
    assert_eq!(keys(), 0);
}

#[test]
fn a_damaged_job_does_not_stop_the_others() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let start = |command| {
        let config = CONFIG;
        Countd::with(&server, &Settings { command, config })
    };
    let serve = start("serve");
    let api = serve.api();
    // Few jobs are listed in the order in which they were started.
    let [damaged, other] = [1, 2].map(|eid| {
        let (status, job) = api.delete(&format!("/entity/note/{eid}"));
        assert_eq!(status, 202, "{job}");
        job["id"].as_str().expect("an ID").to_owned()
    });
    server
        .client()
        .call(&["SET", &format!("countd:{{jobs}}:{damaged}"), "x"]);
    let consume = start("consume");
    wait_until_done(&api, &format!("/jobs/{other}"));
    let warning = format!("\"{damaged}\"");
    let log = consume.log();
    let mut lines = log.lines();
    assert!(
        lines.any(|line| line.contains("cannot be run now") && line.contains(&warning)),
        "{log}"
    );
}
