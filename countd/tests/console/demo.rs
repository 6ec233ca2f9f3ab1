//! The demo: a page, and the figures of the logs.

use super::browser::Browser;
use super::{CONFIG, start};
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::wait_until_drained;
use serde_json::{Value as Json, json};

fn config() -> String {
    format!("{CONFIG}[http]\ndemo = true\n[changes]\nenabled = true\n")
}

fn figures(browser: &Browser) -> Json {
    serde_json::from_str(&browser.page("/demo/figures").text).expect("JSON")
}

fn the_figures_are_those_of_the_logs(store: TestStore) {
    let countd = start(&store, &config());
    let browser = Browser::new(countd.port());
    let page = browser.page("/demo");
    assert_eq!(
        page.text.matches("data-eid=").count(),
        20,
        "ten posts, twice"
    );
    assert_eq!(page.text.matches("data-uid=").count(), 2);
    assert_eq!(browser.send("HEAD", "/demo", &[], "").status, 200);
    assert_eq!(
        browser.page("/assets/demo.js").header("content-type"),
        "text/javascript; charset=utf-8"
    );
    let zero = json!({ "appended": 0, "counted": 0, "lag": 0 });
    assert_eq!(figures(&browser), zero);
    let api = countd.api();
    let eid = page.text.split("data-eid=\"").nth(1).expect("a post");
    let eid = eid.split('"').next().expect("an ID");
    for uid in 1..=5 {
        api.act("read", json!({ "etype": "note", "eid": eid, "uid": uid }));
    }
    wait_until_drained(&store.server, super::PARTITIONS);
    let figures = figures(&browser);
    assert_eq!(
        (&figures["counted"], &figures["lag"]),
        (&json!(5), &json!(0))
    );
    assert_eq!(figures["appended"], 5);
}

for_each_store!([module plain cluster] the_figures_are_those_of_the_logs);

#[test]
fn the_demo_is_off_by_default() {
    let store = module();
    let countd = start(&store, CONFIG);
    let browser = Browser::new(countd.port());
    for path in ["/demo", "/demo/figures"] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
}
