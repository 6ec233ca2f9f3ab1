//! Days of existing data, and archived days.

use super::setup::{CONFIG, METRICS, PARTITIONS, assert_days_add_up, history, sum};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::StopOnDrop;
use crate::support::{Countd, Settings, set_schema, wait_until_drained};
use countint_tests::{Clock, reply, wait_until};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

mod of_tables {
    use super::*;

    for_each_store! {
        [module cluster]
        many_days_are_filled_in_several_calls
    }
}

for_each_store! {
    [module objects plain cluster]
    switched_on_for_existing_data_while_events_arrive
    archived_days_answer_as_before
    streams_of_past_days_are_deleted_in_any_case
    imports_keep_i2
}

fn on(eid: &str, uid: u64) -> Json {
    json!({ "etype": "note", "eid": eid, "uid": uid })
}

/// Waits until all metrics have their days, or none has.
fn wait_until_state(store: &TestStore, end: &str, count: usize) {
    let mut client = store.server.client();
    wait_until(&format!("{count} metrics are {end}"), || {
        let states = reply::array(client.call(&["HVALS", "countd:days-init"]));
        let states: Vec<String> = states.into_iter().map(reply::text).collect();
        states.iter().filter(|state| state.ends_with(end)).count() == count
    });
}

fn switched_on_for_existing_data_while_events_arrive(store: TestStore) {
    const IDS: [&str; 4] = ["1", "2", "300", "a.7"];
    let without = CONFIG
        .replace("daily = true", "")
        .replace("reads = \"stream\"", "");
    let mut countd = Countd::start(&store.server, &without);
    for uid in 1..=4 {
        for eid in IDS {
            for metric in METRICS {
                countd.api().act(metric, on(eid, uid));
            }
        }
    }
    // Some events are counted only by the process with days.
    countd.stop();
    let settings = Settings {
        command: "all",
        config: CONFIG,
    };
    let mut countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        scope.spawn(|| {
            let mut uid = 100;
            while !stop.load(Relaxed) {
                for eid in IDS {
                    for metric in METRICS {
                        api.act(metric, on(eid, uid));
                    }
                    api.act("unlike", on(eid, uid - 1));
                }
                uid += 1;
            }
        });
        wait_until_state(&store, "/on", METRICS.len());
        drop(stopping);
    });
    wait_until_drained(&store.server, PARTITIONS);
    for eid in IDS {
        assert_days_add_up(&store, &api, eid);
        let before = &history(&api, "like", eid)["before"];
        assert_eq!(before, 4, "what was counted before days were kept");
    }
    // Switched off, and on again.
    countd.stop();
    let mut off = Countd::with(
        &store.server,
        &Settings {
            command: "all",
            config: &without,
        },
    );
    wait_until_state(&store, "off", METRICS.len());
    off.api().act("like", on("1", 5));
    off.api().act("read", on("a.7", 5));
    wait_until_drained(&store.server, PARTITIONS);
    off.stop();
    let mut countd = Countd::with(&store.server, &settings);
    wait_until_state(&store, "/on", METRICS.len());
    for eid in IDS {
        assert_days_add_up(&store, &countd.api(), eid);
    }
    // A removal that found a total of 0, before the pass has reached its entity.
    countd.stop();
    let mut client = store.server.client();
    for eid in ["1", "a.7"] {
        let entity = format!("note:{eid}");
        let days = store.key(&format!("h:agg:like:{entity}"), "", &entity);
        client.call(&["HINCRBY", &days, "20261101", "-1"]);
    }
    client.ok("DEL countd:days-init");
    let countd = Countd::with(&store.server, &settings);
    wait_until_state(&store, "/on", METRICS.len());
    for eid in IDS {
        assert_days_add_up(&store, &countd.api(), eid);
    }
}

/// The rows of a table have more days than a call reads.
fn many_days_are_filled_in_several_calls(store: TestStore) {
    const ROWS: usize = 300;
    const DAYS: &str = "for year = 2010, 2014 do for month = 1, 12 do for day = 1, 3 do \
        redis.call('HSET', KEYS[1], string.format('%04d%02d%02d', year, month, day), 1) end end end";
    let config = CONFIG.replace("[log]", "[reconcile]\nenabled = false\n[log]");
    let without = config
        .replace("daily = true", "")
        .replace("reads = \"stream\"", "");
    let mut countd = Countd::start(&store.server, &without);
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let home = TestStore::partition("note:1", PARTITIONS);
    let is_home = |eid: &u64| TestStore::partition(&format!("note:{eid}"), PARTITIONS) == home;
    let table = store.counters("v1", "note:1", PARTITIONS);
    let mut client = store.server.client();
    for eid in (1..).filter(is_home).take(ROWS) {
        let entity = format!("note:{eid}");
        client.ok(&format!(
            "CTAB.BATCHINCR {table} {eid} LEN 5 0 {}",
            500 + eid
        ));
        let days = store.key(&format!("h:agg:read:{entity}"), "", &entity);
        client.call(&["EVAL", DAYS, "1", &days]);
    }
    countd.stop();
    let scans = || store.calls_of("ctab.scan");
    let before = scans();
    let _countd = Countd::with(&store.server, &settings);
    wait_until_state(&store, "/on", METRICS.len());
    // 200 rows a call, without the days.
    let metrics = METRICS.len() as u64;
    assert!(scans() - before > 2 * metrics, "{}", scans() - before);
    assert_invariants(&store.server, &config);
}

fn archived_days_answer_as_before(store: TestStore) {
    let clock = Clock::new();
    let config = format!("{CONFIG}[days]\nkeep = 3\narchive_interval_seconds = 1\n");
    set_schema(&store.server, &config);
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let countd = Countd::with_clock(&store.server, &settings, &clock);
    let api = countd.api();
    for eid in ["1", "a.7"] {
        for uid in 1..=3 {
            for metric in METRICS {
                api.act(metric, on(eid, uid));
            }
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    let mut keys = |pattern: &str| reply::array(client.call(&["KEYS", pattern])).len();
    let (hashes, streams) = (keys("h:agg:*"), keys("x:read:*"));
    assert_eq!(keys("h:agg:*:history*"), 0);
    assert!(streams >= 2, "{streams}");
    let read = |days: &str| {
        let path = format!("/history/comment/note/1{days}");
        api.ok(api.get(&path))
    };
    let before = read("");
    let range = format!(
        "?from={}&to={}",
        before["from"].as_str().expect("a date"),
        before["to"].as_str().expect("a date")
    );
    for step in 1..=4 {
        clock.set(step * 86_400);
        assert_eq!(read(&range), before, "day {step}");
    }
    wait_until("the days are archived", || {
        assert_eq!(read(&range), before);
        keys("h:agg:*:history*") == hashes && keys("h:agg:*") == hashes
    });
    assert_eq!(keys("x:read:*"), 0, "streams end with their day");
    for eid in ["1", "a.7"] {
        assert_days_add_up(&store, &api, eid);
    }
    // Counting goes on, and an unlike of an archived day counts today.
    api.act("unlike", on("1", 1));
    assert_eq!(sum(&history(&api, "like", "1")), 2);
    assert_days_add_up(&store, &api, "1");
}

/// The counts of an entity were lost, or `reads` is no longer set, or the metric has no days any more.
fn streams_of_past_days_are_deleted_in_any_case(store: TestStore) {
    let clock = Clock::new();
    let config = format!("{CONFIG}[days]\nkeep = 3\narchive_interval_seconds = 1\n");
    let without_reads = config.replace("reads = \"stream\"\n", "");
    let without_days = without_reads.replace("daily = true\n", "");
    set_schema(&store.server, &config);
    let mut client = store.server.client();
    let mut streams = || reply::array(client.call(&["KEYS", "x:read:note:*"])).len();
    for (step, later) in (0..).zip([&config, &without_reads, &without_days]) {
        let start = |config: &str| {
            let command = "all";
            Countd::with_clock(&store.server, &Settings { command, config }, &clock)
        };
        let mut countd = start(&config);
        for eid in ["1", "a.7"] {
            countd.api().act("read", on(eid, 1));
        }
        wait_until_drained(&store.server, PARTITIONS);
        assert_eq!(streams(), 2, "step {step}");
        countd.stop();
        let mut client = store.server.client();
        for eid in ["1", "a.7"] {
            let entity = format!("note:{eid}");
            let days = store.key(&format!("h:agg:read:{entity}"), "", &entity);
            client.ok(&format!("DEL {days}"));
        }
        clock.set((step + 1) * 4 * 86_400);
        let _countd = start(later);
        wait_until("the streams are deleted", || streams() == 0);
    }
}

fn imports_keep_i2(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for uid in 1..=3 {
        api.act("read", on("1", uid));
        api.act("comment", on("a.7", uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let dir = countint_tests::env::TempDir::new();
    let file = dir.path().join("counts.ndjson");
    let line = |eid: &str, metric: &str, count: u64| {
        json!({ "etype": "note", "eid": eid, "counts": { metric: count } }).to_string()
    };
    let lines = [
        line("1", "read", 100),
        line("a.7", "comment", 50),
        line("9", "read", 7),
    ];
    std::fs::write(&file, lines.join("\n")).expect("the test's directory is writable");
    let file = file.display().to_string();
    for mode in ["add", "set"] {
        let name = format!("imported-{mode}");
        let arguments = ["import", "counts", "--job", &name, "--mode", mode, &file];
        // It reports a difference where it has added to an existing counter.
        crate::support::run(&store.server, CONFIG, &arguments);
        for eid in ["1", "a.7", "9"] {
            assert_days_add_up(&store, &api, eid);
        }
    }
    assert_eq!(history(&api, "read", "1")["before"], 97);
}
