//! Clients act while keys are damaged and repaired: what was acknowledged counts once.

use super::{CONFIG, IDS, PARTITIONS};
use crate::support::stores::{TestStore, cluster, module};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Progress, Random, Size, run_clients};
use crate::support::{Api, Countd, pause, printed, run, wait_until_drained};
use countint_tests::{Client, reply, wait_until};
use serde_json::Value as Json;

/// Damages a partition in a way in which nothing is lost, waits a moment, and repairs it as an operator does.
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
            let replies = client.pipeline(&args);
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
            progress.while_idle(|| {
                // Of what waits nothing would be left.
                repair(store, api);
                wait_until_drained(&store.server, PARTITIONS);
                client.run(&format!("DEL {log}"));
            });
        }
    }
}

/// Resets what begins again, as an operator does who has deleted a log of which nothing waited.
fn reset_failed(store: &TestStore) {
    let listed = printed(&run(&store.server, CONFIG, &["log", "list"]));
    for line in listed.lines() {
        let failed: Json = serde_json::from_str(line).expect("JSON");
        if failed["reason"]
            .as_str()
            .is_some_and(|error| error.contains("log reset"))
        {
            let partition = failed["partition"].to_string();
            // A consumer may have been quicker.
            run(
                &store.server,
                CONFIG,
                &["log", "reset", &partition, "--uncounted", "all"],
            );
        }
    }
}

fn repair(store: &TestStore, api: &Api) {
    wait_until("all is repaired", || {
        reset_failed(store);
        api.get("/readyz").0 == 200
    });
}

fn what_is_acknowledged_counts_once_whatever_is_damaged(store: &TestStore) {
    let config = format!("{CONFIG}[limits]\nuser = {{ per_second = 100000, burst = 1000000 }}\n");
    // No log that begins again comes near its position before that is noticed.
    let mut client = store.server.client();
    for partition in 0..PARTITIONS {
        client.ok(&format!(
            "HSET {} {partition} 100001",
            store.positions(partition)
        ));
    }
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    let size = Size {
        clients: 4,
        users: 10,
        notes: 60,
        each: 500,
        batch: 10,
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
}

#[test]
fn the_model_holds_while_keys_are_damaged() {
    what_is_acknowledged_counts_once_whatever_is_damaged(&module());
}

#[test]
fn the_model_holds_while_keys_are_damaged_in_cluster_mode() {
    what_is_acknowledged_counts_once_whatever_is_damaged(&cluster());
}
