//! `countd reconcile --user`, and users in `countd reconcile --all`.

use super::{PARTITIONS, audit, field, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, on_note, printed, run, wait_until_drained, with};
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster cluster_objects]
    the_counters_of_a_user_are_reconciled
}

/// Without rounds, only the command corrects.
pub(super) const ONLY_COMMANDS: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n[reconcile]\nenabled = false\nmin_difference = 0\nmin_percent = 0.0\n[limits]\nuser = { per_second = 0, burst = 1000 }\n";

const COUNTERS: [&str; 4] = ["followings", "followers", "posts", "likesReceived"];

fn the_counters_of_a_user_are_reconciled(store: TestStore) {
    let countd = Countd::start(&store.server, ONLY_COMMANDS);
    let api = countd.api();
    for uid in [1, 2, 3] {
        for followed in ["7", "8", "a-7"] {
            api.act("follow", json!({ "eid": followed, "uid": uid }));
        }
        for (note, author) in [(5, "7"), (6, "7"), (9, "8")] {
            api.act(
                "like",
                with(on_note(note, uid), json!({ "author": author })),
            );
        }
    }
    for followed in ["1", "2"] {
        api.act("follow", json!({ "eid": followed, "uid": "7" }));
    }
    for note in [5, 6] {
        api.act("publish", on_note(note, 7));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let counts = |uid: &str| {
        let counts = &api.ok(api.get(&format!("/relation/counter?uid={uid}")))["counts"];
        COUNTERS.map(|name| counts[name].as_u64().expect("a number"))
    };
    let right = [2, 3, 2, 6];
    assert_eq!(counts("7"), right);
    let reconcile = |arguments: &[&str]| {
        let arguments = [&["reconcile"], arguments, &["--json"]].concat();
        let output = run(&store.server, ONLY_COMMANDS, &arguments);
        let report: Json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), report["metrics"].clone())
    };
    // Right counters stay.
    let (status, report) = reconcile(&["--user", "7", "--exact"]);
    assert_eq!(status, Some(0), "{report}");
    for name in COUNTERS {
        let of = &report[name];
        assert!(of["checked"].as_u64() >= Some(1), "{name}: {report}");
        assert_eq!((&of["differing"], &of["unchecked"]), (&json!(0), &json!(0)));
    }
    let forged = [10, 9, 5, 100];
    for (idx, count) in forged.into_iter().enumerate() {
        forge(&store, "7", idx, count);
    }
    // Another user, who is not compared.
    forge(&store, "8", 1, 50);
    forge(&store, "a-7", 1, 0);
    let (status, report) = reconcile(&["--user", "7", "--dry-run"]);
    assert_eq!(status, Some(3), "{report}");
    for (at, name) in COUNTERS.into_iter().enumerate() {
        let of = &report[name];
        assert_eq!(of["largest"], forged[at] - right[at], "{name}: {report}");
        assert_eq!(of["corrected"], 0, "{name}: {report}");
    }
    assert_eq!(counts("7"), forged);
    let (status, report) = reconcile(&["--user", "7"]);
    assert_eq!(status, Some(0), "{report}");
    for name in COUNTERS {
        assert_eq!(report[name]["corrected"], 1, "{name}: {report}");
        assert_eq!(report[name]["differing"], 1, "{name}: {report}");
    }
    assert_eq!(counts("7"), right);
    assert_eq!(counts("8")[1], 50);
    // Users are among all.
    forge(&store, "8", 0, 4);
    let (status, report) = reconcile(&["--all", "--dry-run"]);
    assert_eq!(status, Some(3), "{report}");
    assert_eq!(report["followings"]["largest"], 4, "{report}");
    let (status, report) = reconcile(&["--all"]);
    assert_eq!(status, Some(0), "{report}");
    assert_eq!(report["followers"]["corrected"], 2, "{report}");
    assert_eq!(report["followings"]["corrected"], 1, "{report}");
    assert_eq!(counts("8"), [0, 3, 0, 3]);
    assert_eq!(counts("a-7")[1], 3);
    let mut corrections: Vec<[String; 3]> = audit(&store, &mut store.server.client())
        .iter()
        .map(|entry| ["eid", "metric", "difference"].map(|name| field(entry, name).to_owned()))
        .collect();
    corrections.sort();
    let expected = [
        ["7", "followers", "-6"],
        ["7", "followings", "-8"],
        ["7", "likesReceived", "-94"],
        ["7", "posts", "-3"],
        ["8", "followers", "-47"],
        ["8", "followings", "-4"],
        ["a-7", "followers", "3"],
    ];
    assert_eq!(corrections, expected);
    let table = printed(&run(
        &store.server,
        ONLY_COMMANDS,
        &["reconcile", "--user", "7"],
    ));
    for name in COUNTERS {
        assert!(table.contains(name), "{table}");
    }
    let invalid = run(&store.server, ONLY_COMMANDS, &["reconcile", "--user", ""]);
    assert_eq!(invalid.status.code(), Some(1));
}
