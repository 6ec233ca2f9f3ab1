//! One relay appends events in the order of the key.

use super::{NOTES, PARTITIONS, Shop, payload, row};
use crate::support::database::{Kind, for_each_database};
use countint_tests::reply;

/// The `event_id`s of a printed log, which are numbers.
fn event_ids(log: &str) -> Vec<u64> {
    let after = log.split("event_id").skip(1);
    let number = |text: &str| {
        let digits = text.chars().skip_while(|c| !c.is_ascii_digit());
        let digits: String = digits.take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    after.map(number).collect()
}

fn batches_of_several_connections_keep_the_order(kind: Kind) {
    const ROWS: u64 = 2_100;
    let shop = Shop::start(kind, "batch = 7\nconnections = 8");
    let rows = (0..ROWS).map(|i| {
        let note = (i % NOTES).to_string();
        row(&i.to_string(), "comment", "note", &note, &payload(1, i))
    });
    shop.insert(&rows.collect::<Vec<_>>());
    let _relay = shop.relay();
    shop.wait_until_relayed();
    let mut client = shop.store.server.client();
    let mut found = 0;
    for partition in 0..PARTITIONS {
        let log = client.ok(&format!("XRANGE {} - +", shop.store.log(partition)));
        let ids = event_ids(&reply::format(&log));
        assert!(ids.is_sorted(), "partition {partition}: {ids:?}");
        found += ids.len() as u64;
    }
    assert_eq!(found, ROWS);
}

for_each_database! { batches_of_several_connections_keep_the_order }
