//! Rows that cannot be counted are set aside with the reason, and do not stop the others.

use super::{Shop, payload, row};
use crate::support::database::{Kind, for_each_database};
use crate::support::{metric, printed, run};
use countint_tests::page;

/// Rows that cannot be counted, and a part of the reason of each.
fn poison() -> Vec<(String, &'static str)> {
    let good = payload(1, 1);
    let of = |id: &str, event_type: &str, etype: &str, eid: &str, payload: &str| {
        row(id, event_type, etype, eid, payload)
    };
    vec![
        (of("p-1", "like", "note", "1", "nonsense"), "payload: "),
        (of("p-2", "like", "note", "1", "[]"), "must be an object"),
        (of("p-3", "like", "note", "1", "{\"delta\": 1}"), "uid"),
        (of("p-4", "later", "note", "1", &good), "no metric later"),
        (of("p-5", "like", "cat", "1", &good), "no entity type cat"),
        (of("p:6", "like", "note", "1", &good), "event_id: "),
        (of("p-7", "like", "note", "a b", &good), "aggregate_id: "),
        (
            of(
                "p-8",
                "like",
                "note",
                "1",
                "{\"delta\": 1, \"uid\": 1, \"eid\": 2}",
            ),
            "eid",
        ),
        (
            of(
                "p-9",
                "like",
                "note",
                "1",
                "{\"delta\": 1, \"uid\": \"\u{1f600}\"}",
            ),
            "payload: ",
        ),
    ]
}

fn poisoned_rows_are_set_aside_with_the_reason(kind: Kind) {
    let shop = Shop::start(kind, "batch = 50");
    shop.like(0, 200);
    let bad: Vec<String> = poison().into_iter().map(|(row, _)| row).collect();
    shop.insert(&bad);
    shop.like(200, 400);
    let relay = shop.relay();
    shop.wait_until_relayed();
    shop.assert_liked(400);
    let reasons = shop.database.texts("SELECT reason FROM event_outbox_dead");
    assert_eq!(reasons.len(), poison().len(), "{reasons:?}");
    for (_, part) in poison() {
        assert!(
            reasons.iter().any(|reason| reason.contains(part)),
            "{part}: {reasons:?}"
        );
    }
    assert_eq!(
        metric(&relay.api(), "countd_relay_dead_total"),
        poison().len() as u64
    );
    assert_eq!(metric(&relay.api(), "countd_relay_sent_total"), 400);
    assert!(relay.log().contains("rows cannot be counted"));
    assert_eq!(
        printed(&run(&shop.store.server, &shop.config, &["dead", "list"])),
        ""
    );
}

/// A full batch of them, also when rows are kept.
fn a_batch_of_poisoned_rows_does_not_stop_the_rest(kind: Kind) {
    let shop = Shop::start(kind, "batch = 10\nconnections = 1\nsent = \"mark\"");
    let bad = (0..35).map(|i| row(&format!("bad-{i}"), "later", "note", "1", &payload(1, i)));
    shop.insert(&bad.collect::<Vec<_>>());
    shop.like(0, 100);
    let _relay = shop.relay();
    shop.wait_until_relayed();
    shop.assert_liked(100);
    assert_eq!(shop.database.count("event_outbox"), 100);
    assert_eq!(
        shop.database
            .count("event_outbox_dead WHERE event_type = 'later'"),
        35
    );
}

fn rows_that_were_set_aside_can_be_sent_again(kind: Kind) {
    let shop = Shop::start(kind, "");
    shop.insert(&[
        row("a", "later", "note", "1", &payload(2, 1)),
        row("b", "later", "note", "1", "nonsense"),
    ]);
    let _relay = shop.relay();
    shop.wait_until_relayed();
    printed(&run(
        &shop.store.server,
        &shop.config,
        &["schema", "extend", "v1", "later"],
    ));
    let blocks = page::read("docs/countd/relay.md").into_iter();
    let mut blocks = blocks.filter(|block| block.mark == "sql" && block.lead.contains("again"));
    let again = blocks.next().expect("a documented statement").text();
    shop.database.execute(&again);
    shop.wait_until_relayed();
    let api = shop.api();
    let counts = api.ok(api.get("/counter/note/1?metrics=later"));
    assert_eq!(counts["counts"]["later"], 2);
    assert_eq!(
        shop.database
            .texts("SELECT event_id FROM event_outbox_dead"),
        ["b"]
    );
}

for_each_database! {
    poisoned_rows_are_set_aside_with_the_reason
    a_batch_of_poisoned_rows_does_not_stop_the_rest
    rows_that_were_set_aside_can_be_sent_again
}
