//! The page of an entity shows its counts by day.

use super::browser::Browser;
use super::start;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, on_note, wait_until_drained};
use serde_json::Value as Json;

for_each_store! {
    [module plain cluster]
    the_counts_by_day_are_those_of_the_api
}

const PARTITIONS: u16 = 16;
const CONFIG: &str = r#"
[log]
partitions = 16
[consumer]
linger_ms = 5
[reconcile]
enabled = false
[metrics.read]
nature = "repeatable"
count = "batched"
daily = true
[metrics.like]
nature = "once"
count = "now"
daily = true
[metrics.comment]
nature = "repeatable"
count = "now"
"#;

/// The counts of a metric by day, and those before.
fn history(api: &Api, metric: &str) -> (Vec<(String, i64)>, i64) {
    let history = api.ok(api.get(&format!("/history/{metric}/note/1")));
    let items = history["items"].as_array().expect("items").iter();
    let days = items.map(|item: &Json| {
        let day = item["date"].as_str().expect("a date").to_owned();
        (day, item["count"].as_i64().expect("a count"))
    });
    (
        days.collect(),
        history["before"].as_i64().expect("a number"),
    )
}

/// The rows of the table of days: what is in the first column, and the numbers.
fn rows(page: &str) -> Vec<(String, Vec<i64>)> {
    let table = page.split("Last 30 days</h2>").nth(1).expect("the days");
    let table = table.split("</table>").next().unwrap_or_default();
    let rows = table.split("<th scope=\"row\">").skip(1);
    let rows = rows.map(|row| {
        let (head, cells) = row.split_once("</th>").expect("a row");
        let cells = cells.split("<td class=\"right\">").skip(1);
        let number = |cell: &str| cell.split('<').next().and_then(|text| text.parse().ok());
        let numbers = cells.map(|cell| number(cell).expect("a number"));
        (head.to_owned(), numbers.collect())
    });
    rows.collect()
}

fn the_counts_by_day_are_those_of_the_api(store: TestStore) {
    let countd = start(&store, CONFIG);
    let api = countd.api();
    for uid in 1..=5 {
        api.act("read", on_note(1, uid));
        api.act("comment", on_note(1, uid));
    }
    for uid in 1..=2 {
        api.act("like", on_note(1, uid));
    }
    // Another note.
    api.act("read", on_note(2, 1));
    wait_until_drained(&store.server, PARTITIONS);
    let (days, _) = history(&api, "like");
    assert_eq!(days.len(), 30);
    // An earlier day, and one that is not shown any more.
    let day = |at: usize| days[at].0.replace('-', "");
    let key = |metric: &str| store.key(&format!("h:agg:{metric}:note:1"), "", "note:1");
    let mut client = store.server.client();
    client.ok(&format!("HSET {} {} 4 20200131 7", key("read"), day(10)));
    client.ok(&format!("HSET {} {} 3", key("like"), day(11)));
    let page = Browser::new(countd.port()).page("/admin/entity?etype=note&eid=1");
    let [like, read] = ["like", "read"].map(|metric| history(&api, metric));
    let of_day = |at: usize| (days[at].0.clone(), vec![like.0[at].1, read.0[at].1]);
    let shown = rows(&page.text);
    // The latest day first; days without counts are left out. What is not counted by day is not shown.
    let expected = [
        of_day(29),
        of_day(11),
        of_day(10),
        ("before, and of no day".to_owned(), vec![like.1, read.1]),
    ];
    assert_eq!(shown, expected, "{}", page.text);
    assert_eq!(shown[0].1, [2, 5]);
    assert_eq!(
        (&shown[1].1[..], &shown[2].1[..]),
        (&[3, 0][..], &[0, 4][..])
    );
    for name in ["like", "read"] {
        page.assert_has(&[&format!(">{name}</th>")]);
    }
}
