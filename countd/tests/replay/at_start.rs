//! `counter.rebuild.enabled`: a consumer rebuilds counters when it starts.

use super::setup::{READ, config, corrections, leftovers, wait_until_archived};
use crate::reconcile::setup::{PARTITIONS, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, Settings, on_note, set_schema, wait_until_drained};
use countint_tests::env::TempDir;
use countint_tests::wait_until;

for_each_store! {
    [module plain cluster]
    a_consumer_rebuilds_counters_when_it_starts
}

fn a_consumer_rebuilds_counters_when_it_starts(store: TestStore) {
    let dir = TempDir::new();
    let config = config(&dir.path().join("archive"), "");
    set_schema(&store.server, &config);
    let mut countd = Countd::with(
        &store.server,
        &Settings {
            command: "all",
            config: &config,
        },
    );
    let api = countd.api();
    for eid in 1..=5 {
        for uid in 0..eid {
            api.ok(api.post("/action/read", &on_note(eid, uid)));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    forge(&store, "note:2", READ, 700);
    forge(&store, "note:4", READ, -3);
    countd.stop();
    let config = format!("{config}[counter.rebuild]\nenabled = true\n");
    // Until both run, another process has the lock.
    let mut client = store.server.client();
    client.ok("SET countd:migrate other");
    let processes = ["consume", "all"].map(|command| {
        let config = &config;
        Countd::with(&store.server, &Settings { command, config })
    });
    client.ok("DEL countd:migrate");
    let api = processes[1].api();
    let counts = || (1..=5).map(|eid| api.counts(eid)["read"].clone());
    wait_until("the counters are rebuilt", || counts().eq(1..=5));
    let corrected = corrections(&store);
    let of = |eid: &str| corrected.get(&(eid.to_owned(), "read".to_owned())).copied();
    assert_eq!(
        (of("2"), of("4"), corrected.len()),
        (Some(-700), Some(3), 2)
    );
    let logs = |line: &str| {
        let logs = processes.iter().map(Countd::log);
        logs.filter(|log| log.contains(line)).count()
    };
    wait_until("one of them knows of the rebuild", || {
        logs("counters were rebuilt by another process") == 1
    });
    assert_eq!(logs("counters are rebuilt"), 1);
    assert!(leftovers(&store).is_empty(), "{:?}", leftovers(&store));
}
