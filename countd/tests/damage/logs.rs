//! Logs whose last IDs and positions do not match.

use super::{
    CONFIG, IDS, P, PARTITIONS, assert_failure_reported, healthy_partitions, note_in, read_event,
    send_reads, start, wait_until_read, wait_until_recovered,
};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{
    Countd, dead_reasons, on_note, printed, run, set_schema, wait_until_all_drained,
    wait_until_drained, with,
};
use countint_tests::{Cluster, reply, wait_until};
use serde_json::{Value as Json, json};

fn actions_after_any_foreign_id_are_counted(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    let (log, eid) = (store.log(P), note_in(P));
    let (mut expected, mut liked) = (0, 0);
    for (round, id) in (0..).zip(IDS) {
        client.call(&["XADD", &log, id, "e", &read_event(eid)]);
        send_reads(&api, [P], 2);
        client.call(&["XADD", &log, "*", "e", &read_event(eid)]);
        api.act("like", with(on_note(eid, round), json!({ "author": 7 })));
        expected += 4;
        liked += 1;
        wait_until_read(&api, P, expected);
        // The last ID of the log is set, without an entry.
        client.ok(&format!("XSETID {log} {id}"));
        send_reads(&api, [P], 3);
        expected += 3;
        wait_until_read(&api, P, expected);
        wait_until("users are counted", || {
            api.user(7)["likesReceived"] == liked
        });
        assert_eq!(api.counts(eid)["like"], liked, "{id}");
    }
    wait_until_recovered(&store, &countd);
    let position = reply::text(client.ok(&format!("HGET {} {P}", store.positions(P))));
    let position: u64 = position.parse().expect("a number");
    assert!(position < 1_000, "offsets are not used up: {position}");
    assert_eq!(dead_reasons(&store.server, CONFIG), Vec::<String>::new());
}

/// An append to several logs is rolled back if one of them rejects it, and so is a mark that a hook rejects.
fn an_entry_that_was_rolled_back_is_not_lag(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    let (log, positions) = (store.log(P), store.positions(P));
    send_reads(&api, 0..PARTITIONS, 3);
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, 3));
    let mut transaction = store.server.client_of(&log);
    transaction.ok("MULTI");
    transaction.ok(&format!("XADD {log} 0-4 e rolled-back"));
    transaction.ok(&format!("XDEL {log} 0-4"));
    transaction.ok("EXEC");
    // Damage makes the consumer check the partition again.
    client.ok(&format!("HSET {positions} {P} text"));
    assert_failure_reported(&store, &countd, P, "is not an offset");
    client.ok(&format!("HSET {positions} {P} 4"));
    wait_until_recovered(&store, &countd);
    send_reads(&api, [P], 2);
    wait_until_read(&api, P, 5);
    wait_until_recovered(&store, &countd);
}

/// An older version treated a foreign ID as an offset, and left this state.
fn a_log_that_has_used_up_its_offsets_is_reset(store: TestStore) {
    let mut countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    send_reads(&api, [P], 3);
    wait_until_read(&api, P, 3);
    countd.stop();
    let (log, positions) = (store.log(P), store.positions(P));
    client.call(&["XADD", &log, "0-9007199254740991", "e", &read_event(1)]);
    client.ok(&format!("HSET {positions} {P} 9007199254740992"));
    let eid = note_in(P);
    client.call(&["XADD", &log, "0-*", "e", &read_event(eid)]);
    countd.launch();
    assert_failure_reported(&store, &countd, P, "end of the range of offsets");
    send_reads(&countd.api(), 0..PARTITIONS, 2);
    wait_until_read(
        &countd.api(),
        healthy_partitions().next().expect("another"),
        2,
    );
    let p = P.to_string();
    let reset = ["log", "reset", &p, "--uncounted", "9007199254740992"];
    printed(&run(&store.server, CONFIG, &reset));
    wait_until_read(&countd.api(), P, 6);
    wait_until_recovered(&store, &countd);
}

fn all_data_can_be_deleted_while_countd_runs(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    send_reads(&api, 0..PARTITIONS, 20);
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, 20));
    store.server.client().ok("FLUSHALL");
    set_schema(&store.server, CONFIG);
    // Fewer events than before: every log ends before its old position.
    send_reads(&api, 0..PARTITIONS, 5);
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, 5));
    wait_until_recovered(&store, &countd);
}

fn a_deleted_log_continues_after_its_position(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    let (log, p) = (store.log(P), P.to_string());
    send_reads(&api, 0..PARTITIONS, 20);
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, 20));
    // The consumer detects the deletion before the next append.
    client.ok(&format!("DEL {log}"));
    wait_until("the log continues after its position", || {
        client.run(&format!("EXISTS {log}")) == "(integer) 1"
    });
    send_reads(&api, [P], 3);
    wait_until_read(&api, P, 23);
    wait_until_recovered(&store, &countd);
    // Entries are appended first: only an operator knows whether they were counted.
    let appended = |count: usize| {
        let mut args = vec![vec!["MULTI".to_owned()]];
        args.push(vec!["DEL".to_owned(), log.clone()]);
        for _ in 0..count {
            let entry = ["XADD", &log, "0-*", "e", &read_event(note_in(P))];
            args.push(entry.map(str::to_owned).to_vec());
        }
        args.push(vec!["EXEC".to_owned()]);
        args
    };
    store.server.client_of(&log).pipeline(&appended(4));
    assert_failure_reported(&store, &countd, P, "is beyond the end of its log");
    let refused = api.request("/action/read", &[], Some(&on_note(note_in(P), 1)));
    assert_eq!((refused.status, refused.retry_after), (503, Some(1)));
    // In a batch, actions on other partitions succeed.
    let lines = [0, P, 1].map(|partition| {
        with(on_note(note_in(partition), 77), json!({ "metric": "like" })).to_string()
    });
    let (status, results) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    let results: Vec<&str> = results.lines().collect();
    assert_eq!(status, 200);
    let is_done: Vec<bool> = results
        .iter()
        .map(|line| line.contains("\"changed\":true"))
        .collect();
    assert_eq!(is_done, [true, false, true], "{results:?}");
    assert!(results[1].contains("unavailable"), "{results:?}");
    send_reads(&api, healthy_partitions(), 1);
    healthy_partitions().for_each(|partition| wait_until_read(&api, partition, 21));
    let listed = printed(&run(&store.server, CONFIG, &["log", "list"]));
    let listed: Json = serde_json::from_str(&listed).expect("one line of JSON");
    assert_eq!(listed["partition"], P);
    let reset = ["log", "reset", &p, "--uncounted", "all"];
    let dry = printed(&run(
        &store.server,
        CONFIG,
        &[&reset[..], &["--dry-run"]].concat(),
    ));
    assert!(
        dry.contains("all 4 entries of its log would be counted"),
        "{dry}"
    );
    assert_eq!(api.get("/readyz").0, 503, "a dry run changes nothing");
    let output = printed(&run(&store.server, CONFIG, &reset));
    assert!(output.contains("4 entries to be counted"), "{output}");
    wait_until_read(&api, P, 27);
    wait_until_recovered(&store, &countd);
    send_reads(&api, [P], 2);
    wait_until_read(&api, P, 29);
    // The operator knows that they were counted.
    store.server.client_of(&log).pipeline(&appended(5));
    assert_failure_reported(&store, &countd, P, "is beyond the end of its log");
    let none = ["log", "reset", &p, "--uncounted", "none"];
    printed(&run(&store.server, CONFIG, &none));
    wait_until_recovered(&store, &countd);
    send_reads(&api, [P], 1);
    wait_until_read(&api, P, 30);
    let refused = run(&store.server, CONFIG, &reset);
    assert!(
        !refused.status.success(),
        "a healthy partition is not reset"
    );
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is healthy"));
    assert!(
        !run(
            &store.server,
            CONFIG,
            &["log", "reset", "4", "--uncounted", "all"]
        )
        .status
        .success()
    );
    wait_until_drained(&store.server, PARTITIONS);
}

/// A damaged log in a cluster of three nodes.
#[test]
fn a_damaged_log_in_a_cluster_fails_only_its_partition() {
    let cluster = Cluster::start();
    let countd = Countd::start(&cluster.nodes[0], CONFIG);
    let api = countd.api();
    send_reads(&api, 0..PARTITIONS, 3);
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, 3));
    let log = format!("x:cnt-update:{{{P}}}");
    let mut client = cluster.node_of(&log).client();
    client.ok(&format!("SET {log} text"));
    wait_until("readyz reports it", || {
        api.get("/readyz").1["partitions"][0]["partition"] == P
    });
    send_reads(&api, healthy_partitions(), 2);
    healthy_partitions().for_each(|partition| wait_until_read(&api, partition, 5));
    client.ok(&format!("DEL {log}"));
    wait_until("it has recovered", || api.get("/readyz").0 == 200);
    send_reads(&api, [P], 2);
    wait_until_read(&api, P, 5);
    client.pipeline(&[
        vec!["MULTI".to_owned()],
        vec!["DEL".to_owned(), log.clone()],
        ["XADD", &log, "0-*", "e", &read_event(note_in(P))]
            .map(str::to_owned)
            .to_vec(),
        vec!["EXEC".to_owned()],
    ]);
    wait_until("readyz reports it", || api.get("/readyz").0 == 503);
    let p = P.to_string();
    printed(&run(
        &cluster.nodes[0],
        CONFIG,
        &["log", "reset", &p, "--uncounted", "all"],
    ));
    wait_until_read(&api, P, 6);
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
}

for_each_store!([module plain cluster]
    actions_after_any_foreign_id_are_counted
    a_log_that_has_used_up_its_offsets_is_reset
    all_data_can_be_deleted_while_countd_runs
    an_entry_that_was_rolled_back_is_not_lag
    a_deleted_log_continues_after_its_position
);
