//! The console shows the differences that all processes have found.

use super::setup::{EXACT_ROUNDS, LIKE, PARTITIONS, config, differences, forge};
use crate::console::browser::Browser;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, Settings, metric, on_note, set_schema, wait_until_drained};
use countint_tests::{reply, wait_until};
use std::time::SystemTime;

for_each_store! {
    [module plain cluster]
    corrections_of_consumers_are_on_the_page_of_a_process_that_serves
}

const NOTES: u64 = 12;

/// The number of comparisons in a row of the histogram; 0 without the row.
fn comparisons(browser: &Browser, row: &str) -> u64 {
    let page = browser.page("/admin").text;
    let row = format!("<th scope=\"row\">{row}</th><td class=\"right\">");
    let number = page
        .split(&row)
        .nth(1)
        .and_then(|rest| rest.split('<').next());
    number.map_or(0, |number| {
        number.replace(',', "").parse().expect("a number")
    })
}

/// The number of differences above 1 and up to 10 that a process has found since its start.
fn found_by(consumer: &Countd) -> u64 {
    let api = consumer.api();
    let up_to = |bound: &str| {
        let labels = format!("{{source=\"reconcile\",le=\"{bound}\"}}");
        metric(&api, &format!("countd_counter_difference_bucket{labels}"))
    };
    let below = up_to("1");
    up_to("10") - below
}

fn corrections_of_consumers_are_on_the_page_of_a_process_that_serves(store: TestStore) {
    let config: &str = &config("now", EXACT_ROUNDS);
    set_schema(&store.server, config);
    let start = |command| Countd::with(&store.server, &Settings { command, config });
    let mut client = store.server.client();
    let hour = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs() / 3_600;
    // Of the day before.
    let past = format!("{}:100", hour - 30);
    client.ok(&format!("HSET countd:differences {past} 7"));
    let serve = start("serve");
    let browser = Browser::new(serve.port());
    let empty = "No process has compared a counter in the last 24 hours.";
    browser.page("/admin").assert_has(&[empty]);
    let consumers = [start("consume"), start("consume")];
    let api = serve.api();
    for eid in 0..NOTES {
        api.act("like", on_note(eid, 1));
    }
    wait_until_drained(&store.server, PARTITIONS);
    (0..NOTES).for_each(|eid| forge(&store, &format!("note:{eid}"), LIKE, 5));
    wait_until("all are corrected", || {
        differences(&store).len() == NOTES as usize
    });
    wait_until("the page has the corrections of both", || {
        comparisons(&browser, "up to 10") == NOTES
    });
    assert_eq!(consumers.iter().map(found_by).sum::<u64>(), NOTES);
    assert!(comparisons(&browser, "none") > 0);
    assert_eq!(comparisons(&browser, "up to 100"), 0);
    wait_until("past hours are removed", || {
        let found = client.ok(&format!("HEXISTS countd:differences {past}"));
        reply::int(found) == 0
    });
    // Those of processes that have ended stay, and a process that starts adds to them.
    drop((serve, consumers));
    let serve = start("serve");
    let browser = Browser::new(serve.port());
    assert_eq!(comparisons(&browser, "up to 10"), NOTES);
    let _consumer = start("consume");
    forge(&store, "note:1", LIKE, 5);
    wait_until("the page has one more", || {
        comparisons(&browser, "up to 10") == NOTES + 1
    });
}
