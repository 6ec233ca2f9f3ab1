//! Keys are damaged and repaired while clients act: acknowledged actions count once.

use super::{CONFIG, IDS, PARTITIONS};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster, module};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Progress, Random, WorkloadSize, run_clients};
use crate::support::{Api, Countd, pause, printed, run, wait_until_drained};
use countint_tests::{Client, reply, wait_until};
use serde_json::Value as Json;

/// Damages a partition without losing data, waits a moment, and repairs it like an operator.
fn damage(
    (store, api): (&TestStore, &Api),
    client: &mut Client,
    random: &mut Random,
    progress: &Progress,
) {
    let partition = random.below(u64::from(PARTITIONS)) as u16;
    let (log, positions) = (store.log(partition), store.positions(partition));
    let dead = store.dead(partition);
    let id = IDS[random.below(IDS.len() as u64) as usize];
    match random.below(5) {
        0 => {
            let args =
                format!("MULTI|HGET {positions} {partition}|HSET {positions} {partition} x|EXEC");
            let args: Vec<Vec<&str>> = args
                .split('|')
                .map(|line| line.split(' ').collect())
                .collect();
            let replies = store.server.client_of(&positions).pipeline(&args);
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
        // The server rejects IDs below the last one.
        2 => drop(client.run(&format!("XADD {log} {id} note to-self"))),
        3 => drop(client.run(&format!("XSETID {log} {id}"))),
        _ => {
            progress.while_idle(|| {
                // Deleting the log would lose waiting entries.
                repair(store, api);
                wait_until_drained(&store.server, PARTITIONS);
                client.run(&format!("DEL {log}"));
            });
        }
    }
}

/// Resets restarted logs, like an operator who deleted a log without waiting entries.
fn reset_failed(store: &TestStore) {
    let listed = printed(&run(&store.server, CONFIG, &["log", "list"]));
    for line in listed.lines() {
        let failed: Json = serde_json::from_str(line).expect("JSON");
        if failed["reason"]
            .as_str()
            .is_some_and(|error| error.contains("log reset"))
        {
            let partition = failed["partition"].to_string();
            // A consumer may have repaired it already.
            run(
                &store.server,
                CONFIG,
                &["log", "reset", &partition, "--uncounted", "all"],
            );
        }
    }
}

fn repair(store: &TestStore, api: &Api) {
    wait_until("all partitions are repaired", || {
        reset_failed(store);
        api.get("/readyz").0 == 200
    });
}

fn assert_acknowledged_actions_count_once_under_damage(store: &TestStore) {
    let metrics = workload::metrics();
    let config =
        format!("{CONFIG}[limits]\nuser = {{ per_second = 100000, burst = 1000000 }}\n{metrics}");
    // High positions: a restarted log does not reach its position before the consumer notices.
    let mut client = store.server.client();
    for partition in 0..PARTITIONS {
        client.ok(&format!(
            "HSET {} {partition} 100001",
            store.positions(partition)
        ));
    }
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    let size = WorkloadSize {
        clients: 4,
        users: 10,
        notes: 60,
        actions_per_client: 500,
        batch: 10,
        erasures: 0,
    };
    let mut random = Random(11);
    let model = run_clients(std::slice::from_ref(&api), 7, size, |progress| {
        for round in 0..40 {
            progress.wait_for(round * size.total() / 40);
            damage((store, &api), &mut client, &mut random, progress);
            reset_failed(store);
        }
    });
    repair(store, &api);
    wait_until_drained(&store.server, PARTITIONS);
    assert_matches_model(&api, &model, size);
    assert_invariants(&store.server, &config);
}

#[test]
fn acknowledged_actions_count_once_under_damage() {
    assert_acknowledged_actions_count_once_under_damage(&module());
}

#[test]
fn acknowledged_actions_count_once_under_damage_in_cluster_mode() {
    assert_acknowledged_actions_count_once_under_damage(&cluster());
}
