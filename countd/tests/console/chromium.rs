//! The pages in Chromium: see countd/tests/browser.

use super::{CONFIG, bury, event, start};
use crate::support::stores::module;
use crate::support::{on_note, printed, run, wait_until_drained, with};
use serde_json::json;
use std::process::Command;

const TOKEN: &str = "a-token-of-operators";
/// Of both processes: each counts some of the events, announces their changes, and compares counters.
const SHARED: &str = "[changes]\nenabled = true\n[reconcile]\ninterval_seconds = 1\nsample = 1\n";

#[test]
#[ignore = "needs Chromium and Node: scripts/test-browser"]
fn pages_work_in_chromium() {
    let directory = std::env::var("COUNTINT_BROWSER").expect("scripts/test-browser sets it");
    let store = module();
    let demo = start(&store, &format!("{CONFIG}{SHARED}[http]\ndemo = true\n"));
    let with_tokens = format!(
        "{CONFIG}{SHARED}[hot]\nmin_rate = 1\n[auth]\ntokens = [{{ name = \"ops\", token = \"{TOKEN}\", rights = [\"admin\"] }}]\n"
    );
    let console = start(&store, &with_tokens);
    let api = demo.api();
    for uid in 42..52 {
        api.act("like", with(on_note(1, uid), json!({ "author": "7" })));
        api.act("read", on_note(1, uid));
    }
    let adjustment = json!({ "etype": "note", "eid": "1", "metric": "read", "add": 5, "reason": "reads of the old system" });
    api.ok(api.post("/counter/adjust", &adjustment));
    for metric in ["later", "never", "clap"] {
        bury(&store, &event(&json!({ "metric": metric })));
    }
    printed(&run(
        &store.server,
        CONFIG,
        &["schema", "extend", "v1", "later"],
    ));
    wait_until_drained(&store.server, super::PARTITIONS);
    let status = Command::new("node")
        .arg("pages.mjs")
        .current_dir(directory)
        .env("DEMO_URL", format!("http://127.0.0.1:{}", demo.port()))
        .env(
            "CONSOLE_URL",
            format!("http://127.0.0.1:{}", console.port()),
        )
        .env("TOKEN", TOKEN)
        .status();
    assert!(status.expect("node runs").success());
}
