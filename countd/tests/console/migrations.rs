//! The page of reconciliation shows what the last run of each migration of storage has done.

use super::browser::Browser;
use super::start;
use crate::support::stores::{TestStore, adoptable, for_each_store};
use crate::support::{Countd, Running, on_note, printed, run, wait_until_drained};
use countint_tests::wait_until;

const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";
const PARTITIONS: u16 = 16;

for_each_store! {
    [objects cluster_objects]
    a_migration_shows_its_step_its_counts_and_its_end
}

/// The row of a migration in the table of runs.
fn row(browser: &Browser, name: &str) -> String {
    let page = browser.page("/admin/reconciliation").text;
    let table = page.split("Last sign of life").nth(1).unwrap_or_default();
    let mut rows = table.split("<tr>");
    let head = format!("<th scope=\"row\">{name}</th>");
    let row = rows.find(|row| row.starts_with(&head));
    row.unwrap_or_default().to_owned()
}

/// Likes three notes, whose counters are objects.
fn like(store: &TestStore, config: &str) -> Countd {
    let countd = start(store, config);
    let api = countd.api();
    for note in 1..=3 {
        api.act("like", on_note(note, 42));
    }
    wait_until_drained(&store.server, PARTITIONS);
    countd
}

fn a_migration_shows_its_step_its_counts_and_its_end(store: TestStore) {
    let countd = like(&store, CONFIG);
    let browser = Browser::new(countd.port());
    assert_eq!(row(&browser, "Storage of note"), "");
    let waiting = ["storage", "migrate", "note", "--grace", "3600"];
    let mut running = Running::start(&store.server, CONFIG, &waiting);
    assert!(running.wait_for_step("grace period", 1));
    wait_until("the step is shown", || {
        row(&browser, "Storage of note").contains("<td>runs: grace period</td>")
    });
    let shown = row(&browser, "Storage of note");
    assert!(shown.contains("found 0, merged 0, moved 0"), "{shown}");
    running.kill();
    wait_until("the page says that it was killed", || {
        let stopped = "stopped while: grace period; run the command again";
        row(&browser, "Storage of note").contains(stopped)
    });
    // A damaged object: the run fails, and leaves it when it is asked to.
    let damaged = store.key("cnt:v1:note:9", "", "note:9");
    store.server.client().ok(&format!("SET {damaged} text"));
    let migrate = ["storage", "migrate", "note", "--grace", "0"];
    let failed = run(&store.server, CONFIG, &migrate);
    assert!(!failed.status.success());
    let shown = row(&browser, "Storage of note");
    assert!(shown.contains(": 1 objects cannot be moved"), "{shown}");
    printed(&run(
        &store.server,
        CONFIG,
        &[&migrate[..], &["--skip-damaged"]].concat(),
    ));
    let shown = row(&browser, "Storage of note");
    assert!(shown.contains("<td>ended <time"), "{shown}");
    assert!(
        shown.contains(", left 1, merged 0, moved 0, passes "),
        "{shown}"
    );
    store.server.client().ok(&format!("DEL {damaged}"));
    // Nothing of the other users of this server: those have no row.
    assert_eq!(row(&browser, "Storage of user"), "");
    let other = ["storage", "migrate", "user", "--grace", "0"];
    printed(&run(&store.server, CONFIG, &other));
    let shown = row(&browser, "Storage of user");
    assert!(shown.contains("<td>ended <time"), "{shown}");
}

#[test]
fn the_objects_that_a_run_has_moved_are_counted() {
    let store = crate::support::stores::objects();
    let countd = like(&store, CONFIG);
    let browser = Browser::new(countd.port());
    let migrate = ["storage", "migrate", "note", "--grace", "0", "--json"];
    let report: serde_json::Value =
        serde_json::from_str(&printed(&run(&store.server, CONFIG, &migrate))).expect("JSON");
    assert_eq!(report["moved"], 3, "{report}");
    let shown = row(&browser, "Storage of note");
    let passes = &report["passes"];
    let counts = format!("<td>found 3, left 0, merged 0, moved 3, passes {passes}</td>");
    assert!(shown.contains(&counts), "{counts}: {shown}");
    let keys = shown
        .split("<td class=\"right\">")
        .nth(1)
        .unwrap_or_default();
    let (visited, rest) = keys.split_once(" of ").expect("keys of all");
    let all = rest.split('<').next().unwrap_or_default();
    let number = |text: &str| text.replace(',', "").parse::<u64>().expect("a number");
    assert!(number(visited) == number(all) && number(all) > 3, "{keys}");
}

#[test]
fn the_values_that_an_adoption_has_converted_are_counted() {
    let mut store = adoptable();
    let countd = like(&store, CONFIG);
    let browser = Browser::new(countd.port());
    store.server.load_module();
    let adopt = ["storage", "adopt", "--grace", "0", "--json"];
    let report: serde_json::Value =
        serde_json::from_str(&printed(&run(&store.server, CONFIG, &adopt))).expect("JSON");
    // Counters and facts of three notes.
    assert!(report["converted"].as_u64() >= Some(6), "{report}");
    let shown = row(&browser, "Module");
    let [converted, moved, passes] = ["converted", "moved", "passes"].map(|name| &report[name]);
    let counts = format!("<td>converted {converted}, left 0, moved {moved}, passes {passes}</td>");
    assert!(shown.contains(&counts), "{counts}: {shown}");
    assert!(shown.contains("<td>ended <time"), "{shown}");
}
