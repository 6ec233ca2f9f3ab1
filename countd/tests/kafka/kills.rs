//! A randomised test: clients act through the API and produce into the topic while brokers, countd and Redis are killed. `COUNTINT_SEED`
//! chooses the seed, which is printed.

use super::{PARTITIONS, TOPIC_PARTITIONS, read, start};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{
    Brokers, Topic, config, expected, wait_until_counted, wait_until_published,
};
use crate::support::stores::module;
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Model, Progress, Random, WorkloadSize, run_clients};
use crate::support::{Api, Countd, on_note, printed, run, wait_until_drained};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 8,
    users: 20,
    notes: 200,
    actions_per_client: 1_500,
    batch: 25,
    erasures: 2,
};
const LIMITS: &str = "[limits]\nuser = { per_second = 100000, burst = 1000000 }\n";
/// The number of kills.
const KILLS: u64 = 16;

fn seed() -> u64 {
    let seed = std::env::var("COUNTINT_SEED").ok();
    seed.map_or(1, |seed| seed.parse().expect("COUNTINT_SEED is a number"))
}

/// Produces reads until it is stopped, as another client and through the API without idempotency keys. Their number is that of the records.
fn produce(topic: &Topic, api: &Api, seed: u64, stop: &AtomicBool) {
    let mut random = Random(seed);
    while !stop.load(Relaxed) {
        let records: Vec<_> = (0..50).map(|i| read(random.below(SIZE.notes), i)).collect();
        topic.produce(&records);
        for _ in 0..5 {
            let action = on_note(random.below(SIZE.notes), 1);
            // A failed action may be in the topic, or not.
            let _ = api.try_post("/action/read", &action.to_string());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn everything_counts_once_whatever_is_killed() {
    let seed = seed();
    eprintln!("COUNTINT_SEED={seed}");
    let mut random = Random(seed);
    let mut brokers = Brokers::start(3, TOPIC_PARTITIONS);
    let mut store = module();
    let addresses = brokers.addresses();
    let config = &format!(
        "{LIMITS}{}{}",
        config(&addresses, PARTITIONS, "timeout_ms = 3000"),
        workload::metrics()
    );
    let mut processes = ["serve", "consume", "all"].map(|command| start(&store, config, command));
    let apis = [processes[0].api(), processes[2].api()];
    let (topic, stop) = (brokers.topic(), AtomicBool::new(false));
    let mut model = Model::default();
    thread::scope(|scope| {
        let producing = scope.spawn(|| {
            let producer = Topic::new(&addresses, &[]);
            produce(&producer, &apis[0], seed + 1, &stop);
        });
        model = run_clients(&apis, seed, SIZE, |progress| {
            kill(&mut random, progress, &mut brokers, &mut processes, || {
                store.server.kill();
                store.server.start_again();
            });
        });
        stop.store(true, Relaxed);
        producing.join().expect("it ends");
    });
    let records = wait_until_counted(&store, &topic, PARTITIONS);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_published(&store, PARTITIONS);
    // The reads of the workload have idempotency keys, so they are in the streams. Those in the topic are added.
    let mut reads = 0;
    for ((metric, entity), count) in expected(&records) {
        if metric == "read" {
            let note = entity
                .strip_prefix("note:")
                .and_then(|note| note.parse().ok());
            let sum = model
                .counts
                .entry(("read", note.expect("a note")))
                .or_default();
            *sum += u64::try_from(count).expect("only additions");
            reads += count;
        }
    }
    eprintln!("{reads} reads in the topic of {} records", records.len());
    assert!(reads > 500);
    assert_matches_model(&apis[0], &model, SIZE);
    assert_invariants(&store.server, config);
    assert_eq!(printed(&run(&store.server, config, &["dead", "list"])), "");
}

/// Kills something at random points of the progress of the clients, and starts it again.
fn kill(
    random: &mut Random,
    progress: &Progress,
    brokers: &mut Brokers,
    processes: &mut [Countd; 3],
    mut kill_redis: impl FnMut(),
) {
    let slice = SIZE.total() / KILLS;
    for kill in 0..KILLS {
        progress.wait_for(kill * slice + random.below(slice));
        let what = random.below(8);
        eprintln!(
            "kill {kill}: {}",
            ["countd", "broker", "Redis"][[0, 0, 0, 1, 1, 1, 1, 2][what as usize]]
        );
        match what {
            process @ 0..=2 => {
                let process = &mut processes[process as usize];
                process.kill();
                thread::sleep(Duration::from_millis(random.below(800)));
                process.launch();
            }
            // The leader of some partitions, and perhaps the active controller.
            3..=5 => {
                let node = random.below(3) as usize;
                brokers.kill(node);
                thread::sleep(Duration::from_millis(random.below(3_000)));
                brokers.launch(node);
            }
            // Without a majority: nothing can be produced for a moment.
            6 => {
                let node = random.below(3) as usize;
                let other = (node + 1) % brokers.len();
                brokers.kill(node);
                brokers.kill(other);
                thread::sleep(Duration::from_millis(random.below(3_000)));
                brokers.spawn(node);
                brokers.launch(other);
            }
            _ => kill_redis(),
        }
    }
}
