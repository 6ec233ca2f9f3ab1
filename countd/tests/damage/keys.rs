//! Keys of another type, and keys with damaged values.

use super::{
    CONFIG, P, PARTITIONS, assert_failure_reported, gauge, healthy_partitions, note_in, read_event,
    send_reads, start, wait_until_read, wait_until_recovered,
};
use crate::support::stores::{TestStore, cluster, for_each_store};
use crate::support::{dead_reasons, metric, on_note, printed, run, wait_until_drained, with};
use countint_tests::{reply, wait_until};
use serde_json::json;

fn a_log_of_another_type_fails_only_its_partition(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    send_reads(&api, 0..PARTITIONS, 3);
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, 3));
    let log = store.log(P);
    client.ok(&format!("RENAME {log} {log}:aside"));
    client.ok(&format!("SET {log} str"));
    assert_failure_reported(&store, &countd, P, "is not a stream");
    wait_until("the lag is unknown", || {
        gauge(&api, "countd_lag_events").is_none()
    });
    assert_eq!(gauge(&api, "countd_lag_seconds"), None);
    send_reads(&api, healthy_partitions(), 5);
    healthy_partitions().for_each(|partition| wait_until_read(&api, partition, 8));
    let (status, response) = api.post("/action/read", &on_note(note_in(P), 1));
    assert_eq!(status, 500, "the action is not acknowledged: {response}");
    // The operator restores the log.
    client.ok(&format!("DEL {log}"));
    client.ok(&format!("RENAME {log}:aside {log}"));
    wait_until_recovered(&store, &countd);
    send_reads(&api, [P], 4);
    wait_until_read(&api, P, 7);
    // The operator deletes the key instead: all entries were counted, and counting continues at the position.
    client.ok(&format!("SET {log} str"));
    assert_failure_reported(&store, &countd, P, "is not a stream");
    client.ok(&format!("DEL {log}"));
    wait_until_recovered(&store, &countd);
    send_reads(&api, [P], 5);
    wait_until_read(&api, P, 12);
}

fn a_damaged_position_fails_only_its_partition(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    send_reads(&api, 0..PARTITIONS, 3);
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, 3));
    let positions = store.positions(P);
    let mut expected = 3;
    for damage in ["text", "-1", "04", "4.0", "18446744073709551616", "\"\""] {
        client.ok(&format!("HSET {positions} {P} {damage}"));
        assert_failure_reported(&store, &countd, P, "is not an offset");
        send_reads(&api, 0..PARTITIONS, 2);
        healthy_partitions().for_each(|partition| wait_until_read(&api, partition, expected + 2));
        assert_eq!(api.counts(note_in(P))["read"], expected, "{damage}");
        client.ok(&format!("HSET {positions} {P} {}", expected + 1));
        expected += 2;
        wait_until_read(&api, P, expected);
        wait_until_recovered(&store, &countd);
    }
    // The old position is lost: the operator provides the first offset that is not counted.
    client.ok(&format!("HSET {positions} {P} text"));
    assert_failure_reported(&store, &countd, P, "is not an offset");
    send_reads(&api, 0..PARTITIONS, 2);
    let first = (expected + 1).to_string();
    let p = P.to_string();
    let reset = ["log", "reset", &p, "--uncounted", &first];
    let output = printed(&run(&store.server, CONFIG, &reset));
    assert!(output.contains("2 entries to be counted"), "{output}");
    wait_until_read(&api, P, expected + 2);
    wait_until_recovered(&store, &countd);
    // The whole hash is damaged. Without hash tags it holds all partitions.
    client.ok(&format!("RENAME {positions} {positions}:aside"));
    client.ok(&format!("SET {positions} text"));
    assert_failure_reported(&store, &countd, P, "is not a hash");
    send_reads(&api, 0..PARTITIONS, 1);
    client.ok(&format!("DEL {positions}"));
    client.ok(&format!("RENAME {positions}:aside {positions}"));
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, expected + 3));
    wait_until_recovered(&store, &countd);
    assert_eq!(dead_reasons(&store.server, CONFIG), Vec::<String>::new());
}

/// A poison message whose dead letter cannot be written blocks only its own partition.
fn a_damaged_dead_letter_stream_blocks_only_its_partition(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    let (log, dead) = (store.log(P), store.dead(P));
    let (mut expected, mut dead_total) = (0, 0);
    let used_up = format!("XADD {dead} 18446744073709551615-18446744073709551615 f v");
    for (damage, reason) in [
        (format!("SET {dead} text"), "is not a stream"),
        (used_up, "has used up its IDs"),
    ] {
        client.ok(&format!("DEL {dead}"));
        client.ok(&damage);
        send_reads(&api, 0..PARTITIONS, 2);
        (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, expected + 2));
        client.call(&["XADD", &log, "0-*", "e", "{"]);
        client.call(&["XADD", &log, "0-*", "d", "{\"adds\":[[1]]}"]);
        send_reads(&api, 0..PARTITIONS, 2);
        healthy_partitions().for_each(|partition| wait_until_read(&api, partition, expected + 4));
        assert_failure_reported(&store, &countd, P, reason);
        assert_eq!(api.counts(note_in(P))["read"], expected + 2);
        wait_until("the lag is known", || {
            gauge(&api, "countd_lag_events") == Some(4.0)
        });
        client.ok(&format!("RENAME {dead} {dead}:aside"));
        wait_until_read(&api, P, expected + 4);
        wait_until_recovered(&store, &countd);
        dead_total += 2;
        expected += 4;
        let reasons = dead_reasons(&store.server, CONFIG);
        assert_eq!(reasons.len(), 2, "{reasons:?}");
    }
    assert_eq!(metric(&api, "countd_events_dead_total"), dead_total);
}

/// A derived event with a malformed source has no fence, so it may be a duplicate.
fn a_derived_event_with_a_malformed_source_is_a_dead_letter(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    let log = store.log(TestStore::partition("7", PARTITIONS));
    let sources = [
        r#""from":"x","seq":1,"#,
        r#""from":1,"seq":"1","#,
        r#""from":1,"seq":-1,"#,
        r#""from":1,"seq":0,"#,
        r#""from":1,"seq":1.5,"#,
        r#""from":1,"seq":18446744073709551615,"#,
        r#""from":4,"seq":1,"#,
        r#""from":70000,"seq":1,"#,
        r#""from":1,"#,
        r#""seq":1,"#,
        r#""from":null,"seq":null,"#,
    ];
    for source in sources {
        let event = format!("{{{source}\"adds\":[[\"7\",\"posts\",1]]}}");
        client.call(&["XADD", &log, "0-*", "d", &event]);
    }
    // A duplicate with a valid source changes nothing.
    let valid = r#"{"from":1,"seq":1,"adds":[["7","posts",100]]}"#;
    for _ in 0..2 {
        client.call(&["XADD", &log, "0-*", "d", valid]);
        wait_until_drained(&store.server, PARTITIONS);
    }
    assert_eq!(api.user(7)["posts"], 100);
    let reasons = dead_reasons(&store.server, CONFIG);
    assert_eq!(reasons.len(), sources.len(), "{reasons:?}");
    assert!(
        reasons
            .iter()
            .all(|reason| reason.starts_with("malformed: ")),
        "{reasons:?}"
    );
}

/// A consumer without an assignment does not know the lag.
fn a_damaged_list_of_consumers_is_reported(store: TestStore) {
    let mut client = store.server.client();
    client.ok("SET countd:consumers text");
    let countd = start(&store);
    let api = countd.api();
    wait_until("readyz reports it", || {
        let (status, response) = api.get("/readyz");
        status == 503 && response["code"] == "not_counting"
    });
    for partition in 0..PARTITIONS {
        api.act("read", on_note(note_in(partition), 1));
    }
    assert_eq!(gauge(&api, "countd_lag_events"), None);
    assert_eq!(gauge(&api, "countd_lag_seconds"), None);
    client.ok("DEL countd:consumers");
    (0..PARTITIONS).for_each(|partition| wait_until_read(&api, partition, 1));
    wait_until_recovered(&store, &countd);
}

/// An outbox that cannot be written blocks only its partition.
fn a_damaged_outbox_fails_only_its_partition(store: TestStore) {
    let countd = start(&store);
    let api = countd.api();
    let mut client = store.server.client();
    let outbox = format!("{}:out", store.log(P));
    client.ok(&format!("SET {outbox} text"));
    assert_failure_reported(&store, &countd, P, "is not a stream");
    let like = |partition: u16| with(on_note(note_in(partition), 1), json!({ "author": 7 }));
    for partition in 0..PARTITIONS {
        api.act("like", like(partition));
    }
    send_reads(&api, healthy_partitions(), 2);
    healthy_partitions().for_each(|partition| wait_until_read(&api, partition, 2));
    // The logs of healthy partitions are still acknowledged and trimmed, after 1000 entries.
    let busy = healthy_partitions().next().expect("a healthy partition");
    let (log, read) = (store.log(busy), read_event(note_in(busy)));
    client.pipeline(&vec![vec!["XADD", &log, "0-*", "e", &read]; 1_500]);
    wait_until_read(&api, busy, 1_502);
    wait_until("committed entries are trimmed", || {
        reply::int(client.ok(&format!("XLEN {log}"))) < 1_000
    });
    assert_failure_reported(&store, &countd, P, "is not a stream");
    client.ok(&format!("DEL {outbox}"));
    wait_until_recovered(&store, &countd);
    wait_until("users are counted", || {
        api.user(7)["likesReceived"] == u64::from(PARTITIONS)
    });
}

#[test]
fn a_damaged_outbox_in_cluster_mode_fails_only_its_partition() {
    a_damaged_outbox_fails_only_its_partition(cluster());
}

for_each_store!([module plain cluster]
    a_log_of_another_type_fails_only_its_partition
    a_damaged_position_fails_only_its_partition
    a_damaged_dead_letter_stream_blocks_only_its_partition
    a_derived_event_with_a_malformed_source_is_a_dead_letter
    a_damaged_list_of_consumers_is_reported
);
