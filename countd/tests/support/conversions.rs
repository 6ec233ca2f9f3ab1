//! Conversions of data by commands that run while clients use the data, and that are killed: `countd storage migrate` and
//! `countd storage adopt`.

use super::api::Api;
use super::drain::wait_until_drained;
use super::invariants::assert_invariants;
use super::kafka::Log;
use super::process::{Countd, Settings, printed, run};
use super::running::Running;
use super::stores::TestStore;
use super::verify::assert_matches_model;
use super::workload::{Model, Progress, Random, WorkloadSize, run_clients, run_while};
use countint_tests::{Cluster, Server};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// The size of the workload while commands are killed.
const UNDER_KILLS: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 20,
    notes: 300,
    actions_per_client: 600,
    batch: 25,
    erasures: 1,
};

/// Notes that no client uses, so that only commands convert their counters.
const COLD: Range<u64> = 1_000_000..1_010_000;

/// Creates the counters of notes that no client uses, by the command with a note.
pub fn create_cold_notes(server: &Server, notes: Range<u64>, command: impl Fn(u64) -> String) {
    let words = |note| command(note).split(' ').map(str::to_owned).collect();
    let commands: Vec<Vec<String>> = notes.map(words).collect();
    // In a cluster, the commands of slots of other nodes are redirected, and do nothing.
    server.client().pipeline(&commands);
}

/// Asserts that notes whose counters a command was to convert have them: their reposts are their number.
#[track_caller]
pub fn assert_cold_notes(api: &Api, notes: Range<u64>) {
    for note in notes.step_by(97) {
        assert_eq!(api.counts(note)["repost"], note, "note {note}");
    }
}

/// What runs beside the clients of a workload until it is stopped.
pub trait Companion: Sync {
    /// What it has done.
    type Done: Send;

    /// Runs until `stop` is set.
    fn run(&self, api: &Api, stop: &AtomicBool) -> Self::Done;
}

/// Runs clients, a companion, and what converts the data meanwhile. Returns the model of the clients and what the companion has done.
pub fn run_clients_beside<C: Companion>(
    (companion, api): (&C, &Api),
    (apis, seed, size): (&[Api], u64, WorkloadSize),
    meanwhile: impl FnOnce(&Progress),
) -> (Model, C::Done) {
    let run = |_, stop: &_| companion.run(api, stop);
    let (model, mut done) = run_while(1, run, || run_clients(apis, seed, size, meanwhile));
    (model, done.remove(0))
}

/// Asserts that the data is that of the model, and that nothing is a dead letter.
#[track_caller]
pub fn assert_converted(
    (server, config): (&Server, &str),
    apis: &[Api],
    (model, size): (&Model, WorkloadSize),
    partitions: u16,
) {
    wait_until_drained(server, partitions);
    for api in apis {
        assert_matches_model(api, model, size);
    }
    assert_invariants(server, config);
    assert_eq!(printed(&run(server, config, &["dead", "list"])), "");
}

/// Moves slots of a cluster from the first node to the second one.
pub fn move_slots(cluster: &Cluster) {
    let (from, to) = (cluster.id(0), cluster.id(1));
    cluster.manage(&[
        "reshard",
        "{node}",
        "--cluster-from",
        &from,
        "--cluster-to",
        &to,
        "--cluster-slots",
        "2000",
        "--cluster-yes",
    ]);
}

/// A command that converts data, in runs for each of its targets.
pub struct Command<'a> {
    /// The targets.
    pub targets: &'a [&'a str],
    /// Starts the command for a target.
    pub start: &'a dyn Fn(&Server, &str) -> Running,
    /// Its steps at which it is killed, and which occurrence of each.
    pub steps: &'a [(&'a str, usize)],
    /// The step that is not repeated if the run before was killed only after it.
    pub last_layout: &'a str,
}

impl Command<'_> {
    /// Runs the command again and again, and kills it at each of its steps, with the other processes and the server in turn. Then it runs to
    /// its end.
    fn run_with_kills(
        &self,
        store: &mut TestStore,
        processes: &mut [Countd; 3],
        random: &mut Random,
    ) {
        for target in self.targets {
            for (kill, (step, times)) in self.steps.iter().enumerate() {
                let mut running = (self.start)(&store.server, target);
                if !running.wait_for_step(step, *times) {
                    let (succeeded, _, errors) = running.end();
                    assert!(succeeded && *step == self.last_layout, "{step}: {errors}");
                    continue;
                }
                thread::sleep(Duration::from_millis(random.below(50)));
                match kill % 5 {
                    process @ 0..=2 => {
                        processes[process].kill();
                        running.kill();
                        processes[process].launch();
                    }
                    3 => {
                        running.kill();
                        store.restart();
                    }
                    _ => running.kill(),
                }
                // Otherwise the next one waits until the lock expires.
                store.server.client().ok("DEL countd:migrate");
            }
            let (succeeded, _, errors) = (self.start)(&store.server, target).end();
            assert!(succeeded, "{errors}");
        }
    }

    /// Asserts that counts match the model when the command is killed at each step, while clients and a companion use the data. `cold` is the
    /// command of Redis that sets the reposts of a note. Returns what the companion has done, and the processes.
    pub fn assert_counts_match_under_kills<C: Companion>(
        &self,
        (store, log, partitions): (&mut TestStore, &Log, u16),
        cold: impl Fn(&TestStore, u64) -> String,
        begin: impl FnOnce(&mut TestStore, &Api) -> C,
    ) -> (C::Done, [Countd; 3]) {
        create_cold_notes(&store.server, COLD, |note| cold(store, note));
        let config = log.config.as_str();
        let settings = |command| Settings { command, config };
        let mut processes = ["serve", "consume", "all"]
            .map(|command| Countd::with(&store.server, &settings(command)));
        let apis = [processes[0].api(), processes[2].api()];
        let companion = begin(store, &apis[0]);
        let mut random = Random(13);
        let (model, done) = run_clients_beside(
            (&companion, &apis[0]),
            (&apis, 9, UNDER_KILLS),
            |progress| {
                progress.wait_for(UNDER_KILLS.total() / 4);
                self.run_with_kills(store, &mut processes, &mut random);
            },
        );
        let result = (&model, UNDER_KILLS);
        log.drain(&store.server, partitions);
        assert_converted((&store.server, config), &apis[..1], result, partitions);
        assert_cold_notes(&apis[1], COLD);
        (done, processes)
    }
}
