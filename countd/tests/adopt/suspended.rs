//! Processes that are suspended during each change of the layout, and resumed when the adoption has gone on: the result matches the model.

use super::setup::{
    CONFIG, OTHER_FACT_STORES, PARTITIONS, assert_adopted, refused_calls, start, wait_for_layout,
};
use crate::support::conversions::assert_converted;
use crate::support::stores::{TestStore, adoptable, cluster_adoptable};
use crate::support::workload::{WorkloadSize, run_clients};
use crate::support::{Countd, Settings, set_schema, wait_until_drained};

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 20,
    notes: 300,
    actions_per_client: 800,
    batch: 25,
    erasures: 1,
};

/// The commands of the processes.
const COMMANDS: [&str; 3] = ["serve", "consume", "all"];

#[test]
fn counts_match_the_model_when_a_serving_process_sleeps_first() {
    assert_counts_match(adoptable(), &CONFIG, [0, 1, 2]);
}

#[test]
fn counts_match_the_model_when_a_consumer_sleeps_first() {
    assert_counts_match(adoptable(), &CONFIG, [1, 2, 0]);
}

#[test]
fn counts_match_the_model_when_processes_with_other_fact_stores_sleep() {
    assert_counts_match(adoptable(), &OTHER_FACT_STORES, [2, 0, 1]);
}

#[test]
fn counts_match_the_model_when_processes_sleep_in_cluster_mode() {
    assert_counts_match(cluster_adoptable(), &CONFIG, [2, 1, 0]);
}

/// The first process knows only `plain` when it is resumed and others write types of the module. The second one knows only
/// `plain-or-module` when nothing may be a String or a Set any more. The third one sleeps until the end.
fn assert_counts_match(mut store: TestStore, config: &'static str, order: [usize; 3]) {
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let processes = COMMANDS.map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let [first, second, third] = order.map(|process| &processes[process]);
    let model = run_clients(&apis, 19, SIZE, |progress| {
        progress.wait_for(SIZE.total() / 4);
        store.server.load_module();
        let server = &store.server;
        first.suspend();
        let mut adopting = start(server, config, &[]);
        // All others follow `plain-or-module` then.
        assert!(adopting.wait_for_step("grace period", 1));
        second.suspend();
        wait_for_layout(server, "module-or-plain");
        first.resume();
        assert!(adopting.wait_for_step("grace period", 1));
        third.suspend();
        wait_for_layout(server, "module");
        second.resume();
        let (succeeded, _, errors) = adopting.end();
        assert!(succeeded, "{errors}");
        third.resume();
    });
    let server = &store.server;
    eprintln!("{} calls were refused", refused_calls(server));
    wait_until_drained(server, PARTITIONS);
    assert_adopted(server, config);
    assert_converted((server, config), &apis, (&model, SIZE), PARTITIONS);
}
