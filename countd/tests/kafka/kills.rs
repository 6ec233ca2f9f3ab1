//! A randomised test: clients act through the API and produce into the topic while brokers, countd and Redis are killed, and processes
//! suspended, in random order. With real brokers, and with fewer actions on a mock cluster. The seed is another one in each run, unless
//! `COUNTINT_SEED` sets it. `COUNTINT_ACTIONS` sets the number of actions with real brokers.

use super::brokers::begin;
use super::model::{KEPT_ROUNDS, assert_matches_workload, produce_reads, settings};
use super::{PARTITIONS, TOPIC_PARTITIONS, start};
use crate::model::{FEW, FULL, other_fact_stores};
use crate::support::Countd;
use crate::support::kafka::{Brokers, Mock, Topic, config};
use crate::support::stores::{TestStore, cluster, for_each_store, module, move_days_back};
use crate::support::workload::{
    self, Progress, Random, StopOnDrop, WorkloadSize, actions_or, run_clients, seed,
};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// As many actions as without Kafka, unless `COUNTINT_ACTIONS` sets another number.
fn size() -> WorkloadSize {
    const CLIENTS: u64 = 8;
    WorkloadSize {
        clients: CLIENTS,
        users: 20,
        notes: 200,
        actions_per_client: actions_or(FULL.total()).div_ceil(CLIENTS),
        batch: 25,
        erasures: 2,
    }
}

/// The commands of the processes.
const COMMANDS: [&str; 3] = ["serve", "consume", "all"];

/// What is killed. Processes are numbered as in [`COMMANDS`].
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// A process.
    Process(usize),
    /// A process is suspended beyond its session timeout, and resumed.
    Suspend(usize),
    /// One of the three brokers, which leads some partitions.
    Broker(usize),
    /// Two of the three brokers at once. Without them nothing can be appended.
    TwoBrokers,
    /// Redis.
    Redis,
}

/// Every process, every broker and Redis, so that no run leaves one out.
const KILLS: [Kill; 20] = [
    Kill::Process(0),
    Kill::Process(0),
    Kill::Process(0),
    Kill::Process(1),
    Kill::Process(1),
    Kill::Process(1),
    Kill::Process(2),
    Kill::Process(2),
    Kill::Process(2),
    Kill::Suspend(0),
    Kill::Suspend(1),
    Kill::Suspend(1),
    Kill::Suspend(2),
    Kill::Broker(0),
    Kill::Broker(1),
    Kill::Broker(2),
    Kill::TwoBrokers,
    Kill::Redis,
    Kill::Redis,
    Kill::Redis,
];

/// Fewer kills: each process, one broker and Redis.
const FEW_KILLS: [Kill; 7] = [
    Kill::Process(0),
    Kill::Process(1),
    Kill::Process(2),
    Kill::Suspend(1),
    Kill::Broker(1),
    Kill::Redis,
    Kill::Redis,
];

/// On a mock cluster, which is never killed.
const MOCK_KILLS: [Kill; 6] = [
    Kill::Process(0),
    Kill::Process(1),
    Kill::Process(2),
    Kill::Suspend(1),
    Kill::Redis,
    Kill::Redis,
];
const MOCK_SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 10,
    notes: 60,
    actions_per_client: 500,
    batch: 25,
    erasures: 1,
};

for_each_store! {
    [module cluster]
    everything_on_a_mock_cluster_counts_once_whatever_is_killed
}

fn everything_on_a_mock_cluster_counts_once_whatever_is_killed(store: TestStore) {
    let metrics = match store.is_cluster() {
        true => other_fact_stores(),
        false => workload::metrics(),
    };
    let mock = Mock::start(TOPIC_PARTITIONS);
    let cluster = (mock.addresses(), None);
    let reads = (seed(), KEPT_ROUNDS);
    assert_counts_once(cluster, store, &metrics, &MOCK_KILLS, reads, MOCK_SIZE);
}

/// Kills in random order: a Fisher-Yates shuffle.
fn shuffled(kills: &[Kill], random: &mut Random) -> Vec<Kill> {
    let mut kills = kills.to_vec();
    for last in (1..kills.len()).rev() {
        kills.swap(last, random.below(last as u64 + 1) as usize);
    }
    kills
}

/// Everything is killed with the module, and less in cluster mode with other fact stores, whose days pass and are compacted meanwhile.
#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn everything_counts_once_whatever_is_killed() {
    let seed = seed();
    let mut brokers = Brokers::start(3, TOPIC_PARTITIONS);
    for (name, store, metrics, kills, size) in [
        (
            "the module",
            module(),
            workload::metrics(),
            &KILLS[..],
            size(),
        ),
        (
            "other fact stores in cluster mode",
            cluster(),
            other_fact_stores(),
            &FEW_KILLS,
            FEW,
        ),
    ] {
        let begun = begin(&brokers, name);
        let cluster = (brokers.addresses(), Some(&mut brokers));
        let reads = (seed, u64::MAX);
        assert_counts_once(cluster, store, &metrics, kills, reads, size);
        eprintln!("{:.1?}", begun.elapsed());
    }
}

fn assert_counts_once(
    (addresses, brokers): (String, Option<&mut Brokers>),
    mut store: TestStore,
    metrics: &str,
    kills: &[Kill],
    (seed, rounds): (u64, u64),
    size: WorkloadSize,
) {
    let mut random = Random(seed);
    let more = format!("timeout_ms = 3000\n{}", settings(metrics));
    let config = &config(&addresses, PARTITIONS, &more);
    let mut processes = COMMANDS.map(|command| start(&store, config, command));
    let apis = [processes[0].api(), processes[2].api()];
    let (topic, stop) = (Topic::new(&addresses, &[]), AtomicBool::new(false));
    let done = thread::scope(|scope| {
        let producing = scope.spawn(|| {
            let producer = Topic::new(&addresses, &[]);
            produce_reads(&producer, &apis, (seed + 1, size.notes), rounds, &stop)
        });
        let stop = StopOnDrop(&stop);
        let model = run_clients(&apis, seed, size, |progress| {
            let at = (progress, size.total() / kills.len() as u64);
            let kills = shuffled(kills, &mut random);
            kill(&mut random, &kills, at, brokers, &mut processes, &mut store);
        });
        drop(stop);
        (model, producing.join().expect("it ends"))
    });
    assert_matches_workload(&apis[0], &store, config, &topic, done, size);
}

/// Kills at random points of the progress of the clients, each in its slice of this many actions, and starts what was killed again.
fn kill(
    random: &mut Random,
    kills: &[Kill],
    (progress, slice): (&Progress, u64),
    mut brokers: Option<&mut Brokers>,
    processes: &mut [Countd; 3],
    store: &mut TestStore,
) {
    let single = kills.iter().filter_map(|kill| match kill {
        Kill::Broker(node) => Some(*node),
        _ => None,
    });
    let single: Vec<usize> = single.collect();
    for (number, kill) in (0..).zip(kills.iter().copied()) {
        progress.wait_for(number * slice + random.below(slice));
        eprintln!("kill {number}: {kill:?}");
        match kill {
            Kill::Process(process) => {
                let process = &mut processes[process];
                process.kill();
                move_days_back(store, PARTITIONS);
                thread::sleep(Duration::from_millis(random.below(800)));
                process.launch();
            }
            // Beyond its session timeout of 500 ms, others read its partitions. Its clients wait, and repeat requests that fail.
            Kill::Suspend(process) => {
                let process = &processes[process];
                process.suspend();
                thread::sleep(Duration::from_millis(1_000 + random.below(1_000)));
                process.resume();
            }
            Kill::Broker(node) => {
                let brokers = brokers.as_mut().expect("real brokers");
                brokers.kill(node);
                thread::sleep(Duration::from_millis(random.below(3_000)));
                brokers.launch(node);
            }
            // The active controller moves only when its broker or both others are killed. Each broker is killed alone, and the pair are
            // the two whose single kills come last, so one of these kills hits the active controller in any order.
            Kill::TwoBrokers => {
                let brokers = brokers.as_mut().expect("real brokers");
                let pair = [single[1], single[2]];
                for node in pair {
                    brokers.kill(node);
                }
                thread::sleep(Duration::from_millis(random.below(3_000)));
                let [node, other] = pair;
                brokers.spawn(node);
                brokers.launch(other);
            }
            Kill::Redis => {
                store.server.kill();
                store.server.start_again();
            }
        }
    }
}
