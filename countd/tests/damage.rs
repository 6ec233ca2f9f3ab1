//! Damaged keys: a partition fails alone, is named, and goes on once its keys are repaired; nothing that was acknowledged is lost or
//! counted twice.

use crate::support::compare::compare;
use crate::support::workload::{Progress, Random, Size, play};
use crate::support::worlds::{World, cluster, module, on_each};
use crate::support::{
    Api, Countd, dead_reasons, metric, on_note, pause, printed, run, set_schema,
    wait_until_all_drained, wait_until_drained, with,
};
use countint_tests::{Client, Cluster, reply, wait_until};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 4;
const CONFIG: &str =
    "[log]\npartitions = 4\nretain = 10\n[consumer]\nlinger_ms = 5\ndead_after_ms = 500\n";
/// The partition that is damaged.
const P: u16 = 2;

fn start(world: &World) -> Countd {
    Countd::start(&world.server, CONFIG)
}

/// A note of a partition.
fn note_of(partition: u16) -> u64 {
    let mut notes = 1..;
    let found = notes.find(|eid| World::partition(&format!("note:{eid}"), PARTITIONS) == partition);
    found.expect("there are many")
}

/// So many reads of a note of each of these partitions.
fn reads(api: &Api, partitions: impl IntoIterator<Item = u16>, count: u64) {
    for partition in partitions {
        for uid in 0..count {
            api.act("read", on_note(note_of(partition), uid));
        }
    }
}

fn read_event(eid: u64) -> String {
    with(on_note(eid, 9), json!({ "metric": "read", "delta": 1 })).to_string()
}

#[track_caller]
fn is_read(api: &Api, partition: u16, count: u64) {
    let eid = note_of(partition);
    wait_until(
        &format!("{count} reads of partition {partition} are counted"),
        || api.counts(eid)["read"] == count,
    );
}

/// Those that are not damaged.
fn others() -> impl Iterator<Item = u16> {
    (0..PARTITIONS).filter(|partition| *partition != P)
}

/// A gauge as it is shown, if it is.
fn gauge(api: &Api, name: &str) -> Option<f64> {
    let (_, text) = api.get("/metrics");
    let mut lines = text.as_str().expect("a text").lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| value.parse().expect("a number"))
}

/// `/readyz`, `countd check`, the metric and the log name the partition and the reason.
#[track_caller]
fn is_named(world: &World, countd: &Countd, partition: u16, reason: &str) {
    let api = countd.api();
    wait_until("readyz names it", || {
        let (status, answer) = api.get("/readyz");
        let failed = &answer["error"]["partitions"];
        let is_it = |one: &Json| {
            one["partition"] == partition
                && one["reason"]
                    .as_str()
                    .is_some_and(|text| text.contains(reason))
        };
        status == 503 && failed.as_array().is_some_and(|all| all.iter().any(is_it))
    });
    let (_, answer) = api.get("/readyz");
    assert_eq!(answer["error"]["code"], "not_counting", "{answer}");
    let failed = answer["error"]["partitions"].as_array().map(Vec::len);
    wait_until("the metric counts it", || {
        gauge(&api, "countd_partitions_failed") == failed.map(|count| count as f64)
    });
    let log = countd.log();
    let mut lines = log.lines();
    let is_line = |line: &str| {
        line.contains("a partition has failed")
            && line.contains(&format!("\"partition\":{partition}"))
    };
    assert!(lines.any(is_line), "{log}");
    let checked = run(&world.server, CONFIG, &["check"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(!checked.status.success(), "{said}");
    assert!(said.contains(reason), "{reason}: {said}");
}

#[track_caller]
fn has_recovered(world: &World, countd: &Countd) {
    let api = countd.api();
    wait_until("it is ready again", || api.get("/readyz").0 == 200);
    wait_until("nothing waits", || {
        gauge(&api, "countd_lag_events") == Some(0.0)
    });
    assert_eq!(gauge(&api, "countd_partitions_failed"), Some(0.0));
    let checked = printed(&run(&world.server, CONFIG, &["check"]));
    assert!(checked.contains("partitions: ok"), "{checked}");
}

fn a_log_of_another_type_fails_its_partition_alone(world: World) {
    let countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    reads(&api, 0..PARTITIONS, 3);
    (0..PARTITIONS).for_each(|partition| is_read(&api, partition, 3));
    let log = world.log(P);
    client.ok(&format!("RENAME {log} {log}:aside"));
    client.ok(&format!("SET {log} str"));
    is_named(&world, &countd, P, "is no stream");
    wait_until("the lag is unknown", || {
        gauge(&api, "countd_lag_events").is_none()
    });
    assert_eq!(gauge(&api, "countd_lag_seconds"), None);
    reads(&api, others(), 5);
    others().for_each(|partition| is_read(&api, partition, 8));
    let (status, answer) = api.post("/action/read", &on_note(note_of(P), 1));
    assert_eq!(status, 500, "nothing is acknowledged: {answer}");
    // What it was comes back.
    client.ok(&format!("DEL {log}"));
    client.ok(&format!("RENAME {log}:aside {log}"));
    has_recovered(&world, &countd);
    reads(&api, [P], 4);
    is_read(&api, P, 7);
    // It does not: nothing of it waited, and counting goes on behind it.
    client.ok(&format!("SET {log} str"));
    is_named(&world, &countd, P, "is no stream");
    client.ok(&format!("DEL {log}"));
    has_recovered(&world, &countd);
    reads(&api, [P], 5);
    is_read(&api, P, 12);
}

fn a_damaged_position_fails_its_partition_alone(world: World) {
    let countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    reads(&api, 0..PARTITIONS, 3);
    (0..PARTITIONS).for_each(|partition| is_read(&api, partition, 3));
    let positions = world.positions(P);
    let mut expected = 3;
    for damage in ["text", "-1", "04", "4.0", "18446744073709551616", "\"\""] {
        client.ok(&format!("HSET {positions} {P} {damage}"));
        is_named(&world, &countd, P, "is no offset");
        reads(&api, 0..PARTITIONS, 2);
        others().for_each(|partition| is_read(&api, partition, expected + 2));
        assert_eq!(api.counts(note_of(P))["read"], expected, "{damage}");
        client.ok(&format!("HSET {positions} {P} {}", expected + 1));
        expected += 2;
        is_read(&api, P, expected);
        has_recovered(&world, &countd);
    }
    // Nobody knows the old one: what has not been counted is named by its offset.
    client.ok(&format!("HSET {positions} {P} text"));
    is_named(&world, &countd, P, "is no offset");
    reads(&api, 0..PARTITIONS, 2);
    let first = (expected + 1).to_string();
    let p = P.to_string();
    let reset = ["log", "reset", &p, "--uncounted", &first];
    let said = printed(&run(&world.server, CONFIG, &reset));
    assert!(said.contains("2 entries to be counted"), "{said}");
    is_read(&api, P, expected + 2);
    has_recovered(&world, &countd);
    // The whole hash: without hash tags it is that of all partitions.
    client.ok(&format!("RENAME {positions} {positions}:aside"));
    client.ok(&format!("SET {positions} text"));
    is_named(&world, &countd, P, "is no hash");
    reads(&api, 0..PARTITIONS, 1);
    client.ok(&format!("DEL {positions}"));
    client.ok(&format!("RENAME {positions}:aside {positions}"));
    (0..PARTITIONS).for_each(|partition| is_read(&api, partition, expected + 3));
    has_recovered(&world, &countd);
    assert_eq!(dead_reasons(&world.server, CONFIG), Vec::<String>::new());
}

/// An event that cannot be counted and has no place to go holds up what is behind it in its partition, and nothing else.
fn a_damaged_stream_of_dead_letters_holds_up_no_other_partition(world: World) {
    let countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    let (log, dead) = (world.log(P), world.dead(P));
    let (mut expected, mut died) = (0, 0);
    let used_up = format!("XADD {dead} 18446744073709551615-18446744073709551615 f v");
    for (damage, reason) in [
        (format!("SET {dead} text"), "is no stream"),
        (used_up, "has used up its IDs"),
    ] {
        client.ok(&format!("DEL {dead}"));
        client.ok(&damage);
        reads(&api, 0..PARTITIONS, 2);
        (0..PARTITIONS).for_each(|partition| is_read(&api, partition, expected + 2));
        client.call(&["XADD", &log, "0-*", "e", "{"]);
        client.call(&["XADD", &log, "0-*", "d", "{\"adds\":[[1]]}"]);
        reads(&api, 0..PARTITIONS, 2);
        others().for_each(|partition| is_read(&api, partition, expected + 4));
        is_named(&world, &countd, P, reason);
        assert_eq!(api.counts(note_of(P))["read"], expected + 2);
        wait_until("the lag is known", || {
            gauge(&api, "countd_lag_events") == Some(4.0)
        });
        client.ok(&format!("RENAME {dead} {dead}:aside"));
        is_read(&api, P, expected + 4);
        has_recovered(&world, &countd);
        died += 2;
        expected += 4;
        let reasons = dead_reasons(&world.server, CONFIG);
        assert_eq!(reasons.len(), 2, "{reasons:?}");
    }
    assert_eq!(metric(&api, "countd_events_dead_total"), died);
}

/// IDs that leave no offsets behind them, or none that can be counted in.
const IDS: [&str; 10] = [
    "0-9007199254740991",
    "0-9007199254740992",
    "0-1099511627775",
    "0-1099511627774",
    "0-18446744073709551614",
    "0-18446744073709551615",
    "5-0",
    "18446744073709551615-1",
    // That of a log that is closed.
    "18446744073709551615-13834321097531834207",
    "18446744073709551615-18446744073709551615",
];

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
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is sound"));
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

/// A derived event whose source cannot be read has no fence: it may be one that was counted.
fn a_derived_event_with_a_malformed_source_is_a_dead_letter(world: World) {
    let countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    let log = world.log(World::partition("7", PARTITIONS));
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
    // Of one that is sound a repeat changes nothing.
    let sound = r#"{"from":1,"seq":1,"adds":[["7","posts",100]]}"#;
    for _ in 0..2 {
        client.call(&["XADD", &log, "0-*", "d", sound]);
        wait_until_drained(&world.server, PARTITIONS);
    }
    assert_eq!(api.user(7)["posts"], 100);
    let reasons = dead_reasons(&world.server, CONFIG);
    assert_eq!(reasons.len(), sources.len(), "{reasons:?}");
    assert!(
        reasons
            .iter()
            .all(|reason| reason.starts_with("malformed: ")),
        "{reasons:?}"
    );
}

/// An outbox that cannot be written holds up its partition alone.
fn a_damaged_outbox_fails_its_partition_alone(world: World) {
    let countd = start(&world);
    let api = countd.api();
    let mut client = world.server.client();
    let outbox = format!("{}:out", world.log(P));
    client.ok(&format!("SET {outbox} text"));
    is_named(&world, &countd, P, "is no stream");
    let like = |partition: u16| with(on_note(note_of(partition), 1), json!({ "author": 7 }));
    for partition in 0..PARTITIONS {
        api.act("like", like(partition));
    }
    reads(&api, others(), 2);
    others().for_each(|partition| is_read(&api, partition, 2));
    client.ok(&format!("DEL {outbox}"));
    has_recovered(&world, &countd);
    wait_until("users are counted", || {
        api.user(7)["likesReceived"] == u64::from(PARTITIONS)
    });
}

/// Damages a partition in a way in which nothing is lost, waits a moment, and repairs it as an operator does.
fn damage(
    (world, api): (&World, &Api),
    client: &mut Client,
    random: &mut Random,
    progress: &Progress,
) {
    let partition = random.below(u64::from(PARTITIONS)) as u16;
    let (log, positions) = (world.log(partition), world.positions(partition));
    let dead = world.dead(partition);
    let id = IDS[random.below(IDS.len() as u64) as usize];
    match random.below(5) {
        0 => {
            let words =
                format!("MULTI|HGET {positions} {partition}|HSET {positions} {partition} x|EXEC");
            let words: Vec<Vec<&str>> = words
                .split('|')
                .map(|line| line.split(' ').collect())
                .collect();
            let replies = client.pipeline(&words);
            let old = reply::array(replies[3].clone()).swap_remove(0);
            pause();
            match old {
                countint_tests::Value::Nil => client.ok(&format!("HDEL {positions} {partition}")),
                old => client.ok(&format!(
                    "HSET {positions} {partition} {}",
                    reply::text(old)
                )),
            };
        }
        1 => {
            client.run(&format!("SET {dead} text"));
            client.call(&["XADD", &log, "0-*", "e", "{"]);
            pause();
            client.ok(&format!("DEL {dead}"));
        }
        // Those that are not beyond its last ID are refused.
        2 => drop(client.run(&format!("XADD {log} {id} note to-self"))),
        3 => drop(client.run(&format!("XSETID {log} {id}"))),
        _ => {
            progress.in_silence(|| {
                // Of what waits nothing would be left.
                repair(world, api);
                wait_until_drained(&world.server, PARTITIONS);
                client.run(&format!("DEL {log}"));
            });
        }
    }
}

/// Resets what begins again, as an operator does who has deleted a log of which nothing waited.
fn reset_failed(world: &World) {
    let listed = printed(&run(&world.server, CONFIG, &["log", "list"]));
    for line in listed.lines() {
        let failed: Json = serde_json::from_str(line).expect("JSON");
        if failed["reason"]
            .as_str()
            .is_some_and(|why| why.contains("log reset"))
        {
            let partition = failed["partition"].to_string();
            // A consumer may have been quicker.
            run(
                &world.server,
                CONFIG,
                &["log", "reset", &partition, "--uncounted", "all"],
            );
        }
    }
}

fn repair(world: &World, api: &Api) {
    wait_until("all is repaired", || {
        reset_failed(world);
        api.get("/readyz").0 == 200
    });
}

fn what_is_acknowledged_counts_once_whatever_is_damaged(world: &World) {
    let config = format!("{CONFIG}[limits]\nuser = {{ per_second = 100000, burst = 1000000 }}\n");
    // No log that begins again comes near its position before that is noticed.
    let mut client = world.server.client();
    for partition in 0..PARTITIONS {
        client.ok(&format!(
            "HSET {} {partition} 100001",
            world.positions(partition)
        ));
    }
    let countd = Countd::start(&world.server, &config);
    let api = countd.api();
    let size = Size {
        clients: 4,
        users: 10,
        notes: 60,
        each: 500,
        batch: 10,
    };
    let mut random = Random(11);
    let model = play(std::slice::from_ref(&api), 7, size, |progress| {
        for round in 0..40 {
            progress.wait_for(round * size.total() / 40);
            damage((world, &api), &mut client, &mut random, progress);
            reset_failed(world);
        }
    });
    repair(world, &api);
    wait_until_drained(&world.server, PARTITIONS);
    compare(&api, &model, size);
}

#[test]
fn the_model_holds_while_keys_are_damaged() {
    what_is_acknowledged_counts_once_whatever_is_damaged(&module());
}

#[test]
fn the_model_holds_while_keys_are_damaged_in_cluster_mode() {
    what_is_acknowledged_counts_once_whatever_is_damaged(&cluster());
}

#[test]
fn a_damaged_outbox_in_cluster_mode_fails_its_partition_alone() {
    a_damaged_outbox_fails_its_partition_alone(cluster());
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
    a_log_of_another_type_fails_its_partition_alone
    a_damaged_position_fails_its_partition_alone
    a_damaged_stream_of_dead_letters_holds_up_no_other_partition
    actions_behind_any_foreign_id_are_counted
    a_log_that_has_used_up_its_offsets_is_reset
    all_data_may_go_while_it_runs
    a_log_that_is_deleted_goes_on_behind_its_position
    a_derived_event_with_a_malformed_source_is_a_dead_letter
);
