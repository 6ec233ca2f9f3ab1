//! Logs whose IDs and positions do not fit.

use super::{
    CONFIG, IDS, P, PARTITIONS, has_recovered, is_named, is_read, note_of, others, read_event,
    reads, start,
};
use crate::support::worlds::{World, on_each};
use crate::support::{
    Countd, dead_reasons, on_note, printed, run, set_schema, wait_until_all_drained,
    wait_until_drained, with,
};
use countint_tests::{Cluster, reply, wait_until};
use serde_json::{Value as Json, json};

fn actions_behind_any_foreign_id_are_counted(world: World) {
    let countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    let (log, eid) = (world.log(P), note_of(P));
    let (mut expected, mut liked) = (0, 0);
    for (round, id) in (0..).zip(IDS) {
        client.call(&["XADD", &log, id, "e", &read_event(eid)]);
        reads(&api, [P], 2);
        client.call(&["XADD", &log, "*", "e", &read_event(eid)]);
        api.act("like", with(on_note(eid, round), json!({ "author": 7 })));
        expected += 4;
        liked += 1;
        is_read(&api, P, expected);
        // Only the last ID of the log, without an entry.
        client.ok(&format!("XSETID {log} {id}"));
        reads(&api, [P], 3);
        expected += 3;
        is_read(&api, P, expected);
        wait_until("users are counted", || {
            api.user(7)["likesReceived"] == liked
        });
        assert_eq!(api.counts(eid)["like"], liked, "{id}");
    }
    has_recovered(&world, &countd);
    let position = reply::text(client.ok(&format!("HGET {} {P}", world.positions(P))));
    let position: u64 = position.parse().expect("a number");
    assert!(position < 1_000, "offsets are not used up: {position}");
    assert_eq!(dead_reasons(&world.server, CONFIG), Vec::<String>::new());
}

/// An append to several logs that one of them refuses is taken back from the others, and a mark that a hook made void, too.
fn an_entry_that_was_taken_back_does_not_wait(world: World) {
    let countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    let (log, positions) = (world.log(P), world.positions(P));
    reads(&api, 0..PARTITIONS, 3);
    (0..PARTITIONS).for_each(|partition| is_read(&api, partition, 3));
    client.ok("MULTI");
    client.ok(&format!("XADD {log} 0-4 e taken-back"));
    client.ok(&format!("XDEL {log} 0-4"));
    client.ok("EXEC");
    // So that it is looked at again.
    client.ok(&format!("HSET {positions} {P} text"));
    is_named(&world, &countd, P, "is no offset");
    client.ok(&format!("HSET {positions} {P} 4"));
    has_recovered(&world, &countd);
    reads(&api, [P], 2);
    is_read(&api, P, 5);
    has_recovered(&world, &countd);
}

/// What a version had done that took such an ID for an offset.
fn a_log_that_has_used_up_its_offsets_is_reset(world: World) {
    let mut countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    reads(&api, [P], 3);
    is_read(&api, P, 3);
    countd.stop();
    let (log, positions) = (world.log(P), world.positions(P));
    client.call(&["XADD", &log, "0-9007199254740991", "e", &read_event(1)]);
    client.ok(&format!("HSET {positions} {P} 9007199254740992"));
    let eid = note_of(P);
    client.call(&["XADD", &log, "0-*", "e", &read_event(eid)]);
    countd.launch();
    is_named(&world, &countd, P, "end of the range of offsets");
    reads(&countd.api(), 0..PARTITIONS, 2);
    is_read(&countd.api(), others().next().expect("another"), 2);
    let p = P.to_string();
    let reset = ["log", "reset", &p, "--uncounted", "9007199254740992"];
    printed(&run(&world.server, CONFIG, &reset));
    is_read(&countd.api(), P, 6);
    has_recovered(&world, &countd);
}

fn all_data_may_go_while_it_runs(world: World) {
    let countd = start(&world);
    let api = countd.api();
    reads(&api, 0..PARTITIONS, 20);
    (0..PARTITIONS).for_each(|partition| is_read(&api, partition, 20));
    world.server.client().ok("FLUSHALL");
    set_schema(&world.server, CONFIG);
    // Fewer than before: no log comes near its old position.
    reads(&api, 0..PARTITIONS, 5);
    (0..PARTITIONS).for_each(|partition| is_read(&api, partition, 5));
    has_recovered(&world, &countd);
}

fn a_log_that_is_deleted_goes_on_behind_its_position(world: World) {
    let countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    let (log, p) = (world.log(P), P.to_string());
    reads(&api, 0..PARTITIONS, 20);
    (0..PARTITIONS).for_each(|partition| is_read(&api, partition, 20));
    // Nothing is appended before it is noticed.
    client.ok(&format!("DEL {log}"));
    wait_until("it goes on behind its position", || {
        client.run(&format!("EXISTS {log}")) == "(integer) 1"
    });
    reads(&api, [P], 3);
    is_read(&api, P, 23);
    has_recovered(&world, &countd);
    // Something is: whether it was counted only an operator knows.
    let appended = |count: usize| {
        let mut words = vec![vec!["MULTI".to_owned()]];
        words.push(vec!["DEL".to_owned(), log.clone()]);
        for _ in 0..count {
            let entry = ["XADD", &log, "0-*", "e", &read_event(note_of(P))];
            words.push(entry.map(str::to_owned).to_vec());
        }
        words.push(vec!["EXEC".to_owned()]);
        words
    };
    client.pipeline(&appended(4));
    is_named(&world, &countd, P, "is beyond the end of its log");
    let refused = api.answer("/action/read", &[], Some(&on_note(note_of(P), 1)));
    assert_eq!((refused.status, refused.retry_after), (503, Some(1)));
    // In a request with actions on other partitions, too, of which none is refused.
    let lines = [0, P, 1].map(|partition| {
        with(on_note(note_of(partition), 77), json!({ "metric": "like" })).to_string()
    });
    let (status, results) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("an answer");
    let results: Vec<&str> = results.lines().collect();
    assert_eq!(status, 200);
    let is_done: Vec<bool> = results
        .iter()
        .map(|line| line.contains("\"changed\":true"))
        .collect();
    assert_eq!(is_done, [true, false, true], "{results:?}");
    assert!(results[1].contains("unavailable"), "{results:?}");
    reads(&api, others(), 1);
    others().for_each(|partition| is_read(&api, partition, 21));
    let listed = printed(&run(&world.server, CONFIG, &["log", "list"]));
    let listed: Json = serde_json::from_str(&listed).expect("one line of JSON");
    assert_eq!(listed["partition"], P);
    let reset = ["log", "reset", &p, "--uncounted", "all"];
    let dry = printed(&run(
        &world.server,
        CONFIG,
        &[&reset[..], &["--dry-run"]].concat(),
    ));
    assert!(
        dry.contains("all 4 entries of its log would be counted"),
        "{dry}"
    );
    assert_eq!(api.get("/readyz").0, 503, "nothing was done");
    let said = printed(&run(&world.server, CONFIG, &reset));
    assert!(said.contains("4 entries to be counted"), "{said}");
    is_read(&api, P, 27);
    has_recovered(&world, &countd);
    reads(&api, [P], 2);
    is_read(&api, P, 29);
    // The operator knows that they were counted; more of them than a step moves.
    client.pipeline(&appended(5));
    is_named(&world, &countd, P, "is beyond the end of its log");
    let none = ["log", "reset", &p, "--uncounted", "none"];
    printed(&run(&world.server, CONFIG, &none));
    has_recovered(&world, &countd);
    reads(&api, [P], 1);
    is_read(&api, P, 30);
    let refused = run(&world.server, CONFIG, &reset);
    assert!(!refused.status.success(), "a sound partition is not reset");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is healthy"));
    assert!(
        !run(
            &world.server,
            CONFIG,
            &["log", "reset", "4", "--uncounted", "all"]
        )
        .status
        .success()
    );
    wait_until_drained(&world.server, PARTITIONS);
}

/// On each node of a cluster something is damaged.
#[test]
fn nodes_of_a_cluster_go_on_beside_damaged_partitions() {
    let cluster = Cluster::start();
    let countd = Countd::start(&cluster.nodes[0], CONFIG);
    let api = countd.api();
    reads(&api, 0..PARTITIONS, 3);
    (0..PARTITIONS).for_each(|partition| is_read(&api, partition, 3));
    let log = format!("x:cnt-update:{{{P}}}");
    let mut client = cluster.node_of(&log).client();
    client.ok(&format!("SET {log} text"));
    wait_until("it is named", || {
        api.get("/readyz").1["error"]["partitions"][0]["partition"] == P
    });
    reads(&api, others(), 2);
    others().for_each(|partition| is_read(&api, partition, 5));
    client.ok(&format!("DEL {log}"));
    wait_until("it goes on", || api.get("/readyz").0 == 200);
    reads(&api, [P], 2);
    is_read(&api, P, 5);
    client.pipeline(&[
        vec!["MULTI".to_owned()],
        vec!["DEL".to_owned(), log.clone()],
        ["XADD", &log, "0-*", "e", &read_event(note_of(P))]
            .map(str::to_owned)
            .to_vec(),
        vec!["EXEC".to_owned()],
    ]);
    wait_until("it is named", || api.get("/readyz").0 == 503);
    let p = P.to_string();
    printed(&run(
        &cluster.nodes[0],
        CONFIG,
        &["log", "reset", &p, "--uncounted", "all"],
    ));
    is_read(&api, P, 6);
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
}

on_each!([module plain cluster]
    actions_behind_any_foreign_id_are_counted
    a_log_that_has_used_up_its_offsets_is_reset
    all_data_may_go_while_it_runs
    an_entry_that_was_taken_back_does_not_wait
    a_log_that_is_deleted_goes_on_behind_its_position
);
